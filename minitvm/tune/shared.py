"""Models that learn from other tasks too: shared trees, and trees of one task that correct them.

model_for(names, seed)            of one task: corrects the analytic model, or pre-trained trees
SharedModel(names).of(task.key)   of a task of several: learns from the others, too
ResidualModel((load_trees(path),), only=loops_in(names))   corrects trees in a file
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minitvm.base import ArgumentError

from .analytic import ANALYTIC
from .columns import COLUMNS
from .features import VERSION
from .loss import Floats, pairwise_accuracy
from .model import AnalyticModel, Model, Trees, trained

PRETRAINED = Path(__file__).with_name("pretrained.trees")  # benchmarks/pretrain.py writes it
CHECKSUM = 32  # bytes at the beginning of a file of trees
BASE = "(base)"  # in explain(), the estimate that trees correct
MIN_TRIALS = 8  # trials of other tasks, before trees are trained on them
GROWTH = 1.2  # these trees are trained again when there are this many times as many trials
MARGIN = 0.02  # another base is preferred if its accuracy exceeds the first base's by this much


class ResidualModel:
    """Trees of one task that correct the best of several estimates of log2(speed).

    bases      models that give the estimates, not trained on trials of this task
    only       the columns that the trees may split; None for all
    chosen     the number of the base in use; before the first fit(), the last base
    accuracy   the share of pairs of trials that each base orders correctly, in the last fit()
    Each fit() chooses the most accurate base. The first base is chosen unless another one is better
    by more than MARGIN.
    """

    def __init__(
        self, bases: Sequence[Model], *, only: Sequence[int] | None = None, seed: int = 0
    ) -> None:
        self.bases, self.only = tuple(bases), only
        self.chosen = len(self.bases) - 1
        self.accuracy: tuple[float | None, ...] = ()
        self.seed = seed
        self.trees = Trees(seed=seed)

    def fit(self, features: Floats, labels: Floats) -> None:
        """Choose the most accurate base, and train trees that correct it."""
        if not self.bases:
            self.trees = Trees(seed=self.seed)
            self.trees.fit(features, labels)
            return
        scores = [base.predict(features) for base in self.bases]
        self.accuracy = tuple(pairwise_accuracy(s, labels) for s in scores)
        ranks = [-1.0 if a is None else a for a in self.accuracy]
        ranks[0] += MARGIN
        self.chosen = int(np.argmax(ranks))
        columns = range(features.shape[1]) if self.only is None else self.only
        self.trees = Trees(seed=self.seed, prior=features.shape[1], only=columns)
        self.trees.fit(np.column_stack([features, scores[self.chosen]]), labels)

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates; before the first fit(), the last base gives them."""
        if self.trees.booster is None and self.bases:
            return self.bases[self.chosen].predict(features)
        return self.trees.predict(self._with_base(features))

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return each column's share of the gain of all splits in the trees, largest first."""
        return self.trees.importance((*names, BASE))

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return how much each column adds to the score of one candidate, largest effect first."""
        return self.trees.explain(self._with_base(features[:1]), (*names, BASE))

    def _with_base(self, features: Floats) -> Floats:
        bases = self.bases[self.chosen : self.chosen + 1]
        return np.column_stack([features, *(base.predict(features) for base in bases)])


def model_for(names: Sequence[str], seed: int) -> Model:
    """Return the default model of one task with these columns."""
    if ANALYTIC not in names:
        return Trees(seed=seed)
    return ResidualModel(_bases(names), only=loops_in(names), seed=seed)


def _bases(names: Sequence[str]) -> tuple[Model, ...]:
    """Return the analytic model and, if their columns are these, the pre-trained trees."""
    analytic = AnalyticModel(list(names).index(ANALYTIC))
    return (analytic, pretrained()) if tuple(names) == COLUMNS else (analytic,)


class SharedModel:
    """Trees that learn from the trials of several tasks.

    names   the columns that columns_of(task) has, the same for all tasks
    of(key) returns the model of a task. It corrects trees that learned from all other tasks, the
    pre-trained trees, or the analytic model, whichever is most accurate. Labels are relative to the
    best time of their task.
    """

    def __init__(self, names: Sequence[str], *, seed: int = 0) -> None:
        if ANALYTIC not in names or not parts_in(names):
            why = f"there are no columns {ANALYTIC!r} and {ANALYTIC + '.*'!r}"
            fix = "tune.columns_of"
            raise ArgumentError("a model of several tasks", why, fix)
        self.names, self.seed, self.given = names, seed, _bases(names)
        self.samples = dict[str, tuple[Floats, Floats]]()
        self.made = dict[str, tuple[int, Trees]]()  # key of the task whose trials are left out

    def of(self, key: str) -> ResidualModel:
        """Return the model of the task `key`; its fit() shares the trials of the task."""
        return _OfTask(self, key)

    def bases(self, key: str) -> tuple[Model, ...]:
        """Return the models given and, if other tasks have enough trials, trees trained on them."""
        others = [self.samples[k] for k in sorted(self.samples) if k != key]
        others = [(x, y) for x, y in others if y.any() and x.shape[1] == len(self.names)]
        count = sum(len(y) for _, y in others)
        if count < MIN_TRIALS:
            return self.given
        before, trees = self.made.get(key, (0, None))
        if trees is None or count >= GROWTH * before:
            column, parts = list(self.names).index(ANALYTIC), parts_in(self.names)
            trees = Trees(seed=self.seed, prior=column, only=parts)
            trees.fit_tasks(others)
            self.made[key] = count, trees
        return *self.given, trees


class _OfTask(ResidualModel):
    """The model of one task of a SharedModel."""

    def __init__(self, shared: SharedModel, key: str) -> None:
        super().__init__(shared.bases(key), only=loops_in(shared.names), seed=shared.seed)
        self.shared, self.key = shared, key

    def fit(self, features: Floats, labels: Floats) -> None:
        """Share the trials, choose the most accurate base, and train trees that correct it.

        A task with other columns, such as knob_columns, has no bases; its trials are not shared.
        """
        self.shared.samples[self.key] = features, labels
        known = features.shape[1] == len(self.shared.names)
        self.bases = self.shared.bases(self.key) if known else ()
        super().fit(features, labels)


def parts_in(names: Sequence[str]) -> list[int]:
    """Return the analytic model's columns except its estimate: trees of several tasks split these.

    A feature of loops means something else for another formula; a share of the cycles does not.
    """
    return [n for n, name in enumerate(names) if name.startswith(f"{ANALYTIC}.")]


def loops_in(names: Sequence[str]) -> list[int]:
    """Return all other columns: these, the trees of one task split.

    The columns of parts_in add little to them, and a search that has both needs more trials.
    """
    return [n for n, name in enumerate(names) if not name.startswith(f"{ANALYTIC}.")]


# --- trees on disk -------------------------------------------------------------------------------


def save_trees(trees: Trees, path: str | Path) -> None:
    """Write trained trees to a file: a checksum, and the model of xgboost."""
    about = {"version": VERSION, "prior": trees.prior, "kept": trees.kept}
    trained(trees.booster).set_attr(about=json.dumps(about))
    data = bytes(trees.booster.save_raw("ubj"))
    Path(path).write_bytes(hashlib.sha256(data).digest() + data)


def load_trees(path: str | Path) -> Trees:
    """Read trained trees; raise ArgumentError for other files and for trees with other columns."""
    import xgboost

    content = Path(path).read_bytes()
    data, fix = content[CHECKSUM:], "a file that save_trees or XGBModel.save has written"
    if hashlib.sha256(data).digest() != content[:CHECKSUM]:  # xgboost may end the process then
        raise ArgumentError(f"model {str(path)!r}", "it is damaged, or is not a file of trees", fix)
    booster = xgboost.Booster(model_file=bytearray(data))
    about = json.loads(booster.attr("about") or "{}")
    if (about["version"], about["prior"]) != (VERSION, COLUMNS.index(ANALYTIC)):
        why = "it was trained on other columns, by another version of minitvm"
        raise ArgumentError(f"model {str(path)!r}", why, fix)
    return Trees(prior=about["prior"], booster=booster, kept=about["kept"])


def pretrained() -> Trees:
    """Return the trees that come with minitvm, trained on the tasks of benchmarks/pretrain.py."""
    return load_trees(PRETRAINED)
