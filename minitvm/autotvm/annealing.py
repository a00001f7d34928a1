"""Simulated annealing: chains of configurations that move towards high scores of a cost model.

In a step, a chain changes one knob to another option. It keeps the change if the score rises, or
otherwise with a probability that falls with the loss of score and with the temperature. The chains
of a search begin where the chains of the search before ended.

A cost model scores a thousand configurations in hardly more time than a hundred. Therefore the next
few steps of all chains are scored at once, as if no chain kept any of them. A chain tries its steps
in order until it keeps one. The later steps are dropped, but may be among the best rows.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import tune

Score: TypeAlias = Callable[[tune.Rows], npt.NDArray[np.floating]]
TINY = 1e-5
LOGGER = logging.getLogger("autotvm")  # as in TVM


@dataclass(frozen=True, slots=True)
class Annealing:
    """Settings of simulated annealing; the defaults are those of AutoTVM.

    steps        the most steps of a search
    chains       the number of chains
    hot, cold    the temperature at the first and at the last step, in units of the score
    patience     the search ends after this many steps without a new configuration among the best
    ahead        steps that are scored at once
    """

    steps: int = 500
    chains: int = 128
    hot: float = 1.0
    cold: float = 0.0
    patience: int = 50
    ahead: int = 8


def walk(space: tune.Space, rng: np.random.Generator, rows: tune.Rows) -> tune.Rows:
    """Change one knob of each row to a random other option, if the changed row is allowed."""
    sizes = np.array([len(g) for g in space.knobs])
    free = np.flatnonzero(sizes > 1)
    if not len(free):
        return rows.copy()
    which = free[rng.integers(0, len(free), len(rows))]
    each, new = np.arange(len(rows)), rows.copy()
    jump = 1 + (rng.random(len(rows)) * (sizes[which] - 1)).astype(np.int32)
    new[each, which] = (rows[each, which] + jump) % sizes[which]
    return np.where(space.legal(new)[:, None], new, rows)


class Best:
    """The best rows of a search: the `count` different rows with the highest scores.

    known    keys of the rows that are left out, because they have been measured
    Negative scores may be among the best too, because a rank loss gives scores of both signs.
    """

    def __init__(self, count: int, known: set[int]) -> None:
        self.count, self.known = count, known
        self.heap: list[tuple[float, int, tuple[int, ...]]] = []
        self.keys = set[int]()

    def add(self, rows: tune.Rows, keys: tune.Keys, scores: npt.NDArray[np.floating]) -> bool:
        """Add rows; return whether one of them is among the best."""
        least = self.heap[0][0] if len(self.heap) == self.count else -np.inf
        changed = False
        for n in np.flatnonzero(scores > least).tolist():
            key, score = int(keys[n]), float(scores[n])
            if key in self.keys or key in self.known:
                continue
            if len(self.heap) == self.count:
                if score <= self.heap[0][0]:
                    continue
                self.keys.discard(heapq.heappop(self.heap)[1])
            heapq.heappush(self.heap, (score, key, tuple(rows[n].tolist())))
            self.keys.add(key)
            changed = True
        return changed

    def ranked(self) -> list[tuple[float, tuple[int, ...]]]:
        """Return (score, row), best first."""
        return [(score, row) for score, _, row in sorted(self.heap, reverse=True)]


def anneal(
    space: tune.Space,
    score: Score,
    rng: np.random.Generator,
    *,
    count: int,
    known: set[int],
    start: tune.Rows | None = None,
    settings: Annealing | None = None,
    log_interval: int = 50,
) -> tuple[list[tuple[float, tuple[int, ...]]], tune.Rows]:
    """Search for `count` rows with high scores whose keys are not in `known`.

    start          the rows at which the chains begin; by default random rows
    log_interval   the steps between two lines of the log, which says what has been found
    Returns a list of (score, row), best first, and the rows at which the chains ended.
    """
    use = settings or Annealing()
    rows = space.sample(rng, use.chains) if start is None or not len(start) else start
    best = Best(count, known)
    if not len(rows):
        return [], rows
    scores = score(rows)
    best.add(rows, space.keys(rows), scores)
    last = 0
    for step in range(0, use.steps, use.ahead):
        if step % log_interval < use.ahead:
            top = max(best.heap, default=(-np.inf,))[0]
            LOGGER.debug(
                "annealing: step %d, best score %.3g, best rows last at %d", step, top, last
            )
        heat = use.hot + (use.cold - use.hot) * step / use.steps
        new = walk(space, rng, np.tile(rows, (use.ahead, 1)))
        found = score(new)
        if best.add(new, space.keys(new), found):
            last = step
        elif step - last >= use.patience:
            break
        found = found.reshape(use.ahead, -1)
        take = rng.random(found.shape) < np.exp(np.minimum((found - scores) / (heat + TINY), 0))
        first, chain = take.argmax(axis=0), np.arange(len(rows))
        kept = take[first, chain]
        rows = np.where(kept[:, None], new.reshape(use.ahead, *rows.shape)[first, chain], rows)
        scores = np.where(kept, found[first, chain], scores)
    return best.ranked(), rows
