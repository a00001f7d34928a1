"""Models that predict which candidate is faster, from rows of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError

from .features import COLUMN, SLOTS, STATEMENT
from .loss import Floats, Numbers, pack_sum_loss, rank_loss

Loss: TypeAlias = Literal["regression", "rank"]

MIN_LABEL = 1 / 64  # smaller labels are raised to this value where trees correct an estimate

XGBOOST: Mapping[Loss, dict[str, Any]] = {
    "regression": {"objective": "reg:squarederror"},
    "rank": {"base_score": 0.0},  # with the objective of loss.rank_loss
}


class Model(Protocol):
    """A cost model. Features are float[candidates, columns]; higher scores predict faster."""

    def fit(self, features: Floats, labels: Floats) -> None:
        """Train from scratch. A label is (best time) / (time), between 0 and 1; 0 for failures."""
        ...

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates; only their order matters."""
        ...

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return how important each column is, most important first; the shares add up to 1."""
        ...

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return how much each column adds to the score of one candidate, largest effect first."""
        ...


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """A model without training: the score is the column with the analytic model's estimate."""

    column: int

    def fit(self, features: Floats, labels: Floats) -> None:
        """Do nothing: there is nothing to train."""

    def predict(self, features: Floats) -> Floats:
        """Return the estimates of the analytic model."""
        return features[:, self.column]

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return {name of the analytic model's column: 1}; the score depends on nothing else."""
        return {names[self.column]: 1.0}

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return {name of that column: score}; `analytic.explain` gives the reason."""
        return {names[self.column]: float(features[0, self.column])}


@dataclass(slots=True)
class Trees:
    """Gradient boosted trees (xgboost).

    loss   "regression": squared error of the label; "rank": equation 2 of the AutoTVM paper, which
           counts only the order of pairs
    seed   the seed for the pairs that the rank loss draws
    prior  the column with an estimate of log2(speed), such as the analytic one, or None
    only   the columns that the trees may split; None for all of them
    threads  how many threads train
    With a prior, the trees learn how to correct the estimate: training starts from it, with the
    logarithm of each label, and a score is the estimate plus the correction. A search measures the
    candidates with the best estimates first; they say little about the others, an estimate does.
    The number of trees is fixed; training does not stop early.
    """

    loss: Loss = "regression"
    seed: int = 0
    trees: int = 30
    depth: int = 4
    rate: float = 0.3
    prior: int | None = None
    only: Sequence[int] | None = None
    threads: int = 1
    booster: Any = field(default=None, repr=False)
    kept: list[int] = field(default_factory=list[int], repr=False)  # the columns that trees see

    def __post_init__(self) -> None:
        if self.loss not in XGBOOST:
            raise ArgumentError(f"loss {self.loss!r}", "no such loss", ", ".join(XGBOOST))
        if self.only is not None and not len(self.only):
            raise ArgumentError("Trees(only=[])", "trees split at least one column")

    def fit(self, features: Floats, labels: Floats) -> None:
        """Train from scratch."""
        self.fit_tasks([(features, labels)])

    def fit_tasks(self, samples: Sequence[tuple[Floats, Floats]]) -> None:
        """Train from scratch on the features and labels of several tasks.

        Labels of different tasks are not compared.
        """
        import xgboost

        features = np.concatenate([x for x, _ in samples])
        labels = np.concatenate([y for _, y in samples])
        counts = [len(y) for _, y in samples]
        tasks = np.repeat(np.arange(len(samples)), counts)
        columns = range(features.shape[1]) if self.only is None else self.only
        self.kept = [int(columns[n]) for n in _distinct(features[:, columns])]
        data = xgboost.DMatrix(features[:, self.kept], nthread=1)
        settings = _settings(self.depth, self.rate, self.seed) | {"nthread": self.threads}
        if self.prior is not None:
            estimate, labels = features[:, self.prior], np.log2(np.maximum(labels, MIN_LABEL))
            data.set_base_margin(estimate - _medians(estimate - labels, tasks)[tasks])
            settings["base_score"] = 0.0  # the correction starts at 0
        data.set_label(labels)
        objective = rank_loss(labels, self.seed, tasks) if self.loss == "rank" else None
        self.booster = xgboost.train(settings | XGBOOST[self.loss], data, self.trees, obj=objective)

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates, float32[candidates]."""
        booster = trained(self.booster)
        columns = np.take(features, self.kept, axis=1)  # row by row, as xgboost wants it
        scores = booster.inplace_predict(columns)
        return scores if self.prior is None else scores + features[:, self.prior]

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return each column's share of the gain of all splits, largest first.

        With a prior, counts only the splits that correct it.
        """
        return _shares(self.booster, [names[n] for n in self.kept])

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return the contribution of each column to one score (SHAP values), largest first.

        Together with the model's mean, "(mean)", they add up to the score.
        """
        import xgboost

        data = xgboost.DMatrix(features[:1, self.kept], nthread=1)
        contributions = trained(self.booster).predict(data, pred_contribs=True)[0].tolist()
        effects = dict(zip((*(names[n] for n in self.kept), "(mean)"), contributions, strict=True))
        if self.prior is not None:
            name = names[self.prior]
            effects[name] = effects.get(name, 0.0) + float(features[0, self.prior])
        return _largest_first({name: part for name, part in effects.items() if part})


@dataclass(slots=True)
class PackSum:
    """Ansor's cost model: boosted trees score each statement; a program's score is the sum.

    The trees are trained with `pack_sum_loss`. The first columns must be the columns of features.py
    that describe the heaviest statements. Columns of a whole program, such as the analytic
    estimate, are not used.
    """

    seed: int = 0
    trees: int = 30
    depth: int = 6
    rate: float = 0.2
    booster: Any = field(default=None, repr=False)

    def fit(self, features: Floats, labels: Floats) -> None:
        """Train from scratch."""
        import xgboost

        rows, program = statement_rows(features)
        settings = _settings(self.depth, self.rate, self.seed)
        settings |= {"base_score": 0.0, "min_child_weight": 0.0}
        objective = pack_sum_loss(labels, program)
        data = xgboost.DMatrix(rows, np.zeros(len(rows)), nthread=1)
        self.booster = xgboost.train(settings, data, self.trees, obj=objective)

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates, float64[candidates]."""
        rows, program = statement_rows(features)
        scores = trained(self.booster).inplace_predict(rows)
        return np.bincount(program, scores, len(features)).astype(np.float64)

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return each column's share of the gain of all splits, largest first.

        All statements use the same trees, so a name such as "op.mad" stands for all statements.
        """
        return _shares(self.booster, STATEMENT)

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return the contribution of each column to one score (SHAP values), largest first.

        Together with the model's mean for each statement, "(mean)", they add up to the score.
        """
        import xgboost

        rows, _ = statement_rows(features[:1])
        data = xgboost.DMatrix(rows, nthread=1)
        parts = trained(self.booster).predict(data, pred_contribs=True)
        effects = {"(mean)": float(parts[:, -1].sum())}
        for slot, row in enumerate(parts[:, :-1].tolist()):
            effects |= {
                names[slot * len(STATEMENT) + n]: part for n, part in enumerate(row) if part
            }
        return _largest_first(effects)


def statement_rows(features: Floats) -> tuple[Floats, Numbers]:
    """Return the features of each statement, float32[statements, columns], and its program number.

    Programs come in order, each with its heaviest statement first; unused slots are left out.
    """
    width = len(STATEMENT)
    if features.shape[1] < SLOTS * width:
        why = f"the model needs the columns of statements, not {features.shape[1]} other columns"
        raise ArgumentError("a score for each statement", why, "tune.Trees")
    slots = features[:, : SLOTS * width].reshape(-1, width)
    used = slots[:, COLUMN["iterations"]] > 0
    return slots[used], np.repeat(np.arange(len(features)), SLOTS)[used]


def _settings(depth: int, rate: float, seed: int) -> dict[str, Any]:
    return {
        "tree_method": "hist",
        "max_bin": 64,
        "max_depth": depth,
        "eta": rate,
        "nthread": 1,
        "seed": seed,
    }


def trained(booster: Any) -> Any:
    """Return the booster; raise ArgumentError before training."""
    if booster is None:
        raise ArgumentError("boosted trees", "they are not trained", "fit() first")
    return booster


def _shares(booster: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the share of each column in the gain of all splits; `names` are those trees see."""
    gains = trained(booster).get_score(importance_type="total_gain")
    total = sum(gains.values()) or 1.0
    return _largest_first({names[int(f[1:])]: gain / total for f, gain in gains.items()})


def _medians(values: Floats, tasks: npt.NDArray[np.intp]) -> Floats:
    """Return the median of each task's values."""
    return np.array([np.median(values[tasks == n]) for n in range(int(tasks.max()) + 1)])


def _distinct(features: Floats) -> list[int]:
    """Return the numbers of the columns by which trees can split samples in different ways.

    Leaves out constant columns, and columns that order the samples as another does; returns some.
    """
    order = np.argsort(features, axis=0)
    sorted_values = np.take_along_axis(features, order, axis=0)
    ranks = np.zeros(features.shape, np.int32)
    steps = np.cumsum(sorted_values[1:] != sorted_values[:-1], axis=0, dtype=np.int32)
    np.put_along_axis(ranks, order[1:], steps, axis=0)
    first = {column.tobytes(): n for n, column in reversed(list(enumerate(ranks.T)))}
    first.pop(bytes(4 * len(features)), None)
    return sorted(first.values()) or [0]


def _largest_first(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda item: -abs(item[1])))
