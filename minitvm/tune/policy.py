"""Policies: which candidates to measure next, given the trials so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from minitvm.base import ArgumentError, Target

from .legal import restricted
from .sketch import Sketch
from .space import Rows, Space
from .statements import statements
from .task import Candidate, Task
from .trial import Result

FEW_ROWS = 4096  # a space of at most this many rows is enumerated instead of sampled,
FEW_SHAPES = 16  # if it has at most this many shapes
DRAWS = 8  # after this many draws without a new row, the space counts as exhausted


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured candidate.

    time      when it was measured, in seconds since 1970
    default   the cost of the default schedule, measured before the search; in a final
              measurement, the median of the same rounds; None if not known
    final     whether this is a measurement at the end of a search, alternately with the default
    """

    candidate: Candidate
    result: Result
    time: float = 0.0
    default: float | None = None
    final: bool = False

    @property
    def cost(self) -> float:
        """Return the lowest cost of one call; in a final measurement, the median of the rounds.

        The unit is that of the target: seconds, or modelled cycles. Returns infinity if the
        measurement failed.
        """
        return self.result.cost(self.final)

    @property
    def seconds(self) -> float:
        """Return `cost`; raise MeasureError if its unit is not seconds."""
        return self.result.in_seconds(self.cost)


class Policy(Protocol):
    """A search strategy. `run` calls both methods from one thread."""

    def propose(self, count: int) -> Sequence[Candidate]:
        """Return up to `count` candidates to measure next; empty if all have been proposed."""
        ...

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Take new trials into account.

        Returns the pairwise accuracy of the policy's earlier predictions for these trials; None if
        it made no predictions.
        """
        ...


def spaces_of(task: Task) -> list[Space]:
    """Return the spaces of a task's sketches without rows that are not worth measuring.

    A space keeps all its rows if the statements of its sketch cannot be derived. All spaces of one
    formula keep all rows if otherwise no row of that formula would be left.
    """
    rng, formulas = np.random.default_rng(0), dict[int, list[Space]]()
    restricted_spaces = [_worthwhile(sketch, task.target) for sketch in task.sketches]
    for sketch, space in zip(task.sketches, restricted_spaces, strict=True):
        formulas.setdefault(id(sketch.initial), []).append(space)
    left = {
        formula
        for formula, spaces in formulas.items()
        if any(len(space.sample(rng, 1)) for space in spaces)
    }
    pairs = zip(task.sketches, restricted_spaces, strict=True)
    return [space if id(sketch.initial) in left else sketch.space for sketch, space in pairs]


def _worthwhile(sketch: Sketch, target: Target) -> Space:
    try:
        statements(sketch)
    except ArgumentError:
        return sketch.space
    return restricted(sketch, target).space


class Seen:
    """The rows of each space that have been proposed or measured."""

    def __init__(self, spaces: Sequence[Space]) -> None:
        self.spaces = tuple(spaces)
        self.keys = [set[int]() for _ in spaces]

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Add candidates."""
        for n, at in by_sketch(candidates).items():
            rows = np.array([candidates[a].row for a in at], np.int32)
            self.keys[n].update(self.spaces[n].keys(rows).tolist())

    def fresh(self, n: int, rows: Rows) -> Rows:
        """Return the rows among `rows` of space n that have not been added yet, each once."""
        known, first = self.keys[n], dict[int, int]()
        for at, key in enumerate(self.spaces[n].keys(rows).tolist()):
            if key not in known:
                first.setdefault(key, at)
        return rows[list(first.values())]


class RandomPolicy:
    """Draws candidates uniformly, without replacement.

    seen   candidates that must not be drawn; drawn candidates are added to it
    """

    def __init__(self, task: Task, rng: np.random.Generator, seen: Seen | None = None) -> None:
        self.seen = seen or Seen(spaces_of(task))
        self.spaces = self.seen.spaces
        self.rng = rng
        sizes = np.array([float(space.size) for space in self.spaces])
        self.share = sizes / sizes.sum()

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates that were not proposed or measured before."""
        candidates = list[Candidate]()
        for _ in range(DRAWS):
            drawn = self.rng.multinomial(2 * count, self.share)
            batch = list[Candidate]()
            for n in np.flatnonzero(drawn).tolist():
                rows = rows_of(self.spaces[n], self.rng, int(drawn[n]))
                rows = self.seen.fresh(n, rows)
                batch += [Candidate(n, row) for row in row_tuples(rows[: 2 * count])]
            order: list[int] = self.rng.permutation(len(batch)).tolist()
            chosen = [batch[at] for at in order[: count - len(candidates)]]
            self.seen.add(chosen)
            candidates += chosen
            if len(candidates) == count:
                break
        return candidates

    def learn(self, trials: Sequence[Trial]) -> None:
        """Remember the trials, so that they are not proposed again."""
        self.seen.add([trial.candidate for trial in trials])


def by_sketch(candidates: Sequence[Candidate]) -> dict[int, list[int]]:
    """Return for each sketch number the positions of its candidates in `candidates`."""
    positions = dict[int, list[int]]()
    for at, candidate in enumerate(candidates):
        positions.setdefault(candidate.sketch, []).append(at)
    return positions


def rows_of(space: Space, rng: np.random.Generator, count: int, shapes: int | None = None) -> Rows:
    """Draw `count` allowed rows of a number of shapes, or as many as there are rows.

    Returns all allowed rows, shuffled, if the space is small.
    """
    large = space.size > max(count, FEW_ROWS) or space.shape_count > (shapes or FEW_SHAPES)
    if large or count == 0:
        return space.sample(rng, count, shapes)
    rows = every_row(space)
    return rng.permutation(rows[space.legal(rows)])


def row_tuples(rows: Rows) -> list[tuple[int, ...]]:
    """Return rows as tuples of Python integers."""
    return [tuple(row) for row in rows.tolist()]


def every_row(space: Space) -> Rows:
    """Return all rows of a space in the order of their numbers, int32[size, knobs]."""
    sizes = [len(knob) for knob in space.knobs]
    index = np.arange(math.prod(sizes))
    columns = list[np.ndarray[tuple[int], np.dtype[np.int64]]]()
    for size in sizes:
        index, option = np.divmod(index, size)
        columns.append(option)
    return np.stack(columns, axis=1).astype(np.int32) if columns else np.zeros((1, 0), np.int32)
