"""Loss functions for training cost models, and metrics of how well they predict.

Higher scores predict faster candidates. A label is (best time) / (time), 0 for failures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Numbers: TypeAlias = npt.NDArray[np.int64]
# objective(scores, data) returns the gradient and the diagonal of the second derivative
Objective: TypeAlias = Callable[[npt.NDArray[np.float32], Any], tuple[Floats, Floats]]

PAIRS = 32  # partners of each sample in one evaluation of the rank loss
ALL_PAIRS = 256  # with at most this many samples, every pair is evaluated


def rank_loss(labels: Floats, seed: int, tasks: Numbers | None = None) -> Objective:
    """Return AutoTVM's equation 2: the sum over pairs of log(1 + exp(-sign * difference)).

    Uses all pairs if there are at most ALL_PAIRS samples; otherwise each call draws PAIRS partners
    for each sample.

    tasks   the number of the task of each sample; only samples of the same task are compared
    """
    count = len(labels)
    rng = np.random.default_rng(seed)

    def objective(scores: npt.NDArray[np.float32], _: Any) -> tuple[Floats, Floats]:
        if count <= ALL_PAIRS:
            partner = np.broadcast_to(np.arange(count), (count, count))
        else:
            partner = rng.integers(0, count, (count, PAIRS))
        sign = np.sign(labels[:, None] - labels[partner])
        if tasks is not None:
            sign = np.where(tasks[:, None] == tasks[partner], sign, 0)
        ahead = sign * (scores[:, None] - scores[partner])
        miss = 1 / (1 + np.exp(np.clip(ahead, -60, 60)))
        bend = np.abs(sign) * miss * (1 - miss)
        # A pair changes the gradient of both samples, and each is the other's partner equally often
        # (exactly, if all pairs are used). Therefore the sum over partners counts twice.
        return -2 * np.sum(sign * miss, axis=1), np.maximum(2 * np.sum(bend, axis=1), 1e-6)

    return objective


def pack_sum_loss(labels: Floats, program: Numbers) -> Objective:
    """Return Ansor's objective: the sum over programs of label * (score - label)**2.

    A row is a statement, and the score of a program is the sum of the scores of its rows. Fast
    programs weigh more; failures weigh nothing, because their label is 0.

    program   for each row, the number of its program
    """
    weight = labels[program]

    def objective(scores: npt.NDArray[np.float32], _: Any) -> tuple[Floats, Floats]:
        error = np.bincount(program, scores, len(labels)) - labels
        return 2 * weight * error[program], 2 * weight

    return objective


# --- metrics -------------------------------------------------------------------------------------


def rmse(scores: Floats, labels: Floats) -> float:
    """Return the root of the mean squared difference between scores and labels."""
    return float(np.sqrt(np.mean(np.square(scores - labels))))


def r2(scores: Floats, labels: Floats) -> float | None:
    """Return the share of the variance of the labels that the scores explain.

    1 means exact scores, 0 means no better than the mean of the labels, and a negative number means
    worse than that. Returns None if all labels are equal.
    """
    variance = float(np.var(labels))
    return 1 - float(np.mean(np.square(scores - labels))) / variance if variance else None


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


def recall_at(scores: Floats, labels: Floats, k: int) -> float:
    """Return the share of the `k` fastest samples that are among the `k` with the highest scores.

    Ties are broken by the order of the samples.
    """
    k = min(k, len(labels))
    fastest, ranked_first = (np.argsort(-x, kind="stable")[:k] for x in (labels, scores))
    return len(np.intersect1d(fastest, ranked_first)) / k if k else 0.0


def best_of(scores: Floats, labels: Floats, k: int) -> float:
    """Return the best label of the `k` samples with the highest scores, relative to all samples.

    This is the share of the best speed that one finds by measuring these `k` candidates.
    """
    chosen = np.argsort(-scores, kind="stable")[:k]
    return float(labels[chosen].max() / labels.max())
