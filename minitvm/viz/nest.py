"""The loop nest as a picture: a bar for each loop, nested as the loops are."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, te, tir

from .blocks import Block, Nest, nest_of
from .kinds import KINDS, ink
from .scene import Group, Rect, Scene, Shape, Text, folded_code, text_width

ROW, STEP, GAP, STRIP = 25, 16, 4, 20  # pixels: bar height, indentation, gap, width of a badge
FILLS = {  # the fill of a loop's block; the badge on its left has the hatch
    "serial": "pale_blue",
    "reduce": "pale_orange",
    "parallel": "pale_green",
    "vectorize": "pale_pink",
    "unroll": "pale_yellow",
    "tensorize": "pale_red",
    "bind": "pale_sky",
}
MOST_LINES = 24
LINE, MOST_LABEL = 15, 3  # of a statement's label: pixels per line, and the most lines


def nest_scene(
    program: te.Schedule | schedule.State | tir.PrimFunc | Nest, width: float = 430
) -> Scene:
    """Draw a loop nest as nested blocks; a loop's bar has the key "loop:<name>"."""
    nest = program if isinstance(program, Nest) else nest_of(program)
    shapes, bottom = nest_shapes(nest, 8, 8, width - 16)
    what = ", ".join(f"{b.label} {b.note}" for b in nest.all() if b.key.startswith("loop:"))
    return Scene(width, bottom + 8, shapes, "loop nest", f"loops, outermost first: {what}")


def nest_shapes(nest: Nest, x: float, y: float, width: float) -> tuple[tuple[Shape, ...], float]:
    """Draw a nest with its upper left corner at (x, y); return the shapes and the lower edge."""
    shapes: list[Shape] = []
    bottom = _column(nest.blocks, nest.lines, x, y, width, shapes)
    return tuple(shapes), bottom


def _column(
    blocks: tuple[Block, ...],
    lines: tuple[str, ...],
    x: float,
    y: float,
    width: float,
    shapes: list[Shape],
) -> float:
    """Draw blocks below each other: add their shapes to `shapes`; return the lower edge."""
    for b in blocks:
        place = len(shapes)
        end = y + ROW + LINE * (len(_label(b, width)) - 1)
        if b.inside:
            end = _column(b.inside, lines, x + STEP, end, width - STEP - GAP, shapes) + GAP
        shapes.insert(place, _bar(b, lines, x, y, width, end - y))
        y = end + GAP
    return y - GAP


def _bar(
    b: Block, lines: tuple[str, ...], x: float, y: float, width: float, height: float
) -> Group:
    """Draw one block without the blocks nested in it: its outline, badge, label and note."""
    tip = lines[b.first].strip()
    fill = FILLS.get(b.kind, b.kind)
    base = y + 17
    shapes: list[Shape] = [Rect(x, y, width, height, fill, radius=4)]
    left = x + _before(b)
    if b.kind in FILLS and (letter := KINDS[b.kind].letter):
        middle = x + 2 + STRIP / 2
        shapes.append(Rect(x + 3, y + 3, STRIP - 2, ROW - 6, b.kind, radius=3))
        shapes.append(Text(middle, base, letter, ink(b.kind), 12, anchor="middle", bold=True))
    for n, label in enumerate(_label(b, width)):
        at, loop = (left, base + LINE * n), b.kind in FILLS
        shapes.append(Text(*at, label, ink(fill), 12, mono=True, bold=loop))
    if b.note:
        shapes.append(Text(x + width - 8, base, b.note, ink(fill), 12, anchor="end"))
    return Group(tuple(shapes), b.key, tip)


def _before(b: Block) -> float:
    """Return the distance in pixels from the left edge of a bar to its label."""
    return STRIP + 8 if b.kind in FILLS and KINDS[b.kind].letter else 8


def _label(b: Block, width: float) -> list[str]:
    """Fold a bar's label into lines that fit its width; the label of a loop is one line."""
    room = width - _before(b) - 10 - (text_width(b.note, 12) + 10 if b.note else 0)
    return folded_code(b.label, room, 1 if b.kind in FILLS else MOST_LABEL)


def nest_ascii(nest: Nest, most: int = MOST_LINES) -> str:
    """Return the nest as text, with the letter of each loop that is not serial: P, V, U, ..."""
    lines = list(_rows(nest.blocks, 0))
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  … {len(lines) - most + 1} more lines"]
    return "\n".join(lines)


def _rows(blocks: tuple[Block, ...], depth: int) -> Iterator[str]:
    for b in blocks:
        letter = KINDS[b.kind].letter if b.kind in FILLS else ""
        text = f"{b.label}: {b.note}" if b.note else b.label
        yield f"{letter or ' '} {'  ' * depth}{text}"
        yield from _rows(b.inside, depth + 1)
