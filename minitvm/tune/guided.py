"""The default policy: evolution guided by a cost model, which estimates before it has learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from .columns import Columns, columns_of
from .evolve import (
    Evolution,
    Population,
    Scored,
    Watch,
    diverse,
    empty_population,
    evolve,
    grown,
    ranked,
)
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
        self.random_rows = dict[int, tuple[Rows, Floats]]()  # of each sketch, with their features
        self.scored = list[list[Floats]]()  # the features of the populations of this round
        self.rng = rng
        self.columns = columns or columns_of(task)
        seed = int(rng.integers(1 << 31))
        self.model = model or model_for(self.columns.names, seed)
        self.evolution = evolution or Evolution()
        self.epsilon, self.descent, self.diversity = epsilon, descent, diversity
        self.watch = watch
        self.seen = Seen(self.spaces)
        self.random = RandomPolicy(task, rng, self.seen)
        self.features = dict[Candidate, Floats]()  # of all candidates in `seen`
        self.programs = set[bytes]()  # the same as bytes
        self.trials = list[Trial]()
        self.fitted = False

    def propose(self, count: int) -> list[Candidate]:
        """Return up to `count` candidates; none if every program has been proposed.

        Neighbours of the fastest candidates come first, then high scores, then random candidates.
        """
        drawn = math.ceil(self.epsilon * count) if self.fitted else 0
        neighbours = self._chosen(self._neighbours(), math.ceil(self.descent * count))
        start = self._starts()
        offspring = evolve(self.free, self.score, self.rng, start, self.evolution, self.watch)
        chosen = neighbours + self._chosen(offspring, count - drawn - len(neighbours))
        return chosen + self._drawn(count - len(chosen))

    def score(self, n: int, rows: Rows) -> Floats:
        """Return the scores of rows of sketch n under the model of this round, and keep features.

        The population of the sketch gets the legal rows, so `scored` has the features of its rows.
        """
        legal = np.ones(len(rows), np.bool_)
        if self.columns.checked is None or self.spaces[n] is self.free[n]:
            features = self.columns.of(n, rows)
        else:
            legal, features = self.columns.checked(n, rows)
        self.scored[n].append(features[legal])
        return np.where(legal, self._predict(features), -np.inf)

    def _neighbours(self) -> list[Population]:
        """Return the neighbours of the fastest candidates; no rows while the search improves."""
        populations = [empty_population(space) for space in self.free]
        self.scored = [list[Floats]() for _ in self.free]
        order = sorted(range(len(self.trials)), key=lambda k: self.trials[k].cost)
        is_stalled = self.fitted and len(order) - order[0] > STALLED
        for trial in (self.trials[k] for k in order[: FASTEST * is_stalled]):
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
        rows, features = map(list, zip(*map(self._sampled, range(len(self.free))), strict=True))
        good = [trial.candidate for trial in self.trials if not trial.result.error]
        for n, at in by_sketch(good).items():
            trials = [good[a] for a in at]
            rows[n] = np.concatenate([np.array([c.row for c in trials], np.int32), rows[n]])
            features[n] = np.concatenate([[self.features[c] for c in trials], features[n]])
        scores = self._predict(np.concatenate(features))
        ends, populations = np.cumsum([*map(len, rows)]), list[Population]()
        for n, part in enumerate(np.split(scores, ends[:-1])):
            keys = self.free[n].keys(rows[n])
            first_rows = first_of_each(keys, np.zeros(0, np.uint64))
            populations.append(Population(rows[n][first_rows], part[first_rows], keys[first_rows]))
            features[n] = features[n][first_rows]
        self.scored = [[feature_rows] for feature_rows in features]
        return populations

    def _sampled(self, n: int) -> tuple[Rows, Floats]:
        """Return random rows of sketch n, the same in each round, and their features."""
        if n not in self.random_rows:
            share = self.evolution.population // len(self.spaces)
            shapes = max(1, SHAPES // len(self.spaces))
            rows = rows_of(self.spaces[n], self.rng, share, shapes)
            self.random_rows[n] = rows, self.columns.of(n, rows)
        return self.random_rows[n]

    def learn(self, trials: Sequence[Trial]) -> float | None:
        """Train the model on all trials; return how accurately it had predicted the new ones."""
        if not trials:
            return None
        candidates = [trial.candidate for trial in trials]
        unknown = [candidate for candidate in candidates if candidate not in self.features]
        self._add(unknown, self.columns.of_candidates(unknown))
        new = np.array([self.features[candidate] for candidate in candidates])
        fitted = self.fitted
        scores = self.model.predict(new) if fitted else np.zeros(len(new))
        self.trials += trials
        features, labels = self.samples()
        self.fitted = len(labels) >= MIN_TRIALS and bool(labels.any())
        if self.fitted:
            self.model.fit(features, labels)
        return pairwise_accuracy(scores, labels[-len(new) :]) if fitted else None

    def samples(self) -> tuple[Floats, Floats]:
        """Return the features and the labels of all trials."""
        features = np.array([self.features[trial.candidate] for trial in self.trials])
        return features, labels_of(self.trials)

    def _chosen(self, populations: Sequence[Population], count: int) -> list[Candidate]:
        """Return the best `count` candidates not yet proposed or measured, each program once."""
        no_rows = np.zeros((0, 0), np.float32)
        features = [np.concatenate(parts or [no_rows]) for parts in self.scored]
        best, choice = dict[bytes, tuple[Scored, Floats]](), CHOICE * count
        for n, at in ranked(populations):
            if choice == 0:
                break
            if int(populations[n].keys[at]) in self.seen.keys[n]:
                continue
            choice -= 1
            columns = features[n][at]
            if (program := columns.tobytes()) not in self.programs:
                row = tuple(populations[n].rows[at].tolist())
                scored = Scored(float(populations[n].scores[at]), Candidate(n, row))
                best.setdefault(program, (scored, columns))
        chosen = [scored for scored, _ in best.values()]
        if self.diversity:
            chosen = diverse(chosen, count, self.diversity)
        candidates = [scored.candidate for scored in chosen[:count]]
        known = {scored.candidate: columns for scored, columns in best.values()}
        self._add(candidates, [known[candidate].copy() for candidate in candidates])
        return candidates

    def _drawn(self, count: int) -> list[Candidate]:
        """Return up to `count` random candidates that are not known yet, each program once."""
        chosen = list[Candidate]()
        while len(chosen) < count:
            drawn = self.random.propose(count - len(chosen))
            if not drawn:
                break
            for candidate, columns in zip(drawn, self.columns.of_candidates(drawn), strict=True):
                if columns.tobytes() not in self.programs:
                    self._add([candidate], [columns])
                    chosen.append(candidate)
        return chosen

    def _add(self, candidates: Sequence[Candidate], features: Iterable[Floats]) -> None:
        """Remember candidates, which will not be proposed again, and their features."""
        self.seen.add(candidates)
        self.features |= zip(candidates, features, strict=True)
        self.programs |= {self.features[candidate].tobytes() for candidate in candidates}


def labels_of(trials: Sequence[Trial]) -> Floats:
    """Return the label of each trial for training: (best time) / (time), 0 for failures."""
    costs = np.array([trial.cost for trial in trials])
    best = costs.min(initial=math.inf)
    if math.isinf(best):
        return np.zeros(len(costs), np.float32)
    return (best / costs).astype(np.float32)
