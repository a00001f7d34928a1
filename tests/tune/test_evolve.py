"""Policies and the evolution: what they propose, and what they never propose."""

import time

import numpy as np
import pytest

from minitvm import tune
from tests.tune.fakes import Machine, N, guided, search, seconds, sketch, task


def no_good(rows):
    return np.zeros(len(rows), np.bool_)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def start(space: tune.Space, score, count: int = 512, rows=None) -> tune.Population:
    """Return a population of random rows, or of the given ones."""
    rows = space.sample(rng(7), count) if rows is None else rows
    return tune.grown(tune.empty_population(space), space, rows, score)


def score_of(found: tune.Task, offset: float = 0.0):
    def score(n, rows):
        times = [seconds(found, tune.Candidate(n, tuple(row))) for row in rows.tolist()]
        return np.array([offset - 1e3 * t for t in times])

    return score


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_defect_2_negative_scores_are_scores(offset) -> None:
    """The evolution depends on the order of scores and on their distances, not on their sign."""
    found = task()
    spaces = [s.space for s in found.sketches]
    settings = tune.Evolution(population=256, fewest=1)
    score = score_of(found, offset)
    first = [start(spaces[0], lambda rows: score(0, rows), 256)]
    populations = tune.evolve(spaces, score, rng(), first, settings)
    best = [float(populations[n].scores[at]) for n, at in tune.ranked(populations)]
    assert best[0] - offset == pytest.approx(-1, abs=0.45)
    assert best == sorted(best, reverse=True)
    assert len(populations[0].rows) > 900  # all generations are kept, negative or not


def test_an_evolution_scores_each_row_once() -> None:
    found, asked = task(), []

    def score(n, rows):
        asked.extend((n, tuple(row)) for row in rows.tolist())
        return score_of(found)(n, rows)

    space = found.sketches[0].space
    first = [start(space, lambda rows: score(0, rows))]
    tune.evolve([space], score, rng(), first, tune.Evolution(512))
    assert len(set(asked)) == len(asked)


def test_crossover_takes_knobs_of_both_parents() -> None:
    """With mutation off, children of two parents can only mix their options (defect 6)."""
    space = tune.Space((tune.choice_knob("a", range(90)), tune.choice_knob("b", range(90))))
    rows = np.array([[1, 1], [2, 2]], np.int32)
    settings = tune.Evolution(64, 8, crossover=1.0, mutation=0.0, fewest=1)
    first = [start(space, lambda r: np.ones(len(r)), rows=rows)]
    populations = tune.evolve([space], lambda n, r: np.ones(len(r)), rng(), first, settings)
    found = {tuple(row) for row in populations[0].rows.tolist()}
    assert found == {(1, 1), (2, 2), (1, 2), (2, 1)}


def test_sketches_with_better_rows_get_more_children() -> None:
    found = task(sketch("a"), sketch("b"))
    spaces, score = [s.space for s in found.sketches], score_of(found)
    first = [start(s, lambda rows, n=n: score(n, rows), 256) for n, s in enumerate(spaces)]
    populations = tune.evolve(spaces, score, rng(), first, tune.Evolution(512, fewest=16))
    assert len(populations[0].rows) > 1.5 * len(populations[1].rows) > 1.5 * 256
    populations = tune.evolve(spaces, score, rng(), first, tune.Evolution(512, fewest=300))
    assert len(populations[1].rows) == 256


def test_a_move_makes_a_row_of_a_sketch_with_the_same_knobs() -> None:
    knobs = (tune.choice_knob("a", range(90)), tune.choice_knob("b", range(90)))
    other = tune.Space((tune.choice_knob("a", range(90)), tune.choice_knob("b", range(90))))
    spaces = [tune.Space(knobs), tune.Space(knobs), other]
    first = [start(spaces[0], lambda r: np.ones(len(r))), *map(tune.empty_population, spaces[1:])]
    settings = tune.Evolution(128, 2, crossover=0.0, mutation=0.0, moves=0.5, fewest=1)
    populations = tune.evolve(spaces, lambda n, r: np.ones(len(r)), rng(), first, settings)
    known = {tuple(row) for row in first[0].rows.tolist()}
    assert {tuple(row) for row in populations[1].rows.tolist()} <= known
    assert len(populations[1].rows) > 16
    assert len(populations[2].rows) == 0


def test_rows_that_must_not_be_measured_have_no_children() -> None:
    found = task()
    space = found.sketches[0].space

    def score(n, rows):
        return np.where(rows[:, 3] == 0, -np.inf, score_of(found)(n, rows))

    first = [start(space, lambda rows: score(0, rows))]
    populations = tune.evolve([space], score, rng(), first, tune.Evolution(512))
    assert (populations[0].rows[:, 3] > 0).all()
    assert len(populations[0].rows) > 512


def test_defect_1_diversity_weighs_options_against_real_scores() -> None:
    def scored(score, *row):
        return tune.Scored(score, tune.Candidate(0, row))

    like, best, bad = scored(0.9, 1, 2), scored(1.0, 1, 1), scored(0.1, 7, 7)
    other = scored(0.8, 5, 6)
    found = [best, like, other, bad]
    assert tune.diverse(found, 2, 0.0) == [best, like]
    assert tune.diverse(found, 2, 0.2) == [best, other]  # two new options are worth .2 more
    assert bad not in tune.diverse(found, 3, 0.2)  # with scores of 0 it would be as good as any
    assert tune.diverse(found, 3, 1.0) == [best, other, bad]


def test_random_candidates_are_drawn_without_replacement() -> None:
    found = task(sketch(n=8), sketch("b", n=8))
    policy, drawn = tune.RandomPolicy(found, rng()), []
    while proposed := policy.propose(50):
        drawn += proposed
    assert len(set(drawn)) == len(drawn) == found.size
    assert policy.propose(1) == []


def test_defect_3_a_random_draw_costs_the_same_after_many_others() -> None:
    found = task()
    policy = tune.RandomPolicy(found, rng())

    def cost(batches: int) -> float:
        start = time.thread_time()
        for _ in range(batches):
            policy.propose(64)
        return time.thread_time() - start

    early = cost(20)
    cost(100)
    assert cost(20) < 5 * early


def test_known_candidates_are_not_proposed_again() -> None:
    found = task(sketch(n=8))
    space = found.sketches[0].space
    rows = tune.policy.every_row(space)
    trials = [
        tune.Trial(tune.Candidate(0, tuple(row)), tune.Result((1.0,))) for row in rows[:-3].tolist()
    ]
    for kind in (tune.RandomPolicy, guided):
        policy = kind(found, rng())
        policy.learn(trials)
        assert {c.row for c in policy.propose(16)} == {tuple(row) for row in rows[-3:].tolist()}
        assert list(policy.propose(16)) == []


def test_rows_are_numbered_as_the_space_numbers_them() -> None:
    space = sketch(n=8).space
    assert [space.row(n) for n in range(space.size)] == [
        tuple(row) for row in tune.policy.every_row(space).tolist()
    ]


def test_a_guided_search_ends_when_every_candidate_is_measured() -> None:
    found = task(sketch(n=4))
    outcome = search(found, trials=10_000)
    assert outcome.ended == "exhausted"
    assert len({trial.candidate for trial in outcome.trials}) == len(outcome.trials) == found.size


def test_a_space_without_a_legal_row_has_no_candidates() -> None:
    outcome = search(task(sketch(allowed=no_good)), trials=5)
    assert outcome.ended == "exhausted"
    assert outcome.trials == ()
    assert outcome.found is None


def test_a_sketch_without_knobs_has_one_candidate() -> None:
    plain = sketch(n=8)
    fixed = tune.Sketch("fixed", plain.args, plain.initial, plain.steps, (), tune.Space(()))
    for kind in (tune.RandomPolicy, tune.GuidedPolicy):
        policy = kind(task(fixed), rng())
        assert list(policy.propose(4)) == [tune.Candidate(0, ())]
        policy.learn([tune.Trial(tune.Candidate(0, ()), tune.Result((1.0,)))])
        assert list(policy.propose(4)) == []


def test_defect_13_equivalent_candidates_are_measured_once() -> None:
    """The columns say that unrolling changes nothing: candidates differ by it alone."""
    found = task()
    plain = tune.knob_columns(found)
    width = plain.names.index("unroll.0")
    columns = tune.Columns(lambda n, rows: plain.of(n, rows)[:, :width], plain.names[:width])
    policy = tune.GuidedPolicy(found, rng(), columns=columns)
    outcome = search(found, policy, trials=96)
    programs = [trial.candidate.row[:3] for trial in outcome.trials]
    assert len(set(programs)) == len(programs) == 96


def test_defect_13_loops_of_length_1_make_no_difference() -> None:
    """Where they are cannot be seen in a program: 324 candidates are 24 programs."""
    found = task(sketch(n=4))
    policy, programs = tune.GuidedPolicy(found, rng()), set[tuple]()
    while proposed := policy.propose(16):
        for candidate in proposed:
            options = [
                knob.options[option]
                for knob, option in zip(found.sketches[0].space.knobs, candidate.row, strict=True)
            ]
            programs.add((*(tuple(n for n in split if n > 1) for split in options[:3]), options[3]))
    assert found.size == 324
    assert len(policy.programs) == len(programs) == 24


def test_the_first_batch_follows_the_draft() -> None:
    found = task()
    plain, score = tune.knob_columns(found), score_of(found)

    def of(n, rows):
        return np.column_stack([plain.of(n, rows), score(n, rows)]).astype(np.float32)

    columns = tune.Columns(of, (*plain.names, tune.ANALYTIC))
    policy = tune.GuidedPolicy(found, rng(), columns=columns)
    first = [seconds(found, candidate) for candidate in policy.propose(16)]
    drawn = [seconds(found, c) for c in tune.RandomPolicy(found, rng()).propose(16)]
    assert max(first) < 0.8 * min(drawn)


def test_a_share_of_a_batch_is_random() -> None:
    found = task()

    class Flat:
        """A model that likes big inner k only."""

        def fit(self, features, labels):
            pass

        def predict(self, features):
            return features[:, plain.names.index("k.1")]

    plain = tune.knob_columns(found)
    policy = tune.GuidedPolicy(found, rng(), model=Flat(), columns=plain, epsilon=0.25)
    policy.learn(
        [tune.Trial(c, tune.Result((1.0,))) for c in tune.RandomPolicy(found, rng(5)).propose(16)]
    )
    batch = policy.propose(32)
    space = found.sketches[0].space
    inner = [space.knobs[2].options[candidate.row[2]][1] for candidate in batch]
    assert set(inner[:24]) == {N}
    assert len(set(inner[24:])) > 2


def test_a_search_that_stalls_tries_the_neighbours_of_the_fastest() -> None:
    found = task()
    policy = guided(found, rng(), epsilon=0, descent=0.5)
    drawn = tune.RandomPolicy(found, rng(5)).propose(26)
    times = (1.0, *(2.0 + n for n in range(25)))
    policy.learn([tune.Trial(c, tune.Result((t,))) for c, t in zip(drawn, times, strict=True)])
    near = {
        tune.Candidate(c.sketch, tuple(row))
        for c in drawn[:3]
        for row in found.sketches[c.sketch].space.neighbours(c.row).tolist()
    }
    batch = policy.propose(16)
    assert set(batch[:8]) <= near
    assert len(set(batch)) == 16


def test_a_search_is_repeated_exactly_from_its_seed() -> None:
    first, again, other = (search(trials=64, seed=seed) for seed in (4, 4, 5))
    assert first.trials == again.trials
    assert first.trials != other.trials


def test_defect_4_labels_come_from_the_shortest_time() -> None:
    one = tune.Trial(tune.Candidate(0, (0,)), tune.Result((5.0, 1.0)))
    two = tune.Trial(tune.Candidate(0, (1,)), tune.Result((2.0, 2.0)))
    bad = tune.Trial(tune.Candidate(0, (2,)), tune.Result((), "crash"))
    np.testing.assert_allclose(tune.labels_of([one, two, bad]), [1.0, 0.5, 0.0])
    assert tune.labels_of([bad]).tolist() == [0.0]


def test_the_guided_policy_needs_fewer_trials_than_random() -> None:
    found = task()

    def needed(policy, seed: int) -> int:
        trials = search(found, policy, trials=160, seed=seed, machine=Machine(found)).trials
        times = np.minimum.accumulate([trial.seconds for trial in trials])
        return int(np.argmax(times < 1.3e-3)) or 160

    few, many = (
        np.median([needed(policy, seed) for seed in range(3)])
        for policy in (guided, tune.RandomPolicy)
    )
    assert few < 0.6 * many


def test_knob_columns_of_sketches_do_not_mix() -> None:
    found = task(sketch("a"), sketch("b"))
    columns = tune.knob_columns(found)
    one, two = (columns.of(n, np.array([[5, 5, 5, 2]], np.int32))[0] for n in (0, 1))
    half = len(columns.names) // 2
    np.testing.assert_array_equal(one[:half], two[half:])
    assert not one[half:].any()
    assert columns.names[half - 1 :: half] == ("a.unroll.0", "b.unroll.0")
    assert one[half - 1] == pytest.approx(np.log2(65))
