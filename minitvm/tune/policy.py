"""Policies: which candidates to measure next, given the trials so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .space import Mask, Rows, Space
from .task import Candidate, Task
from .trial import Result

FEW_ROWS = 4096  # a space of at most so many rows is enumerated instead of sampled
DRAWS = 8  # without a new row: the space counts as exhausted


@dataclass(frozen=True, slots=True)
class Trial:
    """A measured candidate.

    time   when it was measured, in seconds since 1970
    """

    candidate: Candidate
    result: Result
    time: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the shortest time of one call; infinity if the measurement failed."""
        return self.result.best


class Policy(Protocol):
    """A search strategy. `run` calls both methods from one thread."""

    def propose(self, count: int) -> Sequence[Candidate]:
        """Return up to `count` candidates to measure next; none if all have been proposed."""
        ...

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Take new trials into account.

        Returns the pairwise accuracy of what the policy predicted about them before; None if it
        does not predict.
        """
        ...


class Seen:
    """The rows of each space that have been proposed or measured."""

    def __init__(self, spaces: Sequence[Space]) -> None:
        self.spaces = tuple(spaces)
        self.keys = [set[int]() for _ in spaces]

    def add(self, candidate: Candidate) -> bool:
        """Add a candidate; return whether it is new."""
        n, row = candidate
        key = int(self.spaces[n].keys(np.array([row], np.int32))[0])
        if key in self.keys[n]:
            return False
        self.keys[n].add(key)
        return True

    def fresh(self, n: int, rows: Rows) -> Mask:
        """Return which rows of space n are not in here."""
        keys = self.keys[n]
        return np.array([k not in keys for k in self.spaces[n].keys(rows).tolist()], np.bool_)


class RandomPolicy:
    """Draws candidates uniformly, without replacement.

    seen   candidates that are not to be drawn; those drawn are added
    """

    def __init__(self, task: Task, rng: np.random.Generator, seen: Seen | None = None) -> None:
        self.spaces = [sketch.space for sketch in task.sketches]
        self.rng = rng
        self.seen = seen or Seen(self.spaces)
        sizes = np.array([float(space.size) for space in self.spaces])
        self.share = sizes / sizes.sum()

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates that were not proposed or measured before."""
        found = list[Candidate]()
        for _ in range(DRAWS):
            drawn = self.rng.multinomial(2 * count, self.share)
            each = [
                Candidate(n, row)
                for n, space in enumerate(self.spaces)
                for row in row_tuples(rows_of(space, self.rng, int(drawn[n])))
            ]
            for at in self.rng.permutation(len(each)):
                if len(found) < count and self.seen.add(each[at]):
                    found.append(each[at])
            if len(found) == count:
                break
        return found

    def learn(self, trials: Sequence[Trial]) -> None:
        """Remember the trials, so that they are not proposed again."""
        for trial in trials:
            self.seen.add(trial.candidate)


def rows_of(space: Space, rng: np.random.Generator, count: int) -> Rows:
    """Draw `count` allowed rows; return all allowed rows, shuffled, if the space is small."""
    if space.size > max(count, FEW_ROWS) or count == 0:
        return space.sample(rng, count)
    rows = every_row(space)
    return rng.permutation(rows[space.legal(rows)])


def row_tuples(rows: Rows) -> list[tuple[int, ...]]:
    """Return rows as tuples of Python integers."""
    return [tuple(row) for row in rows.tolist()]


def every_row(space: Space) -> Rows:
    """Return all rows of a space, by their number; int32[size, genes]."""
    sizes = [len(gene) for gene in space.genes]
    index = np.arange(math.prod(sizes))
    columns = list[np.ndarray[tuple[int], np.dtype[np.int64]]]()
    for size in sizes:
        index, option = np.divmod(index, size)
        columns.append(option)
    return np.stack(columns, axis=1).astype(np.int32) if columns else np.zeros((1, 0), np.int32)
