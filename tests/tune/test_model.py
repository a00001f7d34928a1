"""Cost models: what they learn, how they explain it, and which losses are sound."""

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import ArgumentError

LOSSES = ("regression", "rank")


def samples(count: int, seed: int = 0):
    """Return features of which columns 0 and 3 decide the label, and labels from 0 to 1."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 8)).astype(np.float32)
    y = (0.6 * x[:, 0] + 0.4 * (1 - np.abs(x[:, 3] - 0.5))).astype(np.float32)
    return x, y / y.max()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_trained_model_orders_samples_that_it_has_not_seen(loss) -> None:
    model = tune.Trees(loss)
    model.fit(*samples(200))
    x, y = samples(300, seed=1)
    accuracy = tune.pairwise_accuracy(model.predict(x), y)
    assert accuracy is not None
    assert accuracy > 0.85


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_orders_its_training_set(loss) -> None:
    x, y = samples(250)
    model = tune.Trees(loss)
    model.fit(x, y)
    ranks = np.argsort(np.argsort(model.predict(x))), np.argsort(np.argsort(y))
    assert np.corrcoef(*ranks)[0, 1] > 0.97


def test_defect_5_training_does_not_stop_by_its_training_error() -> None:
    model = tune.Trees(trees=40)
    model.fit(np.zeros((20, 3), np.float32), np.zeros(20, np.float32))  # error 0 from the start
    assert model.booster.num_boosted_rounds() == 40


def test_the_rank_loss_is_equation_2() -> None:
    """Its gradient is that of the sum over ordered pairs of log(1 + exp(-sign * difference))."""
    y, f = np.array([1.0, 0.2, 0.2, 0.7]), np.array([0.3, -0.1, 0.4, 0.2])

    def loss(f):
        d, s = f[:, None] - f[None, :], np.sign(y[:, None] - y[None, :])
        return np.sum(np.log1p(np.exp(-s * d)))

    step = 1e-6 * np.eye(4)
    slope = [(loss(f + h) - loss(f - h)) / 2e-6 for h in step]
    gradient, second = tune.rank_loss(y, 0)(f.astype(np.float32), None)
    np.testing.assert_allclose(gradient, slope, atol=1e-4)
    assert (second > 0).all()


def test_the_rank_loss_of_many_samples_draws_pairs() -> None:
    x, y = samples(600)
    first, again = tune.Trees("rank", seed=3), tune.Trees("rank", seed=3)
    first.fit(x, y)
    again.fit(x, y)
    assert tune.pairwise_accuracy(first.predict(x), y) > 0.95
    np.testing.assert_array_equal(first.predict(x), again.predict(x))


def test_a_model_says_which_columns_matter() -> None:
    x, y = samples(300)
    names = tuple("abcdefgh")
    model = tune.Trees()
    model.fit(x, y)
    gains = model.importance(names)
    assert set(list(gains)[:2]) == {"a", "d"}
    assert sum(gains.values()) == pytest.approx(1)
    parts = model.explain(x[:1], names)
    assert sum(parts.values()) == pytest.approx(float(model.predict(x[:1])[0]), abs=1e-4)
    high, low = np.full((1, 8), 0.95, np.float32), np.full((1, 8), 0.05, np.float32)
    assert model.explain(high, names)["a"] > 0 > model.explain(low, names)["a"]


def test_the_draft_is_its_column() -> None:
    x, y = samples(5)
    model = tune.AnalyticModel(2)
    model.fit(x, y)
    np.testing.assert_array_equal(model.predict(x), x[:, 2])
    assert model.importance("abcdefgh") == {"c": 1.0}
    assert model.explain(x, "abcdefgh") == {"c": pytest.approx(x[0, 2])}


def test_misuse_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no such loss"):
        tune.Trees("squared")
    with pytest.raises(ArgumentError, match="not trained"):
        tune.Trees().predict(np.zeros((1, 1), np.float32))


def test_pairwise_accuracy_counts_pairs() -> None:
    assert tune.pairwise_accuracy(np.array([3.0, 2, 1]), np.array([1.0, 0.5, 0])) == 1
    assert tune.pairwise_accuracy(np.array([1.0, 2, 3]), np.array([1.0, 0.5, 0])) == 0
    assert tune.pairwise_accuracy(np.array([2.0, 2, 2]), np.array([1.0, 0.5, 0])) == 0.5
    assert tune.pairwise_accuracy(np.array([2.0, 1]), np.array([0.0, 0])) is None


def test_columns_that_order_the_samples_equally_are_used_once() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 64))
    ties = np.round(x, 1)
    features = np.column_stack([np.ones(64), x, 2 * x + 1, ties, y, x**3, -x])
    model = tune.Trees()
    model.fit(features, x + y)
    assert model.kept == [1, 3, 4, 6]
    model.fit(features[:, :1], x)
    assert model.kept == [0]


@pytest.mark.parametrize("loss", LOSSES)
def test_trees_with_a_prior_correct_it(loss) -> None:
    """The samples are the best ones of the prior: they say little about the others."""
    x, y = samples(600)
    rng = np.random.default_rng(1)
    estimate = np.log2(y) + rng.normal(0, 0.2, len(y)) + 0.5 * (x[:, 5] > 0.5)  # an error to learn
    x = np.column_stack([x, estimate + 9]).astype(np.float32)
    order = np.argsort(-estimate)
    seen, rest = order[:64], order[64:]
    prior, plain = tune.Trees(loss, prior=8), tune.Trees(loss)
    prior.fit(x[seen], y[seen])
    plain.fit(x[seen], y[seen])
    found, without, alone = (
        tune.pairwise_accuracy(score, y[rest])
        for score in (prior.predict(x[rest]), plain.predict(x[rest]), x[rest, 8])
    )
    assert found is not None
    assert without is not None
    assert alone is not None
    assert found > without + 0.02
    assert loss != "regression" or found > alone + 0.02  # the scale of a rank loss is not log2
    names = "abcdefghi"
    parts = prior.explain(x[:1], names)
    assert sum(parts.values()) == pytest.approx(float(prior.predict(x[:1])[0]), abs=1e-3)


def test_a_failure_is_as_slow_as_the_slowest_for_trees_with_a_prior() -> None:
    x, y = samples(64)
    x[:, 2] = np.log2(y)
    y[:8] = 0
    model = tune.Trees(prior=2)
    model.fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    assert model.predict(x[:8]).max() < model.predict(x[8:]).min()
