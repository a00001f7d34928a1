"""Cost models that the papers compare: with an estimate of their own error, or with a history."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from minitvm import tune

Acquisition: TypeAlias = Literal["mean", "ucb", "ei"]
KAPPA = 1.0  # of the upper confidence bound: the weight of the standard deviation
SMALL = 1e-9


@dataclass(slots=True)
class Ensemble:
    """Models that are trained on bootstrapped samples; they disagree where they are uncertain.

    member(seed)   makes an untrained model
    count          the number of models
    acquisition    what predict() returns of their scores: "mean"; "ucb", the mean plus KAPPA
                   standard deviations; "ei", the expected improvement over the best label so far
    Source: Chen et al. 2018, section 3 and Figure 7 (five models).
    """

    member: Callable[[int], tune.Model]
    count: int = 5
    acquisition: Acquisition = "mean"
    seed: int = 0
    models: list[tune.Model] = field(default_factory=list[tune.Model], repr=False)
    best: float = 0.0

    def fit(self, features: tune.Floats, labels: tune.Floats) -> None:
        """Train all models from scratch, each on a sample drawn with replacement."""
        rng = np.random.default_rng(self.seed)
        self.models, self.best = [], float(labels.max())
        for _ in range(self.count):
            drawn = rng.integers(0, len(labels), len(labels))
            self.models.append(self.member(int(rng.integers(1 << 31))))
            self.models[-1].fit(features[drawn], labels[drawn])

    def predict(self, features: tune.Floats) -> tune.Floats:
        """Return the scores of candidates under the acquisition function."""
        scores = np.stack([model.predict(features) for model in self.models])
        mean, deviation = scores.mean(axis=0), scores.std(axis=0)
        match self.acquisition:
            case "mean":
                return mean
            case "ucb":
                return mean + KAPPA * deviation
            case "ei":
                return expected_improvement(mean, deviation, self.best)

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return the mean importance of each column, most important first."""
        return _mean([model.importance(names) for model in self.models])

    def explain(self, features: tune.Floats, names: Sequence[str]) -> dict[str, float]:
        """Return how much each column adds to the mean score of one candidate."""
        return _mean([model.explain(features, names) for model in self.models])


def expected_improvement(mean: tune.Floats, deviation: tune.Floats, best: float) -> tune.Floats:
    """Return E[max(score - best, 0)] for normally distributed scores, float64[candidates]."""
    z = (mean - best) / (deviation + SMALL)
    below = 0.5 * (1 + np.array([math.erf(v / math.sqrt(2)) for v in z.tolist()]))
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return np.maximum((mean - best) * below + deviation * density, 0.0)


def forest(seed: int) -> Ensemble:
    """Return a random forest that scores by expected improvement, as in SMAC (Hutter et al. 2011).

    Ten deep trees, each on a bootstrapped sample.
    """
    return Ensemble(lambda s: tune.Trees(seed=s, trees=1, depth=10, rate=1.0), 10, "ei", seed)


class NoHistory:
    """A model that knows nothing: all candidates have the same score."""

    def fit(self, features: tune.Floats, labels: tune.Floats) -> None:
        """Do nothing: there is nothing to train."""

    def predict(self, features: tune.Floats) -> tune.Floats:
        """Return 0 for each candidate."""
        return np.zeros(len(features), np.float32)

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return no column."""
        return {}

    def explain(self, features: tune.Floats, names: Sequence[str]) -> dict[str, float]:
        """Return no column."""
        return {}


def global_model(samples: Sequence[tuple[tune.Floats, tune.Floats]], seed: int = 0) -> tune.Trees:
    """Train trees on other tasks: features and speeds of each; their scores estimate log2(speed).

    The fastest candidate of each task has speed 1.
    """
    trees = tune.Trees(seed=seed, trees=100, depth=6, rate=0.2)
    trees.fit_tasks([(x, np.log2(np.maximum(speeds, tune.MIN_LABEL))) for x, speeds in samples])
    return trees


def transferred(past: tune.Model, seed: int = 0) -> tune.ResidualModel:
    """Return a model of a task that adds a correction to a model of other tasks (equation 4).

    f(x) = f_global(x) + f_local(x)

    In each fit(), the history is dropped unless it orders more pairs of this task's trials right
    than guessing does.
    """
    return tune.ResidualModel((NoHistory(), past), seed=seed)


def _mean(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    names = {name: None for part in parts for name in part}
    means = {name: sum(part.get(name, 0.0) for part in parts) / len(parts) for name in names}
    return dict(sorted(means.items(), key=lambda item: -abs(item[1])))
