"""SpaceMap: two knobs of a search space against speed, and where a tuner has looked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from minitvm import tune
from minitvm.base import ArgumentError

from .boxes import Box, column, legend, text
from .controls import Frame, Layout, Select
from .figure import Figure
from .marks import Bar, Dot, Mark
from .plot import Axis, plot

WIDTH, LARGEST, SMALLEST = 640, 46, 18  # pixels: the widest picture, and the side of a cell
BATCH = 16  # trials per step of the animation
MAX_VALUES = 20  # most values of a knob that fit in the table


class Tried(NamedTuple):
    """A measured candidate: its values of both knobs, speed (0 if it failed) and batch."""

    across: int
    down: int
    speed: float
    batch: int


class SpaceMap(Figure):
    """Show the best speed for each pair of values of two knobs; play the batches of a search.

    task, trials     the tuned task, and its trials in the order of measuring
    across, down     the knobs, such as "tile_j[3]": part 3 (from 0, the outermost) of a split; by
                     default the innermost parts of the two splits with the most options
    batch            the number of trials of one step of the animation
    """

    def __init__(
        self,
        task: tune.Task,
        trials: Iterable[tune.Trial],
        across: str = "",
        down: str = "",
        *,
        batch: int = BATCH,
    ) -> None:
        self._task, self._trials, self._batch = task, tuple(trials), batch
        self._knobs = labels_of(task)
        names, first, second = tuple(self._knobs), *_usual(task, self._knobs)
        self.across = Select("knob", "", names, first).accept(across or first)
        self.down = Select("knob", "", names, second).accept(down or second)
        super().__init__()

    def _tried(self) -> list[Tried]:
        """Return the trials whose sketches have both knobs."""
        trials = list[Tried]()
        for n, trial in enumerate(self._trials):
            knobs = self._task.sketches[trial.candidate.sketch].space.knobs
            values = {
                name: int(value_by_option[option])
                for knob, option in zip(knobs, trial.candidate.row, strict=True)
                for name, value_by_option in parts_of(knob)
            }
            if self.across in values and self.down in values:
                speed = 0.0 if trial.result.error else tune.rate(self._task, trial.cost)
                cell = values[self.across], values[self.down]
                trials.append(Tried(*cell, speed, n // self._batch))
        return trials

    def _labels(self) -> tuple[dict[int, str], dict[int, str]]:
        return self._knobs[self.across], self._knobs[self.down]

    # --- what is shown ---

    def title(self) -> str:
        return f"{self._task.name}: {self.across} and {self.down}"

    def body(self) -> Box:
        """Draw a square for each pair of values of both knobs, as large as its best speed.

        The side of a square is relative to the best speed of all (a Hinton diagram).
        """
        columns, rows = ([*labels.values()] for labels in self._labels())
        x, y = Axis(title=self.across, names=columns), Axis(title=self.down, names=rows)
        best = best_of_cells(self._tried())
        most = max(best.values(), default=0.0)
        side = max(SMALLEST, min(LARGEST, (WIDTH - 90) / len(columns)))
        full = f"{most:.3g} {tune.rate_unit(self._task)}"
        samples = {
            "blue square": f"best speed here; a full square is {full}",
            "orange square": "the best of all",
            "cell": "not tried; a cross: all failed",
        }
        size = side * len(columns), side * len(rows)
        return column(
            text(self.title(), size=13, bold=True),
            plot(x, y, self._cells(best, most, side), *size, inner=True),
            legend(samples, WIDTH),
        )

    def _cells(
        self, best: Mapping[tuple[int, int], float], most: float, side: float
    ) -> Iterator[Mark]:
        """Draw the cells, each with a square, or with a cross if all its trials failed."""
        counts = Counter((t.across, t.down) for t in self._tried())
        across, down = self._labels()
        for c, value in enumerate(across):
            for r, row_value in enumerate(down):
                count, speed = counts[value, row_value], best.get((value, row_value), 0.0)
                outcome = (
                    f"best {speed:.4g} {tune.rate_unit(self._task)}" if speed else "all failed"
                )
                words = f"{count} trial{'s' * (count > 1)}, {outcome}" if count else "not tried"
                tip = f"{self.across} {across[value]}, {self.down} {down[row_value]}: {words}"
                yield Bar(c, r, c + 1, r + 1, "cell", f"cell:{c}:{r}", tip, inset=1, gap=2)
                if speed:
                    kind = "orange" if speed == most else "blue"
                    radius = (side / 2 - 4) * speed / most
                    yield Dot(c + 0.5, r + 0.5, kind, "", tip, radius, "square")
                elif count:
                    yield Dot(c + 0.5, r + 0.5, "crossed", "", tip, 0.15 * side, "cross")

    def ascii(self) -> str:
        """Return the table as text: percent of the best speed, "." for untried cells."""
        best, (across, down) = best_of_cells(self._tried()), self._labels()
        most = max(best.values(), default=0.0) or 1.0
        wide = max([4, *map(len, across.values())]) + 1
        head = max([len(self.down), *map(len, down.values())])
        lines = [f"{self.down:>{head}} | {self.across}: percent of the best speed"]
        lines.append(" " * head + " |" + "".join(f"{label:>{wide}}" for label in across.values()))
        for row_value, label in down.items():
            cells = [
                f"{100 * best[value, row_value] / most:.0f}" if (value, row_value) in best else "."
                for value in across
            ]
            lines.append(f"{label:>{head}} |" + "".join(f"{c:>{wide}}" for c in cells))
        return "\n".join(lines[:25])

    def layout(self) -> Layout:
        options = tuple(self._knobs)
        return Layout(
            controls=(
                Select("across", "across", options, self.across),
                Select("down", "down", options, self.down),
            ),
            frames=tuple(_frames(self._tried(), self._labels(), tune.rate_unit(self._task))),
            trail="seen",
        )


def best_of_cells(tried: Sequence[Tried]) -> dict[tuple[int, int], float]:
    """Map each measured pair of values (across, down) to its highest speed."""
    best: dict[tuple[int, int], float] = {}
    for t in tried:
        best[t.across, t.down] = max(best.get((t.across, t.down), 0.0), t.speed)
    return best


def _frames(
    tried: Sequence[Tried], labels: tuple[dict[int, str], dict[int, str]], unit: str
) -> Iterator[Frame]:
    """Yield a frame for all trials, then a frame for each batch: its cells and its best speed."""
    columns, rows = map(list, labels)
    yield Frame({}, "all trials; play to see where each batch has looked")
    for number, group in groupby(tried, lambda t: t.batch):
        batch = list(group)
        marks = {f"cell:{columns.index(t.across)}:{rows.index(t.down)}": "now" for t in batch}
        best = max(t.speed for t in batch)
        yield Frame(marks, f"batch {number + 1}: {len(batch)} trials, best {best:.4g} {unit}")


def parts_of(knob: tune.Knob) -> list[tuple[str, tune.Ints]]:
    """Return the name of each part of a knob, such as "tile_j[3]", and its value by option."""
    parts = knob.values.shape[1]
    names = [f"{knob.name}[{n}]" for n in range(parts)] if parts > 1 else [knob.name]
    return [*zip(names, knob.values.T, strict=True)]


def labels_of(task: tune.Task) -> dict[str, dict[int, str]]:
    """Return the knobs with 2 to MAX_VALUES values: the label of each value, in order."""
    labels: dict[str, dict[int, str]] = {}
    for knob in (knob for sketch in task.sketches for knob in sketch.space.knobs):
        for name, values in parts_of(knob):
            texts = map(str, knob.options if knob.kind == "choice" else values.tolist())
            labels.setdefault(name, {}).update(zip(values.tolist(), texts, strict=True))
    fit = {n: dict(sorted(v.items())) for n, v in labels.items() if 2 <= len(v) <= MAX_VALUES}
    if not fit:
        why = f"no knob has 2 to {MAX_VALUES} values"
        raise ArgumentError(f"a map of {task.name}", why, "TuningCurve")
    return fit


def _usual(task: tune.Task, knobs: Iterable[str]) -> tuple[str, str]:
    """Return the innermost parts of the two splits with the most options."""
    splits = {k.name: k for s in task.sketches for k in s.space.knobs if k.kind == "split"}
    innermost = (parts_of(k)[-1][0] for k in sorted(splits.values(), key=lambda k: -len(k)))
    names = [*dict.fromkeys([*(name for name in innermost if name in knobs), *knobs])]
    return names[0], names[min(1, len(names) - 1)]
