"""Pictures for puzzles: what a schedule visits, reads and misses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from minitvm import cachesim, te, tensor, viz

from .apart import record
from .checkers import Array
from .item import Picture
from .schedules import visits

CELL, EDGE = 26, 10  # pixels


class NumberGrid(viz.Visual):
    """Show a small table of numbers as a grid; cells with a negative number are empty.

    If all other numbers are equal, they mark their cells, and no digits are drawn.
    """

    def __init__(self, title: str, numbers: Array) -> None:
        self.title, self.numbers = title, np.atleast_2d(numbers)
        super().__init__()

    def scene(self) -> viz.Scene:
        rows, columns = self.numbers.shape
        width = max(CELL * columns, viz.text_width(self.title)) + 2 * EDGE
        return viz.Scene(width, CELL * (rows + 1) + EDGE, tuple(self._shapes()), self.title)

    def _shapes(self) -> Iterator[viz.Shape]:
        yield viz.Text(EDGE, 16, self.title)
        has_digits = len({n for n in self.numbers.flat if n >= 0}) > 1
        for (row, column), number in np.ndenumerate(self.numbers):
            x, y = EDGE + CELL * column, CELL * (row + 1)
            kind = "faint" if number < 0 else "read"
            yield viz.Rect(x, y, CELL - 2, CELL - 2, kind)
            if has_digits and number >= 0:
                yield viz.Text(x + 12, y + 17, f"{number}", viz.ink(kind), anchor="middle")

    def ascii(self) -> str:
        cells = [["." if n < 0 else f"{n}" for n in row] for row in self.numbers]
        wide = max(len(cell) for row in cells for cell in row)
        return "\n".join([self.title, *(" ".join(f"{c:>{wide}}" for c in row) for row in cells)])


def visits_picture(s: te.Schedule, tensors: Sequence[tensor.Tensor]) -> Picture:
    """Draw the number of the visit to each element of a matrix, 0 for the first."""
    grid = np.zeros(tensors[-1].shape, int)
    for number, place in enumerate(visits(s, tensors)):
        grid[place] = number
    return NumberGrid(f"the visits to {tensors[-1].name}", grid)


def misses_picture(
    cache: cachesim.Cache,
) -> Callable[[te.Schedule, Sequence[tensor.Tensor]], Picture]:
    """Return a function that draws the misses of each tensor of a schedule in `cache`."""

    def picture(s: te.Schedule, tensors: Sequence[tensor.Tensor]) -> Picture:
        run = viz.cache_run(record(s, tensors), cache)
        misses = {name: found.misses for name, found in viz.totals(run).items()}
        return viz.ScoreBars(misses, f"misses of each tensor, {run.replay.misses:,} in all", False)

    return picture
