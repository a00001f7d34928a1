"""SpaceMap: two knobs of a search space against speed, and where a tuner has looked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from minitvm import tune
from minitvm.base import ArgumentError

from .controls import Frame, Layout, Select
from .scene import Scene
from .space_map_scene import Tried, map_lines, map_scene
from .visual import Visual

BATCH = 16  # trials per step of the animation
MOST = 20  # most values of a knob that fit in the table


class SpaceMap(Visual):
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
        self._task, self._trials = task, tuple(trials)
        self._batch = batch
        self._knobs = knobs_of(task)
        first, second = _usual(task, self._knobs)
        self._across, self._down = self._known(across or first), self._known(down or second)
        super().__init__()

    def _known(self, name: str) -> str:
        if name not in self._knobs:
            raise ArgumentError(
                f"knob {name!r}", "no such knob", f"one of {', '.join(self._knobs)}"
            )
        return name

    def _tried(self) -> list[Tried]:
        found = list[Tried]()
        for n, trial in enumerate(self._trials):
            across, down = (self._value(k, trial.candidate) for k in (self._across, self._down))
            if across is not None and down is not None:
                failed = bool(trial.result.error)
                speed = 0.0 if failed else tune.rate(self._task, trial.seconds)
                found.append(Tried(across, down, speed, n // self._batch))
        return found

    def _value(self, knob: str, candidate: tune.Candidate) -> int | None:
        """Return the value that a candidate gives to a knob; None if it does not have the knob."""
        name, part = _parts(knob)
        genes = self._task.sketches[candidate.sketch].space.genes
        for gene, option in zip(genes, candidate.row, strict=True):
            if gene.name == name and part < gene.values.shape[1]:
                return int(gene.values[option, part])
        return None

    def _labels(self) -> tuple[dict[int, str], dict[int, str]]:
        across, down = (_labels(self._task, k) for k in (self._across, self._down))
        return across, down

    # --- what is shown ---

    def scene(self) -> Scene:
        """Draw the table of the best speed for each pair of values of both knobs."""
        names = self._across, self._down
        return map_scene(self._task.name, names, self._labels(), self._tried())

    def ascii(self) -> str:
        """Return the table as text."""
        return "\n".join(map_lines((self._across, self._down), self._labels(), self._tried()))

    def layout(self) -> Layout:
        """Return the choice of both knobs, and a frame for each batch."""
        options = tuple(self._knobs)
        return Layout(
            controls=(
                Select("across", "across", options, self._across),
                Select("down", "down", options, self._down),
            ),
            frames=tuple(_frames(self._tried(), self._labels())),
            trail="seen",
        )

    def on(self, name: str, value: Any) -> None:
        """Change a knob."""
        if name == "across":
            self._across = value
        else:
            self._down = value


def _frames(
    tried: Sequence[Tried], labels: tuple[dict[int, str], dict[int, str]]
) -> Iterable[Frame]:
    """Yield a frame for all trials, then a frame for each batch: its cells and its best speed."""
    columns, rows = list(labels[0]), list(labels[1])
    yield Frame({}, "all trials; play to see where each batch has looked")
    for batch, group in groupby(tried, lambda t: t.batch):
        found = list(group)
        marks = {f"cell:{columns.index(t.across)}:{rows.index(t.down)}": "now" for t in found}
        best = max(t.speed for t in found)
        yield Frame(marks, f"batch {batch + 1}: {len(found)} trials, best {best:.4g} GFLOP/s")


def knobs_of(task: tune.Task) -> dict[str, int]:
    """Return the knobs with 2 to MOST different values, and how many values each has."""
    found: dict[str, int] = {}
    for sketch in task.sketches:
        for gene in sketch.space.genes:
            parts = gene.values.shape[1]
            for part in range(parts):
                name = f"{gene.name}[{part}]" if parts > 1 else gene.name
                count = len(set(gene.values[:, part].tolist()))
                if 2 <= count <= MOST:
                    found.setdefault(name, count)
    if not found:
        why = "no knob has 2 to 20 values"
        raise ArgumentError(f"a map of {task.name}", why, "TuningCurve")
    return found


def _usual(task: tune.Task, knobs: dict[str, int]) -> tuple[str, str]:
    """Return the innermost parts of the two splits with the most options."""
    genes = {g.name: g for s in task.sketches for g in s.space.genes if g.kind == "split"}
    names = [
        f"{g.name}[{g.values.shape[1] - 1}]"
        for g in sorted(genes.values(), key=lambda g: -len(g))
        if f"{g.name}[{g.values.shape[1] - 1}]" in knobs
    ]
    names += [k for k in knobs if k not in names]
    return names[0], names[min(1, len(names) - 1)]


def _parts(knob: str) -> tuple[str, int]:
    """Split "tile_j[3]" into ("tile_j", 3); a knob of one part has part 0."""
    name, _, rest = knob.partition("[")
    return name, int(rest.rstrip("]")) if rest else 0


def _labels(task: tune.Task, knob: str) -> dict[int, str]:
    """Return the label of each value of a knob, in order."""
    name, part = _parts(knob)
    found: dict[int, str] = {}
    for sketch in task.sketches:
        for gene in sketch.space.genes:
            if gene.name == name and part < gene.values.shape[1]:
                for option, value in zip(gene.options, gene.values[:, part].tolist(), strict=True):
                    found[value] = str(value) if gene.kind != "choice" else str(option)
    return dict(sorted(found.items()))
