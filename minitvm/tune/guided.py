"""The default policy: evolution under a cost model, and under the analytic model at first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .columns import Columns, gene_columns
from .evolve import Evolution, Pool, Scored, diverse, evolve, ranked
from .model import DRAFT, Draft, Floats, Model, Trees, pairwise_accuracy
from .policy import RandomPolicy, Seen, Trial
from .space import Rows
from .task import Candidate, Task

CHOICE = 16  # candidates with the highest scores, for each one that is proposed
FEWEST = 8  # measured candidates, before a trained model is used


class GuidedPolicy:
    """Proposes the candidates that an evolution under a cost model ranks first.

    Until enough candidates are measured, the scores are those of the analytic model if it is among
    the columns, and random otherwise.

    epsilon     the share of random candidates, which show the model where it is wrong
    diversity   the weight of different options against the score (AutoTVM, equation 3); 0 takes the
                candidates with the highest scores
    Candidates with equal columns are the same to the model, and nearly always the same program
    (loops of length 1, an unroll limit that nothing reaches): only one of them is proposed.
    """

    def __init__(
        self,
        task: Task,
        rng: np.random.Generator,
        *,
        model: Model | None = None,
        columns: Columns | None = None,
        evolution: Evolution | None = None,
        epsilon: float = 0.05,
        diversity: float = 0.0,
    ) -> None:
        self.spaces = [sketch.space for sketch in task.sketches]
        self.rng = rng
        self.columns = columns or gene_columns(task)
        self.model = model or Trees(seed=int(rng.integers(1 << 31)))
        self.evolution = evolution or Evolution()
        self.epsilon, self.diversity = epsilon, diversity
        self.seen = Seen(self.spaces)
        self.random = RandomPolicy(task, rng, self.seen)
        self.programs = set[bytes]()  # the columns of all candidates in `seen`
        self.trials = list[Trial]()
        self.features = list[Floats]()  # of the trials
        self.fitted = False

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates; none if every program has been proposed.

        They are ordered by score, best first; random ones are last.
        """
        drawn = math.ceil(self.epsilon * count) if self.fitted else 0
        settings = self.evolution
        measured = self._best_rows()
        pools = evolve(self.spaces, self.score, self.rng, measured=measured, settings=settings)
        found = self._chosen(pools, count - drawn)
        return found + self._drawn(count - len(found))

    def score(self, n: int, rows: Rows) -> Floats:
        """Return the scores of rows of sketch n under the model of this round."""
        if self.fitted:
            return self.model.predict(self.columns.of(n, rows))
        if DRAFT in self.columns.names:
            draft = Draft(self.columns.names.index(DRAFT))
            return draft.predict(self.columns.of(n, rows))
        return self.rng.random(len(rows), np.float32)

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Train the model from all trials; return its accuracy on the new ones before that."""
        if not trials:
            return None
        new = [self._features(trial.candidate) for trial in trials]
        for trial, features in zip(trials, new, strict=True):
            self.seen.add(trial.candidate)
            self.programs.add(features.tobytes())
        fitted = self.fitted
        scores = self.model.predict(np.stack(new)) if fitted else np.zeros(len(new))
        self.trials += trials
        self.features += new
        labels = labels_of(self.trials)
        self.fitted = len(labels) >= FEWEST and bool(labels.any())
        if self.fitted:
            self.model.fit(np.stack(self.features), labels)
        return pairwise_accuracy(scores, labels[-len(new) :]) if fitted else None

    def _best_rows(self) -> list[Rows]:
        """Return the rows of each sketch that could be measured, fastest first."""
        found: list[list[tuple[int, ...]]] = [[] for _ in self.spaces]
        for trial in sorted(self.trials, key=lambda t: t.seconds):
            if not trial.result.error:
                found[trial.candidate.sketch].append(trial.candidate.row)
        return [
            np.array(rows, np.int32).reshape(-1, len(space.genes))
            for rows, space in zip(found, self.spaces, strict=True)
        ]

    def _chosen(self, pools: Sequence[Pool], count: int) -> list[Candidate]:
        """Return the `count` best candidates that are not known, each program once."""
        fresh = [pool.only(self.seen.fresh(n, pool.rows)) for n, pool in enumerate(pools)]
        found, programs = list[Scored](), set[bytes]()
        for scored in ranked(fresh, CHOICE * count):
            program = self._features(scored.candidate).tobytes()
            if program not in self.programs and program not in programs:
                programs.add(program)
                found.append(scored)
            if not self.diversity and len(found) == count:
                break
        if self.diversity:
            found = diverse(found, count, self.diversity)
        chosen = [scored.candidate for scored in found]
        for candidate in chosen:
            self.seen.add(candidate)
            self.programs.add(self._features(candidate).tobytes())
        return chosen

    def _drawn(self, count: int) -> list[Candidate]:
        """Return up to `count` random candidates that are not known, each program once."""
        found = list[Candidate]()
        while len(found) < count:
            drawn = self.random.propose(count - len(found))
            if not drawn:
                break
            for candidate in drawn:
                program = self._features(candidate).tobytes()
                if program not in self.programs:
                    self.programs.add(program)
                    found.append(candidate)
        return found

    def _features(self, candidate: Candidate) -> Floats:
        """Return the columns of one candidate."""
        return self.columns.of(candidate.sketch, np.array([candidate.row], np.int32))[0]


def labels_of(trials: Sequence[Trial]) -> Floats:
    """Return (best time) / (time) of each trial, 0 for failures."""
    seconds = np.array([trial.seconds for trial in trials])
    best = seconds.min(initial=math.inf)
    if math.isinf(best):
        return np.zeros(len(seconds), np.float32)
    return (best / seconds).astype(np.float32)
