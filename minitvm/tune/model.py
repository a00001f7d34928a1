"""Models that predict which candidate is faster, from rows of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm.base import ArgumentError

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Loss: TypeAlias = Literal["regression", "rank", "rank-xgb"]

DRAFT = "draft"  # the column with the estimate of the analytic model: -log2 of its seconds
LEAST = 1 / 64  # slower candidates count as equally slow where trees correct an estimate
PAIRS = 32  # partners of each sample in one evaluation of the rank loss
ALL_PAIRS = 256  # up to so many samples, every pair is evaluated

XGBOOST: Mapping[Loss, dict[str, Any]] = {
    "regression": {"objective": "reg:squarederror"},
    "rank": {"base_score": 0.0},  # with an objective of our own
    # Its default pairs, "topk", rank the training set badly; "mean" draws pairs uniformly.
    "rank-xgb": {
        "objective": "rank:pairwise",
        "lambdarank_pair_method": "mean",
        "lambdarank_num_pair_per_sample": 8,
        "lambdarank_normalization": False,
    },
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
        """Return how much each column decides, most important first; the shares add up to 1."""
        ...

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return what each column adds to the score of one candidate, largest effect first."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """The analytic model as a model without training: the score is its column."""

    column: int

    def fit(self, features: Floats, labels: Floats) -> None:
        """Do nothing: there is nothing to train."""

    def predict(self, features: Floats) -> Floats:
        """Return the column of the analytic model."""
        return features[:, self.column]

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return its column."""
        return {names[self.column]: 1.0}

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return its column; `draft.explain` says which limit binds."""
        return {names[self.column]: float(features[0, self.column])}


@dataclass(slots=True)
class Trees:
    """Gradient boosted trees (xgboost).

    loss   "regression": squared error of the label; "rank": equation 2 of the AutoTVM paper, which
           counts only the order of pairs; "rank-xgb": xgboost's own pairwise loss
    seed   of the pairs that the rank losses draw
    prior  the column with an estimate of log2(speed), such as the draft's, or None
    With a prior, the trees learn what it does not explain: they start from the estimate, the label
    is its logarithm, and the score is the estimate plus the correction. The best candidates of the
    draft, which a search measures first, say little about the others; the estimate still does.
    The number of trees is fixed: training does not stop by its error on the training set.
    """

    loss: Loss = "regression"
    seed: int = 0
    trees: int = 30
    depth: int = 4
    rate: float = 0.3
    prior: int | None = None
    booster: Any = field(default=None, repr=False)
    kept: Any = field(default=None, repr=False)  # the columns that trees can tell apart

    def __post_init__(self) -> None:
        if self.loss not in XGBOOST:
            raise ArgumentError(f"loss {self.loss!r}", "no such loss", ", ".join(XGBOOST))

    def fit(self, features: Floats, labels: Floats) -> None:
        """Train from scratch."""
        import xgboost

        self.kept = _distinct(features)
        data = xgboost.DMatrix(features[:, self.kept], nthread=1)
        settings = {
            "tree_method": "hist",
            "max_bin": 64,
            "max_depth": self.depth,
            "eta": self.rate,
            "nthread": 1,
            "seed": self.seed,
        }
        if self.prior is not None:
            estimate, labels = features[:, self.prior], np.log2(np.maximum(labels, LEAST))
            data.set_base_margin(estimate - np.median(estimate - labels))
            settings["base_score"] = 0.0  # of the correction
        data.set_label(labels)
        if self.loss == "rank-xgb":
            data.set_group([len(labels)])
        own = rank_loss(labels, self.seed) if self.loss == "rank" else None
        self.booster = xgboost.train(settings | XGBOOST[self.loss], data, self.trees, obj=own)

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates, float32[candidates]."""
        booster = self._trained()
        kept = np.take(features, self.kept, axis=1)  # row by row, as xgboost wants it
        found = booster.inplace_predict(kept)
        return found if self.prior is None else found + features[:, self.prior]

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return each column's share of the gain of all splits, largest first.

        The prior is not counted, only the splits that correct it.
        """
        gains = self._trained().get_score(importance_type="total_gain")
        total = sum(gains.values()) or 1.0
        return _largest_first(
            {names[int(self.kept[int(f[1:])])]: gain / total for f, gain in gains.items()}
        )

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return the contribution of each column to one score (SHAP values), largest first.

        Together with the model's mean, "(mean)", they add up to the score.
        """
        import xgboost

        booster = self._trained()
        data = xgboost.DMatrix(features[:1, self.kept], nthread=1)
        parts = booster.predict(data, pred_contribs=True)[0]
        kept: list[int] = self.kept.tolist()
        found = dict(zip((*(names[n] for n in kept), "(mean)"), parts.tolist(), strict=True))
        if self.prior is not None:
            name = names[self.prior]
            found[name] = found.get(name, 0.0) + float(features[0, self.prior])
        return _largest_first({name: part for name, part in found.items() if part})

    def _trained(self) -> Any:
        if self.booster is None:
            raise ArgumentError("boosted trees", "they are not trained", "fit() first")
        return self.booster


def _distinct(features: Floats) -> npt.NDArray[np.intp]:
    """Return the columns without those that are constant or order the samples as an earlier one.

    A tree can split no sample from another by those. At least one column is left.
    """
    order = np.argsort(features, axis=0)
    ascending = np.take_along_axis(features, order, axis=0)
    ranks = np.zeros(features.shape, np.int32)
    steps = np.cumsum(ascending[1:] != ascending[:-1], axis=0, dtype=np.int32)
    np.put_along_axis(ranks, order[1:], steps, axis=0)
    first = {column.tobytes(): n for n, column in reversed(list(enumerate(ranks.T)))}
    first.pop(bytes(4 * len(features)), None)
    return np.array(sorted(first.values()) or [0], np.intp)


def _largest_first(values: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda item: -abs(item[1])))


def rank_loss(
    labels: Floats, seed: int
) -> Callable[[npt.NDArray[np.float32], Any], tuple[Floats, Floats]]:
    """Return the objective of equation 2: the sum over pairs of log(1 + exp(-sign * difference)).

    It returns the gradient and the (diagonal) second derivative. All pairs are used if there are
    few samples; otherwise PAIRS partners of each sample, which are drawn again in each call.
    """
    count = len(labels)
    rng = np.random.default_rng(seed)

    def objective(scores: npt.NDArray[np.float32], _: Any) -> tuple[Floats, Floats]:
        if count <= ALL_PAIRS:
            partner = np.broadcast_to(np.arange(count), (count, count))
        else:
            partner = rng.integers(0, count, (count, PAIRS))
        sign = np.sign(labels[:, None] - labels[partner])
        ahead = sign * (scores[:, None] - scores[partner])
        miss = 1 / (1 + np.exp(np.clip(ahead, -60, 60)))
        bend = np.abs(sign) * miss * (1 - miss)
        # A pair pulls both of its samples. The other one has this sample as a partner equally often
        # (exactly, if all pairs are used), so that the sum over partners counts twice.
        return -2 * np.sum(sign * miss, axis=1), np.maximum(2 * np.sum(bend, axis=1), 1e-6)

    return objective


def pairwise_accuracy(scores: Floats, labels: Floats) -> float | None:
    """Return the share of pairs with different labels that the scores order correctly.

    Equal scores count half. Returns None if all labels are equal.
    """
    a, b = np.triu_indices(len(labels), 1)
    truth = np.sign(labels[a] - labels[b])
    guess = np.sign(np.subtract(scores[a], scores[b], dtype=np.float64))
    differ = truth != 0
    if not differ.any():
        return None
    return float(np.mean(0.5 + 0.5 * (truth * guess)[differ]))
