"""Losses and metrics, against numbers worked out by hand, and Ansor's sum over statements."""

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import ArgumentError

from . import sketches


def test_the_gradient_of_the_pack_sum_loss_by_hand() -> None:
    """Two programs: the first with two statements.

    scores .3 + .1 = .4 against label 1.0: missed by -.6, gradient 2 * 1.0 * -.6 = -1.2 each
    score  .7           against label  .5: missed by  .2, gradient 2 *  .5 *  .2 =   .2
    score  .9           against label   0: a failure weighs nothing
    """
    labels, program = np.array([1.0, 0.5, 0.0]), np.array([0, 0, 1, 2])
    scores = np.array([0.3, 0.1, 0.7, 0.9], np.float32)
    gradient, second = tune.pack_sum_loss(labels, program)(scores, None)
    np.testing.assert_allclose(gradient, [-1.2, -1.2, 0.2, 0], atol=1e-6)
    np.testing.assert_allclose(second, [2, 2, 1, 0])


def test_the_gradient_of_the_pack_sum_loss_is_its_slope() -> None:
    rng = np.random.default_rng(0)
    labels, program = rng.random(20), np.sort(rng.integers(0, 20, 50))
    scores = rng.random(50)

    def loss(f):
        return np.sum(labels * (np.bincount(program, f, 20) - labels) ** 2)

    step = 1e-4 * np.eye(50)
    slope = [(loss(scores + h) - loss(scores - h)) / 2e-4 for h in step]
    bend = [(loss(scores + h) - 2 * loss(scores) + loss(scores - h)) / 1e-8 for h in step]
    gradient, second = tune.pack_sum_loss(labels, program)(scores, None)
    np.testing.assert_allclose(gradient, slope, atol=1e-7)
    np.testing.assert_allclose(second, bend, atol=1e-5)


def test_the_gradient_of_the_rank_loss_is_its_slope() -> None:
    """With all pairs, each is counted from both of its samples."""
    rng = np.random.default_rng(0)
    labels, scores = rng.random(12), rng.random(12)

    def loss(f):
        ahead = np.sign(labels[:, None] - labels) * (f[:, None] - f)
        return np.sum(np.log1p(np.exp(-ahead)))

    step = 1e-4 * np.eye(12)
    slope = [(loss(scores + h) - loss(scores - h)) / 2e-4 for h in step]
    bend = [(loss(scores + h) - 2 * loss(scores) + loss(scores - h)) / 1e-8 for h in step]
    gradient, second = tune.rank_loss(labels, 0)(scores, None)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)
    np.testing.assert_allclose(second, bend, atol=1e-4)


def test_the_rank_loss_compares_samples_of_one_task_only() -> None:
    labels, scores = np.array([1.0, 0.5, 0.2, 0.8]), np.zeros(4, np.float32)
    tasks = np.array([0, 0, 1, 1])
    gradient, _ = tune.rank_loss(labels, 0, tasks)(scores, None)
    np.testing.assert_allclose(gradient, [-1, 1, 1, -1])  # one pair each: -2 * 1/2


def test_metrics_by_hand() -> None:
    labels, scores = np.array([1.0, 0.5, 0.25, 0.25]), np.array([0.8, 0.6, 0.25, 0.35])
    # squared errors .04 .01 0 .01; their mean .015; the variance of the labels .09375
    assert tune.rmse(scores, labels) == pytest.approx(0.015**0.5)
    assert tune.r2(scores, labels) == pytest.approx(1 - 0.015 / 0.09375)
    assert tune.r2(scores, np.ones(4)) is None
    assert tune.pairwise_accuracy(scores, labels) == 1  # the last two labels are equal
    assert tune.recall_at(scores, labels, 2) == 1
    assert tune.recall_at(-scores, labels, 1) == 0
    assert tune.recall_at(scores, np.array([0.1, 0.2, 0.9, 0.8]), 3) == pytest.approx(2 / 3)
    assert tune.recall_at(scores, labels, 9) == 1
    assert tune.best_of(-scores, labels, 2) == 0.25  # the two slowest
    assert tune.best_of(-scores, labels, 3) == 0.5


def candidates(count: int, seed: int):
    """Return features of a product that relu follows, and labels that both statements decide."""
    sketch = sketches.matmul(48, 96, 64, 2, relu=True)
    x = tune.features(sketch, sketch.space.sample(np.random.default_rng(seed), count))
    names = list(tune.NAMES)
    product = x[:, names.index("0.vectorize.extent")]
    relu = x[:, names.index("1.vectorize.extent")]
    y = 0.7 * product + 0.3 * relu
    return x, (y / y.max()).astype(np.float32)


def test_pack_sum_splits_programs_into_statements() -> None:
    x, _ = candidates(5, 0)
    rows, program = tune.statement_rows(x)
    assert program.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]  # the product, then relu
    width = len(tune.STATEMENT)
    np.testing.assert_array_equal(rows[::2], x[:, :width])
    np.testing.assert_array_equal(rows[1::2], x[:, width : 2 * width])


def test_pack_sum_learns_sums_and_explains_them() -> None:
    model = tune.PackSum()
    model.fit(*candidates(200, 0))
    x, y = candidates(200, 1)
    scores = model.predict(x)
    explained = tune.r2(scores, y)
    assert explained is not None
    assert explained > 0.9
    assert tune.pairwise_accuracy(scores, y) > 0.9
    parts = model.explain(x[:1], tune.NAMES)
    assert sum(parts.values()) == pytest.approx(scores[0], abs=1e-4)
    assert {name[0] for name in parts} >= {"0", "1"}  # both statements contribute
    shares = model.importance(tune.NAMES)
    assert sum(shares.values()) == pytest.approx(1)
    assert set(shares) <= set(tune.STATEMENT)


def test_pack_sum_needs_statements_and_training() -> None:
    with pytest.raises(ArgumentError, match="columns of statements"):
        tune.PackSum().fit(np.zeros((4, 7), np.float32), np.ones(4, np.float32))
    with pytest.raises(ArgumentError, match="not trained"):
        tune.PackSum().predict(candidates(1, 0)[0])


def test_trees_of_several_tasks_compare_within_each_task() -> None:
    """The slower task's labels are relative to its own best: its offset must not count."""
    rng = np.random.default_rng(0)
    samples = list[tuple[np.ndarray, np.ndarray]]()
    for offset in (0.0, 9.0, -5.0):
        x = rng.random((150, 4)).astype(np.float32)
        speed = 2 * x[:, 0] + x[:, 1]
        x[:, 3] = 2 * x[:, 0] + offset  # the estimate, which misses what x[:, 1] does
        samples.append((x, np.exp2(speed - speed.max()).astype(np.float32)))
    model = tune.Trees(prior=3, only=(0, 1))
    model.fit_tasks(samples[:2])
    assert set(model.kept) == {0, 1}
    x, y = samples[2]
    accuracy = tune.pairwise_accuracy(model.predict(x), y)
    alone = tune.pairwise_accuracy(x[:, 3], y)
    assert accuracy is not None
    assert alone is not None
    assert accuracy > 0.97 > alone
