"""MemoryOrder: one small image in three layouts, in the order of its addresses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .boxes import Box, column, drawn, text
from .controls import Layout
from .figure import WIDTH, Figure
from .kinds import ink
from .scene import Group, Line, Rect, Shape, Text

IMAGE = np.array([[f"{c}{pixel}" for pixel in "abcd"] for c in range(8)]).reshape(2, 4, 2, 2)
ORDERS = {  # layout: the order of the dimensions block, channel of it, y, x; what one load takes
    "NCHW": ((0, 1, 2, 3), "channel 0 of four pixels; the channels of pixel a are 4 apart"),
    "NHWC": ((2, 3, 0, 1), "four channels of pixel a; those of pixel b are 8 further on"),
    "NCHW4c": ((0, 2, 3, 1), "four channels of pixel a; those of pixel b are 4 further on"),
}
NUMBERS = np.arange(IMAGE.size).reshape(IMAGE.shape)
CELL, TALL = 21, 24  # pixels: the size of an element
LEFT = WIDTH - 32 * CELL  # of the first address


class MemoryOrder(Figure):
    """Show where the elements of an image of 8 channels and 2 x 2 pixels lie in NCHW, NHWC, NCHW4c.

    Point at an element, and it lights up in all layouts.
    """

    def title(self) -> str:
        return "addresses from left to right; element 3b is channel 3 of pixel b"

    def body(self) -> Box:
        rows = (drawn(_row(name), WIDTH, TALL + 26) for name in ORDERS)
        return column(text(self.title(), bold=True), drawn(_image(), WIDTH, 78), *rows)

    def ascii(self) -> str:
        orders = (f"{n:7} {' '.join(IMAGE.transpose(o).flat)}" for n, (o, _) in ORDERS.items())
        return "\n".join((self.title(), *orders))

    def layout(self) -> Layout:
        names, numbers = ("image", *ORDERS), range(IMAGE.size)
        links = {(a, n): tuple(f"{b}:{n}" for b in names if b != a) for a in names for n in numbers}
        return Layout(links={f"{a}:{n}": others for (a, n), others in links.items()})


def _element(x: float, y: float, number: int, name: str) -> Group:
    """Draw an element; those of channels 0 to 3 of the pixels a and b have a colour."""
    word = str(IMAGE.flat[number])
    kind = {"a": "read", "b": "seen"}.get(word[1], "cell") if word[0] < "4" else "cell"
    shown = Text(x + CELL / 2, y + 16, word, ink(kind), 12, "middle")
    return Group((Rect(x, y, CELL, TALL, kind), shown), f"{name}:{number}")


def _image() -> Iterator[Shape]:
    """Draw the channels beside each other, each with its 2 x 2 pixels."""
    for channel, plane in enumerate(NUMBERS.reshape(8, 2, 2)):
        x = LEFT + channel * 4 * CELL
        yield Text(x + CELL, 12, f"channel {channel}", "soft", 12, "middle")
        for (y, dx), number in np.ndenumerate(plane):
            yield _element(x + dx * CELL, 20 + y * TALL, int(number), "image")


def _row(name: str) -> Iterator[Shape]:
    """Draw the elements in the order of a layout, with a bracket below what one load takes."""
    order, takes = ORDERS[name]
    yield Text(0, 17, name, size=13, bold=True)
    for at, number in enumerate(NUMBERS.transpose(order).flat):
        yield _element(LEFT + at * CELL, 0, int(number), name)
    left, right = LEFT + 2, LEFT + 4 * CELL - 2
    yield Line(((left, TALL + 3), (left, TALL + 8), (right, TALL + 8), (right, TALL + 3)), "line")
    yield Text(right + 8, TALL + 14, f"a vector load takes {takes}", "soft", 12)
