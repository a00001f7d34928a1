"""The default policy: evolution guided by a cost model, which estimates before it has learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .columns import Columns, columns_of
from .evolve import Evolution, Population, Watch, diverse, empty_population, evolve, grown, ranked
from .loss import Floats, pairwise_accuracy
from .model import AnalyticModel, Model
from .policy import RandomPolicy, Seen, Trial, by_sketch, rows_of, spaces_of
from .shared import ResidualModel, model_for
from .space import Rows, first_of_each
from .task import Candidate, Task

CHOICE = 16  # each proposed candidate is chosen among this many with the highest scores
FASTEST = 3  # fastest candidates whose neighbours are tried while the search does not improve
SHAPES = 32  # of the random rows that a search starts from
STALLED = 24  # trials without an improvement, after which the neighbours are tried
MIN_TRIALS = 8  # measured candidates that are needed to train a model


class Described(NamedTuple):
    """Rows of a sketch and their features."""

    rows: Rows
    features: Floats

    @staticmethod
    def joined(parts: Sequence[Described]) -> Described:
        """Return all rows of `parts`, in order."""
        if len(parts) == 1:
            return parts[0]
        rows, features = zip(*parts, strict=True)
        return Described(np.concatenate(rows), np.concatenate(features))


class GuidedPolicy:
    """A policy that proposes the candidates with the best scores, found by an evolution.

    Until enough candidates are measured, the scores are estimates: of the trees that come with
    minitvm, which correct the analytic model. Without that model's columns, they are random.

    model       by default, trees that correct one of these two estimates; see shared.py
    epsilon     the share of random candidates, which show the model where it is wrong
    descent     the share of neighbours of the fastest candidates, which differ from them in one
                knob (coordinate descent), while the search does not improve
    diversity   the weight of different options against the score (AutoTVM, equation 3); 0 takes the
                candidates with the highest scores
    watch       is called with each generation of each round's evolution
    Candidates with equal columns are nearly always the same program (for example, when a loop has
    length 1, or no loop reaches the unroll limit). Only one of them is proposed.
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
        descent: float = 0.25,
        diversity: float = 0.0,
        watch: Watch | None = None,
    ) -> None:
        self.free = [sketch.space for sketch in task.sketches]
        self.spaces = spaces_of(task)  # without rows that are not worth measuring
        self.samples = dict[int, Described]()  # random rows of each sketch
        self.scored = dict[int, list[Described]]()  # rows of each sketch in this round
        self.rng = rng
        self.columns = columns or columns_of(task)
        seed = int(rng.integers(1 << 31))
        self.model = model or model_for(self.columns.names, seed)
        self.evolution = evolution or Evolution()
        self.epsilon, self.descent, self.diversity = epsilon, descent, diversity
        self.watch = watch
        self.seen = Seen(self.spaces)
        self.random = RandomPolicy(task, rng, self.seen)
        self.programs = set[bytes]()  # the features of all candidates in `seen`
        self.trials = list[Trial]()
        self.features = list[Floats]()  # of the trials, in their order
        self.fitted = False

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates; none if every program has been proposed.

        Neighbours of the fastest candidates come first, then high scores, then random candidates.
        """
        drawn = math.ceil(self.epsilon * count) if self.fitted else 0
        start = self._starts()
        evolved = evolve(self.free, self.score, self.rng, start, self.evolution, self.watch)
        near = self._chosen(self._neighbours(), math.ceil(self.descent * count))
        found = near + self._chosen(evolved, count - drawn - len(near))
        return found + self._drawn(count - len(found))

    def score(self, n: int, rows: Rows) -> Floats:
        """Return the scores of rows of sketch n under the model of this round."""
        legal = np.ones(len(rows), np.bool_)
        if self.columns.checked is None or self.spaces[n] is self.free[n]:
            features = self.columns.of(n, rows)
        else:
            legal, features = self.columns.checked(n, rows)
        self.scored[n].append(Described(rows, features))
        return np.where(legal, self._predict(features), -np.inf)

    def _neighbours(self) -> list[Population]:
        """Return the neighbours of the fastest candidates; no rows while the search improves."""
        populations = [empty_population(space) for space in self.free]
        order = sorted(range(len(self.trials)), key=lambda k: self.trials[k].seconds)
        stalled = self.fitted and len(order) - order[0] > STALLED
        for trial in (self.trials[k] for k in order[: FASTEST * stalled]):
            n, space = trial.candidate.sketch, self.free[trial.candidate.sketch]
            rows = space.neighbours(trial.candidate.row)
            populations[n] = grown(populations[n], space, rows, lambda r, n=n: self.score(n, r))
        return populations

    def _predict(self, features: Floats) -> Floats:
        column = self.columns.analytic
        if self.fitted or (column is not None and isinstance(self.model, ResidualModel)):
            return self.model.predict(features)
        if column is not None:
            return AnalyticModel(column).predict(features)
        return self.rng.random(len(features), np.float32)

    def _starts(self) -> list[Population]:
        """Return measured and random rows of each sketch, scored under the model of this round.

        The random rows are the same in each round; only their scores change.
        """
        known = [self._sampled(n) for n in range(len(self.free))]
        good = [k for k, trial in enumerate(self.trials) if not trial.result.error]
        features = np.concatenate(self.features) if good else None
        for n, at in by_sketch([self.trials[k].candidate for k in good]).items():
            assert features is not None
            which = [good[a] for a in at]
            rows = np.array([self.trials[k].candidate.row for k in which], np.int32)
            known[n] = Described.joined([Described(rows, features[which]), known[n]])
        self.scored = {n: [each] for n, each in enumerate(known)}
        scores = self._predict(np.concatenate([each.features for each in known]))
        ends = np.cumsum([len(each.rows) for each in known])
        populations = list[Population]()
        for space, each, own in zip(self.free, known, np.split(scores, ends[:-1]), strict=True):
            keys = space.keys(each.rows)
            once = first_of_each(keys, np.zeros(0, np.uint64))
            populations.append(Population(each.rows[once], own[once], keys[once]))
        return populations

    def _sampled(self, n: int) -> Described:
        """Return random rows of sketch n, the same in each round."""
        if n not in self.samples:
            share = self.evolution.population // len(self.spaces)
            shapes = max(1, SHAPES // len(self.spaces))
            rows = rows_of(self.spaces[n], self.rng, share, shapes)
            self.samples[n] = Described(rows, self.columns.of(n, rows))
        return self.samples[n]

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Train the model on all trials; return how accurately it had predicted the new ones."""
        if not trials:
            return None
        new = self._features([trial.candidate for trial in trials])
        self.programs.update(row.tobytes() for row in new)
        self.seen.add([trial.candidate for trial in trials])
        fitted = self.fitted
        scores = self.model.predict(new) if fitted else np.zeros(len(new))
        self.trials += trials
        self.features.append(new)
        labels = labels_of(self.trials)
        self.fitted = len(labels) >= MIN_TRIALS and bool(labels.any())
        if self.fitted:
            self.model.fit(np.concatenate(self.features), labels)
        return pairwise_accuracy(scores, labels[-len(new) :]) if fitted else None

    def _chosen(self, populations: Sequence[Population], count: int) -> list[Candidate]:
        """Return the best `count` candidates not yet proposed or measured, each program once."""
        fresh = [population.without(self.seen.keys[n]) for n, population in enumerate(populations)]
        best = ranked(fresh, CHOICE * count)
        programs = [row.tobytes() for row in self._features([s.candidate for s in best])]
        once = dict(reversed(list(zip(programs, best, strict=True))))
        found = [once[p] for p in dict.fromkeys(programs) if p not in self.programs]
        if self.diversity:
            found = diverse(found, count, self.diversity)
        chosen = [scored.candidate for scored in found[:count]]
        self.programs.update(row.tobytes() for row in self._features(chosen))
        self.seen.add(chosen)
        return chosen

    def _drawn(self, count: int) -> list[Candidate]:
        """Return up to `count` random candidates that are not known yet, each program once."""
        found = list[Candidate]()
        while len(found) < count:
            drawn = self.random.propose(count - len(found))
            if not drawn:
                break
            for candidate, row in zip(drawn, self._features(drawn), strict=True):
                if row.tobytes() not in self.programs:
                    self.programs.add(row.tobytes())
                    found.append(candidate)
        return found

    def _features(self, candidates: Sequence[Candidate]) -> Floats:
        """Return the features of candidates, float32[candidates, columns]."""
        found = np.zeros((len(candidates), len(self.columns.names)), np.float32)
        for n, at in by_sketch(candidates).items():
            rows = np.array([candidates[a].row for a in at], np.int32)
            found[at] = self._described(n, rows)
        return found

    def _described(self, n: int, rows: Rows) -> Floats:
        """Return the features of rows of sketch n; compute those not scored in this round."""
        parts = [part for part in self.scored.get(n, ()) if len(part.rows)]
        if not parts:
            return self.columns.of(n, rows)
        table, space = Described.joined(parts), self.free[n]
        self.scored[n] = [table]
        known, keys = space.keys(table.rows), space.keys(rows)
        order = np.argsort(known)
        place = order[np.searchsorted(known, keys, sorter=order) % len(known)]
        found, new = table.features[place], known[place] != keys
        if new.any():
            found[new] = self.columns.of(n, rows[new])
        return found


def labels_of(trials: Sequence[Trial]) -> Floats:
    """Return the label of each trial for training: (best time) / (time), 0 for failures."""
    seconds = np.array([trial.seconds for trial in trials])
    best = seconds.min(initial=math.inf)
    if math.isinf(best):
        return np.zeros(len(seconds), np.float32)
    return (best / seconds).astype(np.float32)
