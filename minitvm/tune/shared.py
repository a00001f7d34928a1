"""Models that learn from other tasks too: shared trees, and trees of one task that correct them.

model_for(columns, seed)     of one task: corrects the draft, or the trees that come with minitvm
SharedModel(columns.names).of(task.key)     of a task of a network: learns from the other tasks too
Corrected((Draft(column), load_trees(path)))     corrects the draft, or the trees in a file
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from minitvm.base import ArgumentError

from .columns import COLUMNS, Columns
from .draft import DRAFT
from .features import VERSION
from .loss import Floats, pairwise_accuracy
from .model import Draft, Model, Trees

PRETRAINED = Path(__file__).with_name("pretrained.ubj")  # benchmarks/pretrain.py writes it
BASE = "(base)"  # the name of the column with the estimate that trees correct
FEWEST = 8  # trials of other tasks, before trees are trained on them
GROWTH = 1.2  # these trees are trained again when there are this many times as many trials
MARGIN = 0.02  # another base is preferred if its accuracy exceeds the first base's by this much


class Corrected:
    """Trees of one task that correct the best of several estimates of log2(speed).

    bases      models that give the estimates, not trained on trials of this task
    without    the columns that the trees do not split
    chosen     the number of the base in use; before the first fit(), the last base
    accuracy   the share of pairs of trials that each base orders correctly, in the last fit()
    Each fit() chooses the most accurate base. The first base is chosen unless another one is better
    by more than MARGIN.
    """

    def __init__(
        self, bases: Sequence[Model], *, without: Sequence[int] = (), seed: int = 0
    ) -> None:
        self.bases, self.without = tuple(bases), without
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
        only = [n for n in range(features.shape[1]) if n not in self.without]
        self.trees = Trees(seed=self.seed, prior=features.shape[1], only=only)
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


def model_for(columns: Columns, seed: int) -> Model:
    """Return the default model of one task with these columns."""
    if columns.names != COLUMNS or columns.draft is None:
        return Trees(seed=seed, prior=columns.draft)
    parts = parts_in(columns.names)
    return Corrected((Draft(columns.draft), pretrained()), without=parts, seed=seed)


class SharedModel:
    """Trees that learn from the trials of several tasks.

    names   the columns that columns_of(task) has, the same for all tasks
    of(key) returns the model of a task. It corrects trees that learned from all other tasks, the
    trees that come with minitvm, or the draft, whichever is most accurate. Labels are relative to
    the best time of their task.
    """

    def __init__(self, names: Sequence[str], *, seed: int = 0) -> None:
        self.prior, self.width = _draft_in(names), len(names)
        self.given: tuple[Model, ...] = (Draft(self.prior),)
        if tuple(names) == COLUMNS:
            self.given = (*self.given, pretrained())
        self.parts = parts_in(names)
        self.seed = seed
        self.samples = dict[str, tuple[Floats, Floats]]()
        self.made = dict[str, tuple[int, Trees]]()  # key of the task whose trials are left out

    def of(self, key: str) -> Corrected:
        """Return the model of the task `key`; its fit() shares the trials of the task."""
        return _OfTask(self, key)

    def bases(self, key: str) -> tuple[Model, ...]:
        """Return the models given and, if other tasks have enough trials, trees trained on them."""
        others = [self.samples[k] for k in sorted(self.samples) if k != key]
        others = [(x, y) for x, y in others if y.any() and x.shape[1] == self.width]
        count = sum(len(y) for _, y in others)
        if count < FEWEST:
            return self.given
        before, trees = self.made.get(key, (0, None))
        if trees is None or count >= GROWTH * before:
            trees = Trees(seed=self.seed, prior=self.prior, only=self.parts)
            trees.fit_tasks(others)
            self.made[key] = count, trees
        return *self.given, trees


class _OfTask(Corrected):
    """The model of one task of a SharedModel."""

    def __init__(self, shared: SharedModel, key: str) -> None:
        super().__init__(shared.bases(key), without=shared.parts, seed=shared.seed)
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


def parts_in(names: Sequence[str]) -> list[int]:
    """Return the numbers of the columns that say what the draft's estimate is made of.

    Trees of several tasks split only these. Trees of one task, which know the features of its
    loops, do not: with them, a search needs more trials (benchmarks/tune_wall.py tables).
    """
    return [n for n, name in enumerate(names) if name.startswith(f"{DRAFT}.")]


# --- trees on disk -------------------------------------------------------------------------------


def save_trees(trees: Trees, path: str | Path) -> None:
    """Write trained trees to a file."""
    about = {"version": VERSION, "prior": trees.prior, "kept": trees.kept}
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
    return Trees(prior=about["prior"], booster=booster, kept=about["kept"])


@cache
def pretrained() -> Trees:
    """Return the trees that come with minitvm, trained on the tasks of benchmarks/pretrain.py."""
    return load_trees(PRETRAINED)
