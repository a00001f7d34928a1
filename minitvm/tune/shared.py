"""Models that learn from other tasks too: shared trees, and trees of one task that correct them.

shared = SharedModel(columns_of(task).names)
GuidedPolicy(task, rng, model=shared.of(task.key))     one policy for each task of a network
GuidedPolicy(task, rng, model=Corrected((Draft(column), load_trees(path))))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from minitvm.base import ArgumentError

from .features import VERSION
from .loss import Floats, pairwise_accuracy
from .model import DRAFT, Draft, Model, Trees

BASE = "(base)"  # the name of the column with the estimate that trees correct
FEWEST = 8  # trials of other tasks, before trees are trained on them
GROWTH = 1.2  # these trees are trained again when there are this many times as many trials
MARGIN = 0.02  # another base is preferred if its accuracy exceeds the first base's by this much


class Corrected:
    """Trees of one task that correct the best of several estimates of log2(speed).

    bases      models that give the estimates, not trained on trials of this task
    chosen     the number of the base in use; before the first fit(), the last base
    accuracy   the share of pairs of trials that each base orders correctly, in the last fit()
    Each fit() chooses the most accurate base. The first base is chosen unless another one is better
    by more than MARGIN.
    """

    def __init__(self, bases: Sequence[Model], *, seed: int = 0) -> None:
        self.bases = tuple(bases)
        self.chosen = len(self.bases) - 1
        self.accuracy: tuple[float | None, ...] = ()
        self.seed = seed
        self.trees: Trees | None = None

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
        self.trees = Trees(seed=self.seed, prior=features.shape[1])
        self.trees.fit(np.column_stack([features, scores[self.chosen]]), labels)

    def predict(self, features: Floats) -> Floats:
        """Return the scores of candidates; before the first fit(), the last base gives them."""
        if self.trees is None:
            return self.bases[self.chosen].predict(features)
        return self.trees.predict(self._with_base(features))

    def importance(self, names: Sequence[str]) -> dict[str, float]:
        """Return each column's share of the gain of all splits in the trees, largest first."""
        return self._trained().importance((*names, BASE))

    def explain(self, features: Floats, names: Sequence[str]) -> dict[str, float]:
        """Return how much each column adds to the score of one candidate, largest effect first."""
        return self._trained().explain(self._with_base(features[:1]), (*names, BASE))

    def _with_base(self, features: Floats) -> Floats:
        bases = self.bases[self.chosen : self.chosen + 1]
        return np.column_stack([features, *(base.predict(features) for base in bases)])

    def _trained(self) -> Trees:
        if self.trees is None:
            raise ArgumentError("a model of several bases", "it is not trained", "fit() first")
        return self.trees


class SharedModel:
    """Trees that learn from the trials of several tasks.

    names   the columns that columns_of(task) has, the same for all tasks
    of(key) returns the model of a task. It corrects trees that learned from all other tasks, or the
    draft if that is more accurate. Labels are relative to the best time of their task.
    """

    def __init__(self, names: Sequence[str], *, seed: int = 0) -> None:
        self.prior, self.width = _draft_in(names), len(names)
        self.seed = seed
        self.samples = dict[str, tuple[Floats, Floats]]()
        self.made = dict[str, tuple[int, Trees]]()  # key of the task whose trials are left out

    def of(self, key: str) -> Corrected:
        """Return the model of the task `key`; its fit() shares the trials of the task."""
        return _OfTask(self, key)

    def bases(self, key: str) -> tuple[Model, ...]:
        """Return the draft and, if the other tasks have enough trials, trees trained on these."""
        others = [self.samples[k] for k in sorted(self.samples) if k != key]
        others = [(x, y) for x, y in others if y.any() and x.shape[1] == self.width]
        count = sum(len(y) for _, y in others)
        draft = Draft(self.prior)
        if count < FEWEST:
            return (draft,)
        before, trees = self.made.get(key, (0, None))
        if trees is None or count >= GROWTH * before:
            trees = Trees(seed=self.seed, prior=self.prior)
            trees.fit_tasks(others)
            self.made[key] = count, trees
        return draft, trees


class _OfTask(Corrected):
    """The model of one task of a SharedModel."""

    def __init__(self, shared: SharedModel, key: str) -> None:
        super().__init__(shared.bases(key), seed=shared.seed)
        self.shared, self.key = shared, key

    def fit(self, features: Floats, labels: Floats) -> None:
        """Share the trials, choose the most accurate base, and train trees that correct it.

        A task with other columns, such as gene_columns, has no bases; its trials are not shared.
        """
        self.shared.samples[self.key] = features, labels
        known = features.shape[1] == self.shared.width
        self.bases = self.shared.bases(self.key) if known else ()
        super().fit(features, labels)


def _draft_in(names: Sequence[str]) -> int:
    """Return the number of the column with the draft's estimate."""
    if DRAFT not in names:
        fix = "columns from tune.columns_of, for sketches whose statements can be derived"
        raise ArgumentError("a model of several tasks", f"there is no column {DRAFT!r}", fix)
    return list(names).index(DRAFT)


# --- trees on disk -------------------------------------------------------------------------------


def save_trees(trees: Trees, path: str | Path) -> None:
    """Write trained trees to a file."""
    about = {"version": VERSION, "prior": trees.prior, "kept": trees.kept.tolist()}
    trees.booster.set_attr(about=json.dumps(about))
    Path(path).write_bytes(trees.booster.save_raw("ubj"))


def load_trees(path: str | Path) -> Trees:
    """Read trained trees; raise ArgumentError if they need columns of another version."""
    import xgboost

    booster = xgboost.Booster(model_file=bytearray(Path(path).read_bytes()))
    about = json.loads(booster.attr("about") or "{}")
    if about.get("version") != VERSION:
        why = f"its columns have version {about.get('version')}, not {VERSION}"
        raise ArgumentError(f"model {str(path)!r}", why, "benchmarks/pretrain.py makes a new one")
    kept = np.array(about["kept"], np.intp)
    return Trees(prior=about["prior"], booster=booster, kept=kept)
