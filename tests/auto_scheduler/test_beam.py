"""Beam search: what it keeps, what it prunes, and that it loses good programs early."""

import numpy as np
import pytest

from minitvm import auto_scheduler, tune
from minitvm.base import Target

from . import programs

TARGET = Target("llvm -num-cores=1")


@pytest.fixture(scope="module")
def task() -> tune.Task:
    dag = auto_scheduler.ComputeDAG(programs.args_of(programs.matmul(relu=True)))
    found = auto_scheduler.sketches([dag], TARGET)
    return tune.Task("matmul", (), TARGET, dag.tensors, dag.flop_ct, found)


class Machine:
    """A measurer that believes the analytic model."""

    reference_cost = 1.0

    def __init__(self, task: tune.Task) -> None:
        self.columns = tune.columns_of(task)

    def seconds(self, candidate: tune.Candidate) -> float:
        row = np.array([candidate.row], np.int32)
        return float(2.0 ** -self.columns.of(candidate.sketch, row)[0, -1])

    def measure(self, programs):
        for program in programs:
            yield tune.Result((self.seconds(program.candidate),))

    def remeasure(self, programs):
        return [*self.measure(programs), tune.Result((1.0,))]


def test_a_search_extends_the_prefixes_that_it_kept(task) -> None:
    policy = auto_scheduler.BeamPolicy(task, np.random.default_rng(0), beam=4, branch=8)
    trace = policy.search()
    assert len(trace.decisions[0].kept + trace.decisions[0].pruned) == len(task.sketches)
    for before, after in zip(trace.decisions, trace.decisions[1:], strict=False):
        parents = {(n.sketch, n.options[: before.known]) for n in before.kept}
        assert {(n.sketch, n.options[: before.known]) for n in after.kept} <= parents
        assert len(after.kept) == 4
        lowest = min(n.score for n in after.kept)
        assert all(n.score <= lowest for n in after.pruned)
    text = str(trace)
    assert "1 knobs known: 4 kept" in text
    assert "pruned " in text


def test_the_prefix_of_a_program_is_followed_to_where_it_is_pruned(task) -> None:
    policy = auto_scheduler.BeamPolicy(task, np.random.default_rng(0), beam=2, branch=1000)
    trace = policy.search()
    best = trace.decisions[-1].kept[0]
    assert trace.pruned_at(tune.Candidate(best.sketch, best.options)) is None
    lost = trace.decisions[2].pruned[0]
    rest = (0,) * (len(best.options) - 2)
    assert trace.pruned_at(tune.Candidate(lost.sketch, lost.options + rest)) == 2


def test_scores_of_prefixes_are_those_of_the_completed_programs(task) -> None:
    policy = auto_scheduler.BeamPolicy(task, np.random.default_rng(0))
    prefix = auto_scheduler.beam.Node(1, (5,))
    knobs = len(task.sketches[1].space.knobs)
    row = np.array([(5, *(0,) * (knobs - 1))], np.int32)
    at = policy.columns.names.index(tune.ANALYTIC)
    assert policy.scores([prefix])[0] == policy.columns.of(1, row)[0, at]
    several = auto_scheduler.BeamPolicy(task, np.random.default_rng(0), draws=64)
    complete = auto_scheduler.beam.Node(1, tuple(row[0].tolist()))
    mean, whole = several.scores([prefix, complete])
    assert whole == pytest.approx(policy.scores([complete])[0])
    assert mean != whole


@pytest.mark.parametrize("draws", [0, 4])
def test_tune_run_accepts_a_beam_search(task, draws) -> None:
    rng = np.random.default_rng(0)
    policy = auto_scheduler.BeamPolicy(task, rng, beam=8, branch=16, draws=draws)
    outcome = tune.run(task, policy, trials=24, batch=8, measurer=Machine(task), rng=rng)
    assert outcome.ended == "trials"
    candidates = [trial.candidate for trial in outcome.trials]
    assert len(set(candidates)) == 24
    found = policy.pruned(outcome.best.candidate)
    assert len(found) == len(policy.searches)
    assert policy.fitted


def test_a_wide_beam_finds_the_best_and_a_narrow_one_loses_it(task) -> None:
    """The scores are the times themselves: only those of incomplete programs mislead."""
    machine = Machine(task)
    rng = np.random.default_rng(0)
    every = tune.RandomPolicy(task, rng).propose(2000)
    scores = machine.columns.of_candidates(every)[:, -1]
    best = every[int(np.argmax(scores))]
    narrow = auto_scheduler.BeamPolicy(task, np.random.default_rng(0), beam=2, branch=1000)
    node = narrow.search().decisions[-1].kept[0]
    assert machine.seconds(tune.Candidate(node.sketch, node.options)) > machine.seconds(best)
    lost = narrow.search().pruned_at(best)
    assert lost is not None
    assert lost < len(best.row)


def test_a_model_orders_complete_programs_better_than_incomplete_ones(task) -> None:
    machine, rng = Machine(task), np.random.default_rng(0)
    drawn = tune.RandomPolicy(task, rng).propose(120)
    trials = [tune.Trial(c, tune.Result((machine.seconds(c),))) for c in drawn]
    model = tune.AnalyticModel(machine.columns.names.index(tune.ANALYTIC))
    curve = auto_scheduler.accuracy_by_completeness(task, model, trials)
    accuracy = [a for _, a in curve if a is not None]
    assert len(accuracy) == 5
    assert max(accuracy[:2]) < 0.8
    assert max(accuracy[:2]) < accuracy[-2] < accuracy[-1] == 1
