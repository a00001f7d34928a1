"""Models that know other tasks, and what becomes of them where they mislead."""

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import ArgumentError

from . import fakes, sketches

NAMES = ("analytic.a", "analytic.b", "b", tune.ANALYTIC)


def widened(samples: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Place the columns of `samples` among the columns of every task."""
    x, y = samples
    found = np.zeros((len(y), len(tune.COLUMNS)), np.float32)
    at = [
        tune.COLUMNS.index(name)
        for name in ("analytic.rows", "analytic.strip", "0.loops", tune.ANALYTIC)
    ]
    found[:, at] = x
    return found, y


def trials_of(offset: float, seed: int, count: int = 60, sign: float = 1.0):
    """Return features and labels of a task whose analytic model misses what column b does."""
    x = np.random.default_rng(seed).random((count, 4)).astype(np.float32)
    speed = 2 * x[:, 0] + 3 * sign * x[:, 1]
    x[:, 2], x[:, 3] = x[:, 1], 2 * x[:, 0] + offset
    return x, np.exp2(speed - speed.max()).astype(np.float32)


def accuracy(model: tune.Model, seed: int = 9) -> float:
    x, y = trials_of(-4.0, seed, 300)
    found = tune.pairwise_accuracy(model.predict(x), y)
    assert found is not None
    return found


def test_a_task_learns_from_others() -> None:
    shared = tune.SharedModel(NAMES)
    for n in range(3):
        shared.of(f"task {n}").fit(*trials_of(3.0 * n, n))
    new, alone = shared.of("new"), tune.AnalyticModel(3)
    assert accuracy(alone) < 0.8
    assert accuracy(new) > 0.93  # before its first trial
    few = trials_of(-4.0, 7, 12)
    new.fit(*few)
    assert new.chosen == 1
    own = tune.Trees(prior=3)
    own.fit(*few)
    assert accuracy(new) > accuracy(own) + 0.03


def test_other_tasks_that_mislead_are_dropped() -> None:
    shared = tune.SharedModel(NAMES)
    for n in range(3):
        shared.of(f"task {n}").fit(*trials_of(3.0 * n, n, sign=-1.0))
    new = shared.of("new")
    before = accuracy(new)
    new.fit(*trials_of(-4.0, 7, 32))
    assert new.chosen == 0  # the analytic model
    others, analytic = new.accuracy[1], new.accuracy[0]
    assert others is not None
    assert analytic is not None
    assert others < analytic
    assert accuracy(new) > 0.75 > before


def test_a_task_is_not_judged_by_trees_that_know_its_trials() -> None:
    shared = tune.SharedModel(NAMES)
    first = shared.of("first")
    first.fit(*trials_of(0.0, 0))
    assert len(first.bases) == 1  # the analytic model: there are no other tasks
    shared.of("second").fit(*trials_of(1.0, 1))
    first.fit(*trials_of(0.0, 0))
    known = tune.Trees(prior=3, only=(0, 1))
    known.fit_tasks([trials_of(1.0, 1)])
    x = trials_of(2.0, 5)[0]
    np.testing.assert_array_equal(first.bases[1].predict(x), known.predict(x))


def test_shared_trees_are_trained_again_when_the_trials_have_grown() -> None:
    shared = tune.SharedModel(NAMES)
    shared.of("other").fit(*trials_of(0.0, 0, 50))
    trees = shared.bases("new")[1]
    shared.of("other").fit(*trials_of(0.0, 0, 55))
    assert shared.bases("new")[1] is trees
    shared.of("other").fit(*trials_of(0.0, 0, 60))
    assert shared.bases("new")[1] is not trees


def test_a_task_with_other_columns_shares_nothing() -> None:
    shared = tune.SharedModel(NAMES)
    x, y = trials_of(0.0, 0)
    other = shared.of("other")
    other.fit(x[:, :2], y)  # the columns of its knobs
    assert tune.pairwise_accuracy(other.predict(x[:, :2]), y) > 0.8
    assert next(iter(other.importance(NAMES[:2]))) == "analytic.b"
    assert len(shared.bases("new")) == 1


def test_what_a_corrected_base_adds_up_to() -> None:
    model = tune.ResidualModel((tune.AnalyticModel(3),))
    with pytest.raises(ArgumentError, match="not trained"):
        model.importance(NAMES)
    model.fit(*trials_of(0.0, 0))
    x, _ = trials_of(0.0, 1)
    parts = model.explain(x, NAMES)
    assert sum(parts.values()) == pytest.approx(float(model.predict(x)[0]), abs=1e-3)
    assert next(iter(model.importance(NAMES))) == "analytic.b"


def test_trees_survive_the_disk(tmp_path) -> None:
    whole = tune.Trees(prior=tune.COLUMNS.index(tune.ANALYTIC))
    whole.fit_tasks([widened(trials_of(0.0, 0)), widened(trials_of(1.0, 1))])
    tune.save_trees(whole, tmp_path / "mine.trees")
    x, _ = widened(trials_of(2.0, 2))
    np.testing.assert_array_equal(
        tune.load_trees(tmp_path / "mine.trees").predict(x), whole.predict(x)
    )
    with pytest.raises(ArgumentError, match="not trained"):
        tune.save_trees(tune.Trees(), tmp_path / "new.trees")


def test_other_files_are_no_trees(tmp_path) -> None:
    trees = tune.Trees(prior=3)
    trees.fit(*trials_of(0.0, 0))
    file = tmp_path / "mine.trees"
    tune.save_trees(trees, file)
    with pytest.raises(ArgumentError, match="other columns"):
        tune.load_trees(file)
    good = tune.PRETRAINED.read_bytes()
    changed = bytes([*good[:5000], good[5000] ^ 1, *good[5001:]])
    for data in (b"", b"{", good[32:], good[: len(good) // 2], good[:-1], changed):
        file.write_bytes(data)
        with pytest.raises(ArgumentError, match="it is damaged, or is not a file of trees"):
            tune.load_trees(file)


def test_trees_of_another_version_are_refused(tmp_path, monkeypatch) -> None:
    whole, file = tune.Trees(prior=tune.COLUMNS.index(tune.ANALYTIC)), tmp_path / "old.trees"
    whole.fit(*widened(trials_of(0.0, 0)))
    with monkeypatch.context() as older:
        older.setattr("minitvm.tune.shared.VERSION", 1)
        tune.save_trees(whole, file)
    with pytest.raises(ArgumentError, match="by another version"):
        tune.load_trees(file)


def test_which_columns_each_model_splits() -> None:
    parts, loops = tune.parts_in(tune.COLUMNS), tune.loops_in(tune.COLUMNS)
    assert sorted(parts + loops) == [*range(len(tune.COLUMNS))]
    assert set(tune.pretrained().kept) <= set(parts)
    assert tune.pretrained().prior == tune.COLUMNS.index(tune.ANALYTIC)
    samples = widened(trials_of(0.0, 0))
    shared = tune.SharedModel(tune.COLUMNS)
    shared.of("other").fit(*samples)
    analytic, given, others = shared.bases("new")
    assert isinstance(analytic, tune.AnalyticModel)
    assert isinstance(given, tune.Trees)
    assert given.kept == tune.pretrained().kept
    assert isinstance(others, tune.Trees)
    assert set(others.kept) <= set(parts)
    for model in (shared.of("new"), tune.model_for(tune.COLUMNS, 0)):
        model.fit(*samples)
        assert isinstance(model, tune.ResidualModel)
        assert model.trees is not None
        assert set(model.trees.kept) <= set(loops)
    with pytest.raises(ArgumentError, match="at least one column"):
        tune.Trees(only=())
    with pytest.raises(ArgumentError, match="not trained"):
        tune.ResidualModel(()).predict(samples[0])


def test_columns_without_a_draft_are_refused() -> None:
    for names in (("a", "b"), ("a", tune.ANALYTIC), ("analytic.a",)):
        with pytest.raises(ArgumentError, match="no columns 'analytic'"):
            tune.SharedModel(names)


class _Backwards:
    """A pre-trained model that predicts the opposite of the analytic model."""

    def __init__(self, column: int) -> None:
        self.column = column

    def fit(self, features, labels) -> None:
        raise AssertionError("a base is not trained")

    def predict(self, features):
        return -features[:, self.column]

    def importance(self, names):
        return dict[str, float]()

    def explain(self, features, names):
        return dict[str, float]()


def measured(policy: tune.Policy, task: tune.Task, count: int) -> list[tune.Trial]:
    """Measure what the analytic model predicts, with 2 % of noise; the policy does not learn."""
    columns, found = tune.columns_of(task), list[tune.Trial]()
    for candidate in policy.propose(count):
        (row,) = columns.of(candidate.sketch, np.array([candidate.row], np.int32))
        noise = 1 + 0.02 * (hash(candidate.row) % 101) / 100
        found.append(tune.Trial(candidate, tune.Result((float(2.0 ** -row[-1]) * noise,))))
    return found


def test_a_search_drops_a_model_that_misleads() -> None:
    task = fakes.task(sketches.matmul(64, 64, 64, 1))
    at = tune.columns_of(task).names.index(tune.ANALYTIC)
    model = tune.ResidualModel((tune.AnalyticModel(at), _Backwards(at)))
    policy = tune.GuidedPolicy(task, np.random.default_rng(0), model=model)
    first = measured(policy, task, 16)
    assert model.chosen == 1  # the candidates that it likes are measured first
    policy.learn(first)
    assert model.chosen == 0
    assert min(t.seconds for t in measured(policy, task, 16)) < 0.5 * min(t.seconds for t in first)


def test_a_search_starts_with_the_pretrained_trees_and_drops_them_where_they_mislead() -> None:
    task, rng = fakes.task(sketches.matmul(64, 64, 64, 1)), np.random.default_rng(0)
    policy = tune.GuidedPolicy(task, rng)
    model = policy.model
    assert isinstance(model, tune.ResidualModel)
    first = model.bases[model.chosen]
    assert isinstance(first, tune.Trees)
    assert first.kept == tune.pretrained().kept
    policy.learn(measured(tune.RandomPolicy(task, rng), task, 32))
    analytic, trees = model.accuracy
    assert analytic is not None
    assert trees is not None
    assert analytic > trees
    assert model.chosen == 0
