"""Simulated annealing: chains of configurations that move towards high scores of a cost model.

In a step, a chain changes one knob to another option. It keeps the change if the score rises, or
otherwise with a probability that falls with the loss of score and with the temperature. The chains
of a search begin where the chains of the search before ended.

A cost model scores a thousand configurations in hardly more time than a hundred. Therefore the next
few steps of all chains are scored at once, as if no chain kept any of them. A chain tries its steps
in order until it keeps one. The later steps are dropped, but may be among the best rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from minitvm import tune

Score: TypeAlias = Callable[[tune.Rows], tune.Floats]
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
    columns = free[rng.integers(0, len(free), len(rows))]
    row_numbers, new = np.arange(len(rows)), rows.copy()
    jump = 1 + (rng.random(len(rows)) * (sizes[columns] - 1)).astype(np.int32)
    new[row_numbers, columns] = (rows[row_numbers, columns] + jump) % sizes[columns]
    return np.where(space.legal(new)[:, None], new, rows)


def anneal(
    space: tune.Space,
    score: Score,
    rng: np.random.Generator,
    *,
    count: int,
    known: tune.Keys,
    start: tune.Rows | None = None,
    settings: Annealing | None = None,
    log_interval: int = 50,
) -> tuple[tune.Population, tune.Rows]:
    """Search for `count` rows with high scores whose keys are not in `known`.

    start          the rows at which the chains begin; by default random rows
    log_interval   the steps between two lines of the log, which says what has been found
    Returns the best rows, best first, and the rows at which the chains ended. A rank loss gives
    scores of both signs, so negative scores may be among the best too.
    """
    use = settings or Annealing()
    rows = space.sample(rng, use.chains) if start is None or not len(start) else start
    best = tune.empty_population(space)
    if not len(rows):
        return best, rows

    def improved(rows: tune.Rows, scores: tune.Floats) -> tune.Population:
        """Return the best of the rows so far and of these rows, each row once."""
        rows, scores = np.concatenate([best.rows, rows]), np.concatenate([best.scores, scores])
        keys = space.keys(rows)
        first = tune.first_of_each(keys, known)
        chosen = first[np.argsort(-scores[first], kind="stable")[:count]]
        return tune.Population(rows[chosen], scores[chosen], keys[chosen])

    scores = score(rows)
    best, last = improved(rows, scores), 0
    for step in range(0, use.steps, use.ahead):
        if step % log_interval < use.ahead:
            top = best.scores.max(initial=-np.inf)
            LOGGER.debug(
                "annealing: step %d, best score %.3g, best rows last at %d", step, top, last
            )
        heat = use.hot + (use.cold - use.hot) * step / use.steps
        new = walk(space, rng, np.tile(rows, (use.ahead, 1)))
        new_scores = score(new)
        before, best = best, improved(new, new_scores)
        if not np.array_equal(before.keys, best.keys):
            last = step
        elif step - last >= use.patience:
            break
        new_scores = new_scores.reshape(use.ahead, -1)
        gain = (new_scores - scores) / (heat + TINY)
        take = rng.random(gain.shape) < np.exp(np.minimum(gain, 0))
        first, chain = take.argmax(axis=0), np.arange(len(rows))
        moves = take[first, chain]
        rows = np.where(moves[:, None], new.reshape(use.ahead, *rows.shape)[first, chain], rows)
        scores = np.where(moves, new_scores[first, chain], scores)
    return best, rows
