"""Tuners that learn a cost model from the measurements."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError

from ..annealing import Annealing, Score, anneal
from ..columns import FeatureType, columns_of, features_of
from ..measure import MeasureInput, MeasureResult
from ..task import Task
from .base import Row, Tuner

LossType: TypeAlias = Literal["reg", "rank", "rank-binary"]
LOSSES: dict[str, tune.Loss] = {"reg": "regression", "rank": "rank", "rank-binary": "rank"}
EPSILON = 0.05  # the share of a plan that is random
ALPHA = 0.05  # of equation 3: what a new option of a knob is worth, in units of the score
MIN_TRIALS = 8  # measured configurations that are needed to train a model
SCORED = 1 << 14  # a space of at most this many rows is scored at once
HALF = 0.5  # of the best speed: what "rank-binary" tells apart
HALF_LIFE, IGNORED = 64, 0.05  # own trials that halve the base model's weight; the least weight


class ModelTuner(Tuner):
    """Search for configurations with high scores of a cost model (Chen et al. 2018, Algorithm 1).

    model          learns from the measurements after each plan
    columns        the features that the model sees
    plan_size      the model is trained, and a plan made, after this many trials
    diversity_filter_ratio   annealing finds this many times the plan; equation 3 chooses from it
    is_ready       whether the model gives scores before it has learned from this task
    annealing      the settings of simulated annealing, which finds rows with high scores
    log_interval   the steps of annealing between two lines of the logger "autotvm"
    For a plan, all rows of a space with at most SCORED rows are scored at once.
    """

    def __init__(
        self,
        task: Task,
        model: tune.Model,
        columns: tune.Columns,
        *,
        plan_size: int = 64,
        diversity_filter_ratio: float | None = None,
        is_ready: bool = False,
        annealing: Annealing | None = None,
        log_interval: int = 50,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(task, rng)
        if diversity_filter_ratio is not None and diversity_filter_ratio < 1:
            raise ArgumentError(f"diversity_filter_ratio {diversity_filter_ratio}", "below 1", "2")
        for name, number in (("plan_size", plan_size), ("log_interval", log_interval)):
            if type(number) is not int or number < 1:
                raise ArgumentError(f"{name} {number!r}", "it must be at least 1")
        self.model, self.columns, self.is_ready = model, columns, is_ready
        self.plan_size, self.ratio = plan_size, diversity_filter_ratio
        self.annealing, self.log_interval = annealing or Annealing(), log_interval
        self.states: tune.Rows | None = None
        self.plan = list[Row]()
        self.fitted = 0  # trials that the model was trained with
        self.planned: int | None = None  # trials when the last plan was made
        self.whole: tune.Floats | None = None  # the features of all rows of a small space

    def next_row(self) -> Row | None:
        is_first = self.is_ready and self.planned is None
        if is_first or len(self.trials) - (self.planned or 0) >= self.plan_size:
            self._make_plan()
        while self.plan:
            row = self.plan.pop()
            if self.key(row) not in self.visited:
                return row
        return self.random_row()

    def features(self, rows: tune.Rows) -> tune.Floats:
        """Return the columns of rows of the configuration space."""
        return features_of(self.task, self.columns, rows)

    def score(self, rows: tune.Rows) -> tune.Floats:
        """Return the predicted scores of rows; higher is faster."""
        return self.predict(self.features(rows))

    def predict(self, features: tune.Floats) -> tune.Floats:
        """Return the scores that the model predicts from features, float[candidates]."""
        return self.model.predict(features)

    def labels(self, speeds: tune.Floats) -> tune.Floats:
        """Return what the model learns from speeds; the best one is 1."""
        return speeds

    def _make_plan(self) -> None:
        labels = tune.labels_of(self.trials)
        if len(labels) >= MIN_TRIALS and labels.any():
            rows = [self.task.derived.row(t.candidate) for t in self.trials]
            self.model.fit(self.features(np.array(rows, np.int32)), self.labels(labels))
            self.fitted = len(labels)
        elif not self.is_ready:
            return
        self.planned = len(labels)
        best, self.states = anneal(
            self.space,
            self._scorer(),
            self.rng,
            count=math.ceil(self.plan_size * (self.ratio or 1)),
            known=np.array([*self.visited], np.uint64),
            start=self.states,
            settings=self.annealing,
            log_interval=self.log_interval,
        )
        rows: list[Row] = [tuple(row) for row in best.rows.tolist()]
        if self.ratio:
            pairs = zip(best.scores.tolist(), rows, strict=True)
            scored = [tune.Scored(s, self.task.derived.candidate(row)) for s, row in pairs]
            chosen = tune.diverse(scored, self.plan_size, ALPHA)
            rows = [self.task.derived.row(s.candidate) for s in chosen]
        random = [self.random_row() for _ in range(math.ceil(EPSILON * self.plan_size))]
        rows = rows[: self.plan_size - len(random)]
        self.plan = [*rows, *(row for row in random if row is not None)][::-1]

    def _scorer(self) -> Score:
        """Return a function that scores rows in this plan."""
        if self.space.size > SCORED:
            return self.score
        if self.whole is None:
            rows = tune.every_row(self.space)
            legal = self.space.legal(rows)
            features = self.features(rows[legal])  # a subclass may choose other columns
            self.whole = np.zeros((len(rows), features.shape[1]), np.float32)
            self.whole[legal] = features
        scores = self.predict(self.whole)
        return lambda rows: scores[self.space.indices(rows)]


class XGBTuner(ModelTuner):
    """Simulated annealing under boosted trees that learn from the measurements.

    plan_size      the model is trained, and a plan made, after this many trials
    feature_type   what the model sees: "itervar", "knob" or "curve"
    loss_type      "reg": the error of the speed; "rank": the order of pairs; "rank-binary": the
                   order of pairs of which only one has at least half of the best speed
    num_threads    the threads that train the model, by default one
    optimizer      what finds rows with high scores: "sa", simulated annealing, or its settings
    log_interval   the steps of annealing between two lines of the logger "autotvm"
    diversity_filter_ratio   annealing finds this many times the plan; equation 3 chooses from it
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: FeatureType = "itervar",
        loss_type: LossType = "reg",
        num_threads: int | None = None,
        optimizer: Annealing | Literal["sa"] = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        rng: np.random.Generator | None = None,
    ) -> None:
        if loss_type not in LOSSES:
            raise ArgumentError(f"loss_type {loss_type!r}", "no such loss", ", ".join(LOSSES))
        if optimizer != "sa" and not isinstance(optimizer, Annealing):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"optimizer {optimizer!r}", "no such optimizer", '"sa"')
        threads = 1 if num_threads is None else num_threads
        if type(threads) is not int or threads < 1:
            raise ArgumentError(f"num_threads {num_threads!r}", "it must be at least 1")
        draw = np.random.default_rng() if rng is None else rng
        self.trees = tune.Trees(LOSSES[loss_type], int(draw.integers(1 << 31)), threads=threads)
        super().__init__(
            task,
            self.trees,
            columns_of(task, feature_type),
            plan_size=plan_size,
            diversity_filter_ratio=diversity_filter_ratio,
            annealing=Annealing() if optimizer == "sa" else optimizer,
            log_interval=log_interval,
            rng=draw,
        )
        self.feature_type: FeatureType = feature_type
        self.loss_type = loss_type
        self.base: tune.Model | None = None

    def predict(self, features: tune.Floats) -> tune.Floats:
        """Return the predicted scores; the base model counts less with each measurement."""
        scores = self.model.predict(features) if self.fitted else np.zeros(len(features))
        weight = 0.5 ** (len(self.trials) / HALF_LIFE)
        if self.base is None or weight < IGNORED:
            return scores
        return scores + weight * self.base.predict(features)

    def labels(self, speeds: tune.Floats) -> tune.Floats:
        """Return what the model learns from speeds; the best one is 1."""
        return (speeds >= HALF).astype(np.float32) if self.loss_type == "rank-binary" else speeds

    def load_history(
        self,
        data_set: Iterable[tuple[MeasureInput, MeasureResult]],
        min_seed_records: int = 500,
    ) -> None:
        """Learn from measurements of the same template, also of other workloads.

        The model made from them counts less with each measurement of this task. Records of other
        templates are ignored, and all are if there are fewer than `min_seed_records`; a warning
        says so.
        """
        name, pairs = self.task.name, list(data_set)
        own_pairs = [(i, r) for i, r in pairs if i.task.name == name]
        if len(own_pairs) < len(pairs):
            others = sorted({i.task.name for i, _ in pairs} - {name})
            text = f"{len(pairs) - len(own_pairs)} records of other templates are ignored: {others}"
            warnings.warn(text, stacklevel=2)
        measured = [(i, r) for i, r in own_pairs if not r.error_no]
        if len(measured) < max(1, min_seed_records):
            text = f"only {len(measured)} records of {name}, {min_seed_records} are needed: ignored"
            warnings.warn(text, stacklevel=2)
            return
        groups = dict[str, list[tuple[MeasureInput, MeasureResult]]]()
        for i, r in measured:
            groups.setdefault(i.task.key, []).append((i, r))
        features, labels = zip(*map(self._learned, groups.values()), strict=True)
        self.base = tune.Trees(self.trees.loss, self.trees.seed, threads=self.trees.threads)
        self.is_ready = True
        self.base.fit(np.concatenate(features), np.concatenate(labels))

    def _learned(
        self, measured: Sequence[tuple[MeasureInput, MeasureResult]]
    ) -> tuple[tune.Floats, tune.Floats]:
        """Return the features of measurements of one task, and their speeds; the best one is 1."""
        task = measured[0][0].task
        columns = columns_of(task, self.feature_type)
        if columns.names != self.columns.names:
            why = "the features of another workload have other columns"
            raise ArgumentError("load_history", why, 'feature_type="itervar" or "curve"')
        features = columns.of_candidates([task.candidate(i.config) for i, _ in measured])
        seconds = np.array([min(r.costs) for _, r in measured])
        return features, self.labels((seconds.min() / seconds).astype(np.float32))


class GuidedTuner(Tuner):
    """The default: starts from the analytic model, then evolves candidates under a cost model."""

    def __init__(self, task: Task, rng: np.random.Generator | None = None, **options: Any) -> None:
        super().__init__(task, rng)
        self.inner = tune.GuidedPolicy(task, self.rng, **options)

    def propose(self, count: int) -> list[tune.Candidate]:
        return list(self.inner.propose(count))

    def learn(self, trials: Sequence[tune.Trial]) -> float | None:
        self.trials += trials
        return self.inner.learn(trials)
