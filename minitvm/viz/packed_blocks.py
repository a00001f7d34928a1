"""PackedBlocks: a small matrix and its memory, stored row by row and packed block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .boxes import Box, column, drawn, row, text
from .controls import Layout
from .figure import WIDTH, Figure
from .kinds import ink
from .scene import Group, Line, Rect, Shape, Text

SIDE, BLOCK = 8, 4  # numbers along a side of the matrix and of a block
AT = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)  # the addresses of the numbers, row by row
BLOCKS = AT.reshape(SIDE // BLOCK, SIDE // BLOCK, BLOCK, BLOCK)
ADDRESSES = {"before": AT, "after": BLOCKS.transpose(0, 2, 1, 3).reshape(SIDE, SIDE)}
KINDS = ("cell", "read", "seen", "cell")  # of the four blocks
CELL, TALL, STEP = 32, 22, WIDTH / SIDE**2  # pixels: a number in the matrix, and in memory
PIECES = {
    "before": (range(4, 36, 8), 4, "row by row: the blue block is 4 pieces, 8 addresses apart"),
    "after": (range(16, 17), 16, "block by block: the blue block is one piece of 16 addresses"),
}


class PackedBlocks(Figure):
    """Show where the numbers of a matrix are in memory, before and after packing in 4 x 4 blocks.

    Point at a number, and it lights up in both matrices and in both memories.
    """

    def title(self) -> str:
        return "a matrix of 8 x 8 in blocks of 4 x 4: the address of each number"

    def body(self) -> Box:
        before, after = (drawn(_matrix(w), CELL * SIDE, 24 + TALL * SIDE) for w in ADDRESSES)
        words = text("vta.pack(b, 4, 4)", mono=True, width=140, anchor="middle")
        arrow = column(words, drawn([Line(((0, 4), (140, 4)), "arrow", arrow=True)], 140, 8), gap=2)
        memories = (drawn(_memory(when), WIDTH, 66) for when in ADDRESSES)
        return column(
            text(self.title(), bold=True),
            row(before, arrow, after, gap=24, down=0.5),
            *memories,
            gap=14,
        )

    def ascii(self) -> str:
        rows = zip(*ADDRESSES.values(), strict=True)
        grid = ("   ".join(" ".join(f"{n:2}" for n in line) for line in pair) for pair in rows)
        return "\n".join((self.title(), *grid))

    def layout(self) -> Layout:
        parts = [f"{what} {when}" for what in ("matrix", "memory") for when in ADDRESSES]
        keys = {(part, n): f"{part}:{n}" for part in parts for n in range(SIDE**2)}
        links = {
            key: tuple(keys[part, n] for part in parts if part != own)
            for (own, n), key in keys.items()
        }
        return Layout(links=links)


def _cells(when: str) -> Iterator[tuple[int, int, int, int, str]]:
    """Yield number, row, column, address and kind of each number of the matrix."""
    for (y, x), address in np.ndenumerate(ADDRESSES[when]):
        yield int(AT[y, x]), y, x, int(address), KINDS[y // BLOCK * 2 + x // BLOCK]


def _matrix(when: str) -> Iterator[Shape]:
    """Draw the matrix with the address of each number."""
    yield Text(0, 13, f"addresses {when}", "text", 13, bold=True)
    for number, y, x, address, kind in _cells(when):
        left, top = x * CELL, 24 + y * TALL
        word = Text(left + CELL / 2, top + 16, str(address), ink(kind), 12, "middle")
        yield Group((Rect(left, top, CELL, TALL, kind), word), f"matrix {when}:{number}")


def _memory(when: str) -> Iterator[Shape]:
    """Draw the memory in the order of its addresses, and a bracket below each piece of a block."""
    starts, length, note = PIECES[when]
    yield Text(0, 13, f"memory {when}, {note}", "text", 13)
    for number, _, _, address, kind in _cells(when):
        yield Rect(address * STEP, 22, STEP, TALL, kind, f"memory {when}:{number}")
    for start in starts:
        left, right = start * STEP + 1, (start + length) * STEP - 1
        yield Line(((left, 47), (left, 51), (right, 51), (right, 47)), "line")
        yield Text(left, 64, str(start), "soft", 12)
