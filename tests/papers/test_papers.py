# pyright: basic

"""The papers' experiments: tables match their tasks, searches repeat, and models add up."""

import math

import numpy as np
import pytest

from minitvm import autotvm, papers, tune
from minitvm.base import ArgumentError

TABLES = [
    n
    for n in (*papers.LAYERS, *papers.PRODUCTS, *papers.OTHER_MACHINE, *papers.WINOGRAD)
    if (tune.FOLDER / f"{n}.npz").exists()
]


def speeds(name: str, searcher: str, seed: int, trials: int = 48) -> np.ndarray:
    return papers.search(papers.recorded(name), papers.SEARCHERS[searcher], trials, seed)


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_large_and_has_few_fast_candidates(name):
    table = papers.recorded(name).table
    assert len(table.measured) >= 2000
    if name not in papers.OTHER_MACHINE:  # with AVX-512, more candidates reach the peak
        assert table.share_within(0.05) <= 0.04


@pytest.mark.parametrize("name", TABLES)
def test_the_task_of_a_table_has_its_knobs_and_only_its_candidates(name):
    records = papers.recorded(name)
    target, machine = records.task.target, records.table.about["machine"]
    assert (target.l2, target.l3) == (machine["l2"], machine["l3"]), "not the recording machine"
    assert target.vector_bytes == (64 if name in papers.OTHER_MACHINE else 32)
    space = records.task.config_space.space
    assert [k.name for k in space.knobs] == [k.name for k in records.table.knobs]
    drawn = space.sample(np.random.default_rng(0), 100)
    assert not np.isnan(records.table.of(drawn)).any()
    candidates = [records.task.derived.candidate(tuple(row)) for row in drawn.tolist()]
    for n, sketch in enumerate(records.task.sketches):
        rows = np.array([c.row for c in candidates if c.sketch == n], np.int32)
        if len(rows):
            assert sketch.space.legal(rows).all()


def test_a_candidate_outside_the_table_is_not_allowed():
    records = papers.recorded("C9")
    whole = tune.every_row(records.task.config_space.space)
    missing = np.isnan(records.table.of(whole))
    assert missing.any()
    assert (records.task.config_space.space.legal(whole) == ~missing).all()


def test_public_tables_are_small():
    assert sum(file.stat().st_size for file in tune.FOLDER.glob("*.npz")) < 2e6


def test_an_unknown_task_is_refused_with_the_known_names():
    with pytest.raises(ArgumentError, match=r"C12.*matmul-512.*C9-avx512"):
        papers.task("C13")


# --- features ------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", papers.ENCODINGS)
def test_columns_of_single_rows_equal_those_of_the_whole_table(encoding):
    records = papers.recorded("C9")
    features = records.encoded(encoding)
    assert features.shape[0] == len(records.rows) == len(records.speeds)
    candidate = records.task.derived.candidate(tuple(records.rows[7].tolist()))
    row = records.columns(encoding).of_candidates([candidate])
    np.testing.assert_array_equal(row[0], features[7])


def test_no_encoding_of_a_search_has_the_analytic_estimate():
    records = papers.recorded("C9")
    for encoding in papers.ENCODINGS:
        assert records.columns(encoding).analytic is None


# --- searches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("searcher", [s for s in papers.SEARCHERS if s != "product"])
def test_a_search_repeats_and_never_gets_slower(searcher):
    first, again = (speeds("C9", searcher, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (np.diff(first) >= 0).all()
    assert first[-1] <= 1
    assert len(first) == 48


def test_twice_the_trials_are_those_of_the_longer_search():
    once, twice = (speeds("C9", s, seed=0) for s in ("random", "random, twice the trials"))
    np.testing.assert_array_equal(twice[:24], once[1::2])


def test_a_search_measures_each_candidate_once():
    records = papers.recorded("C9")
    for name in ("genetic", "genetic, Tensor Comprehensions", "trees, squared error"):
        policy = papers.SEARCHERS[name].policy(records, np.random.default_rng(0))
        measurer, seen = tune.TableMeasurer(records.table, records.task), []
        for _ in range(6):
            candidates = policy.propose(papers.PLAN)
            policy.learn([tune.Trial(c, measurer.result(c)) for c in candidates])
            seen += candidates
        assert len(seen) == len(set(seen)) == 6 * papers.PLAN


def test_trials_to_counts_from_one():
    curve = np.array([0.5, 0.9, 0.95, 0.95], np.float32)
    assert papers.trials_to(curve, 0.5) == 1
    assert papers.trials_to(curve, 0.9) == 2
    assert papers.trials_to(curve, 0.96) == 5


def test_a_model_needs_fewer_trials_than_random_search():
    seeds = range(5)
    random, trees = (
        [papers.trials_to(speeds("C9", s, seed, 250), 0.9) for seed in seeds]
        for s in ("random", "trees, squared error")
    )
    assert np.median(trees) < np.median(random) / 2


# --- models --------------------------------------------------------------------------------------


def test_expected_improvement_of_known_cases():
    mean, deviation = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    values = papers.expected_improvement(mean, deviation, best=0.0)
    np.testing.assert_allclose(values, [1.0, 0.0, 1 / math.sqrt(2 * math.pi)], atol=1e-6)


def test_acquisitions_of_an_ensemble_follow_from_the_scores_of_its_members():
    records = papers.recorded("C9")
    x, y = records.encoded("configuration")[:64], records.speeds[:64]
    scores = {}
    for acquisition in ("mean", "ucb", "ei"):
        model = papers.Ensemble(lambda s: tune.Trees("regression", s), 5, acquisition)
        model.fit(x, y)
        scores[acquisition] = model.predict(x)
        members = np.stack([member.predict(x) for member in model.models])
    np.testing.assert_allclose(scores["mean"], members.mean(axis=0))
    np.testing.assert_allclose(scores["ucb"], members.mean(axis=0) + members.std(axis=0))
    assert (scores["ei"] >= 0).all()


def test_equation_4_adds_a_correction_to_the_history():
    records = papers.recorded("C9")
    x, y = records.encoded("flattened loops"), records.speeds
    past = papers.global_model([(x[:500], y[:500])])
    model = papers.transferred(past)
    np.testing.assert_array_equal(model.predict(x), past.predict(x))  # before the first trial
    model.fit(x[500:564], y[500:564])
    assert model.bases[model.chosen] is past
    local = model.predict(x) - past.predict(x)
    assert np.ptp(local) > 0
    assert tune.pairwise_accuracy(model.predict(x), y) > 0.8


def test_an_inverted_history_is_dropped_at_the_first_fit():
    records = papers.recorded("C9")
    x, y = records.encoded("flattened loops"), records.speeds
    order, inverted = np.argsort(y), np.empty_like(y)
    inverted[order] = y[order[::-1]]
    model = papers.transferred(papers.global_model([(x[:500], inverted[:500])]))
    model.fit(x[500:516], y[500:516])
    assert isinstance(model.bases[model.chosen], papers.NoHistory)


def test_a_search_with_a_history_learns_from_its_first_batch():
    records = papers.recorded("C9")
    fits: list[int] = []

    class Past(papers.NoHistory):
        def fit(self, features: tune.Floats, labels: tune.Floats) -> None:
            fits.append(len(labels))

    policy = autotvm.tuner.ModelTuner(
        records.task, Past(), records.columns("configuration"), plan_size=16, is_ready=True,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    measurer = tune.TableMeasurer(records.table, records.task)
    for _ in range(3):
        policy.learn([tune.Trial(c, measurer.result(c)) for c in policy.propose(16)])
    assert fits == [16, 32]
