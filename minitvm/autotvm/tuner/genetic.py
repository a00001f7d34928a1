"""A tuner that evolves configurations by crossover and mutation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError

from ..task import Task
from .base import Row, Tuner


class GATuner(Tuner):
    """A genetic algorithm: faster configurations have more children.

    pop_size        configurations of a generation
    elite_num       the fastest configurations, which are parents in all later generations
    mutation_prob   the probability that a knob of a child gets a random option
    """

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(task, rng)
        if not 0 <= elite_num <= pop_size or pop_size < 1:
            what = f"GATuner(pop_size={pop_size}, elite_num={elite_num})"
            why = "a population has at least one configuration, and elite_num is at most pop_size"
            raise ArgumentError(what, why, "pop_size=100, elite_num=3")
        self.pop_size, self.elite_num, self.mutation_prob = pop_size, elite_num, mutation_prob
        self.knobs = list[Row]()  # of the generation, still to be proposed
        self.generation = 0  # trials when it began

    def next_row(self) -> Row | None:
        if not self.knobs:
            parents = self.trials[self.generation :]
            self.generation = len(self.trials)
            self.knobs = self._children(parents) if parents else self._random()
        return self.knobs.pop() if self.knobs else None

    def _random(self) -> list[Row]:
        rows = [self.random_row() for _ in range(self.pop_size)]
        return list(dict.fromkeys(row for row in rows if row is not None))

    def _children(self, last: Sequence[tune.Trial]) -> list[Row]:
        """Return the next generation: children of the last one and of the elite."""
        elite = sorted(self.trials, key=lambda t: t.cost)[: self.elite_num]
        group = list({t.candidate: t for t in (*last, *elite)}.values())
        parents: tune.Ints = np.array([self.task.derived.row(t.candidate) for t in group])
        speed = np.array([1 / t.cost for t in group]) + 1e-30
        share = np.cumsum(speed / speed.sum())[:-1]
        children = dict[Row, None]()
        for _ in range(20 * self.pop_size):
            row = self._mutated(self.crossed(parents, share))
            if self.key(row) not in self.visited and self.allowed(row):
                children[row] = None
            if len(children) == self.pop_size:
                break
        return [*children] or self._random()

    def crossed(self, parents: tune.Ints, share: tune.Floats) -> tune.Ints:
        """Return a child of two parents: the first knobs of one, and the other knobs of the other.

        parents   rows, int64[parents, knobs]
        share     the limits of their shares of the children, float64[parents - 1]
        """
        a, b = np.searchsorted(share, self.rng.random(2)).tolist()
        cut = int(self.rng.integers(len(self.space.knobs) + 1))
        return np.concatenate([parents[a][:cut], parents[b][cut:]])

    def _mutated(self, row: np.ndarray[Any, np.dtype[np.int64]]) -> Row:
        sizes = np.array([len(g) for g in self.space.knobs])
        change = self.rng.random(len(row)) < self.mutation_prob
        drawn = self.rng.integers(0, sizes, dtype=np.int64)
        return tuple(int(n) for n in np.where(change, drawn, row))
