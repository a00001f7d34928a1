"""The best candidate of a log is the same for all that apply the log; the gain is beyond chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from minitvm import auto_scheduler, autotvm, graph, te, topi, tune, viz
from minitvm.base import Target
from minitvm.graph.tune import _choice, task_of
from minitvm.tune.measure import ROUNDS, at_one_speed
from tests.tune.fakes import Machine, search, task

ONE = "llvm -num-cores=1 -unroll=0"


# --- the best of a log ---------------------------------------------------------------------------


def trial(found: tune.Task, number: int, took: float, **fields) -> tune.Record:
    """Return the record of candidate `number` of a task."""
    drawn = tune.RandomPolicy(found, np.random.default_rng(0)).propose(number + 1)
    return tune.record_of(found, tune.Trial(drawn[number], tune.Result((took,)), **fields))


def best(*records: tune.Record) -> tune.Record | None:
    return tune.best(records)


def test_a_final_time_replaces_only_the_trial_of_its_candidate() -> None:
    one, two = (trial(task(), n, took) for n, took in ((0, 1.0), (1, 2.0)))
    assert best(one, two, trial(task(), 0, 1.9, final=True)).seconds == 1.9
    assert best(one, two, trial(task(), 0, 2.1, final=True)) == two


def test_a_candidate_that_fails_when_it_is_measured_again_is_out() -> None:
    one, two = (trial(task(), n, took) for n, took in ((0, 1.0), (1, 2.0)))
    failed = replace(one, final=True, result=tune.Result((), "crash"))
    assert best(one, two, failed) == two


def test_times_compare_after_dividing_by_the_default_beside_them() -> None:
    """The machine was twice as fast when the second candidate was measured."""
    one, two = trial(task(), 0, 3.0, default=4.0), trial(task(), 1, 2.0, default=2.0)
    assert best(one, two) == one


def test_a_final_measurement_counts_by_its_median() -> None:
    lucky = trial(task(), 0, 1.0, final=True)
    lucky = replace(lucky, result=tune.Result((1.0, 3.0, 3.0)))
    other = trial(task(), 1, 2.0, final=True)
    assert best(lucky, other) == other


def test_records_of_other_machines_tasks_and_targets_are_left_out() -> None:
    own = trial(task(), 0, 2.0)
    alien = replace(own, machine={**own.machine, "cpu": "z80"}, result=tune.Result((1.0,)))
    assert tune.best([own, alien]) == own
    assert tune.best([own, alien], all_machines=True) == alien
    assert tune.best([own], own.task, own.target) == own
    assert tune.best([own], "another") is tune.best([own], own.task, "llvm -num-cores=7") is None


# --- random searches, killed at any line ---------------------------------------------------------


def random_log(found: tune.Task, path: Path, rng: np.random.Generator) -> tune.Log:
    """Write the log of some searches, each on a machine of another speed; the last one is killed.

    Trials may be lucky, may fail, and may be measured again at the end of a search.
    """
    drawn = tune.RandomPolicy(found, np.random.default_rng(0)).propose(12)
    true, records, known = rng.uniform(1, 3, len(drawn)), list[tune.Record](), list[int]()

    def measured(n: int, default: float, final: bool) -> tune.Record:
        times = default * true[n] * rng.uniform(0.7, 1.2, 5 if final else 1)
        result = tune.Result(tuple(times.tolist()))
        if rng.random() < 0.1:
            result = tune.Result((), "crash")
        each = tune.Trial(drawn[n], result, float(len(records)), default, final)
        return tune.record_of(found, each)

    for _ in range(3):
        default = float(rng.uniform(0.5, 2) * 1e-3)
        new = rng.choice(len(drawn), 4).tolist()
        records += [measured(n, default, False) for n in new]
        known += new
        again = rng.choice(known, 3).tolist()
        records += [measured(n, default * 1.1, True) for n in dict.fromkeys(again)]
    log = tune.Log(path)
    for record in records[: rng.integers(1, len(records))]:
        log.append(record)
    return log


def resumed(found: tune.Task, log: tune.Log) -> tune.Outcome:
    """Return the outcome of a search that reads the log and measures nothing."""
    policy = tune.RandomPolicy(found, np.random.default_rng(0))
    again = tune.Searching(found, policy, tune.Limits(trials=1), log=log)
    again.start()
    return again.outcome()


Applied = tuple[tune.Task, Callable[[tune.Log], te.Schedule | None]]


def by_apply_best() -> Applied:
    a, b = (te.placeholder((32, 32), name=name) for name in "AB")
    dag = auto_scheduler.ComputeDAG([a, b, topi.matmul(a, b)])
    found = auto_scheduler.SearchTask(compute_dag=dag, target=ONE)
    return found, lambda log: found.apply_best(log.path)[0]


def by_auto_scheduler_history() -> Applied:
    found, _ = by_apply_best()

    def applied(log: tune.Log) -> te.Schedule:
        with auto_scheduler.ApplyHistoryBest(log.path):
            return topi.schedule(found.outputs, Target(ONE))

    return found, applied


def by_autotvm_history() -> Applied:
    found = autotvm.task_for("matmul", (32, 32, 32), ONE)

    def applied(log: tune.Log) -> te.Schedule:
        with autotvm.apply_history_best(log.path):
            return topi.schedule(found.outputs, Target(ONE))

    return found, applied


def by_graph() -> Applied:
    b = graph.Builder("one")
    net = b.graph(b.relu(b.dense(b.input("x", (8, 32)), b.input("w", (16, 32)))))
    (kernel,) = graph.extract_tasks(net, ONE)
    found = task_of(kernel)

    def applied(log: tune.Log) -> te.Schedule:
        outcome = resumed(found, log)
        if outcome.best.default is not None and outcome.best.default < outcome.best.seconds:
            return topi.schedule(found.outputs, Target(ONE))
        chosen = _choice(kernel.body, (), outcome)
        start = te.create_schedule([t.op for t in found.outputs]).state
        return tune.replayed(start, chosen.steps)

    return found, applied


@pytest.mark.parametrize(
    "make", [by_apply_best, by_auto_scheduler_history, by_autotvm_history, by_graph]
)
def test_the_best_of_a_log_is_what_applying_it_builds(
    make: Callable[[], Applied], tmp_path: Path
) -> None:
    found, applied = make()
    default = topi.schedule(found.outputs, Target(ONE))
    rng = np.random.default_rng(0)
    for n in range(20):
        log = random_log(found, tmp_path / f"{n}", rng)
        record = tune.best(log.records(), found.key, found.target)
        if record is None:
            continue
        assert tune.candidate_of(record, found) == resumed(found, log).best.candidate
        wanted = default if record.default_is_faster else tune.replay(record, found)
        assert applied(log).to_json() == wanted.to_json()


def test_pruning_keeps_the_best_of_a_log(tmp_path: Path) -> None:
    found, rng = task(), np.random.default_rng(1)
    for n in range(20):
        log = random_log(found, tmp_path / f"{n}", rng)
        before = best(*log.records())
        tune.prune(log, keep=2)
        assert best(*log.records()) == before


# --- the gain over the default -------------------------------------------------------------------


def gain(*rounds: float, default: float = 1.0) -> tune.Gain | None:
    """Return the gain of a candidate that took these seconds in the rounds."""
    again = tune.Trial(tune.Candidate(0, ()), tune.Result(rounds), 0.0, default, final=True)
    return tune.gain_of(again)


def test_a_gain_is_the_median_of_the_rounds_with_an_interval() -> None:
    assert str(gain(*[0.5] * 9, 0.4)) == "2.00 x the default (2.00 to 2.50)"
    assert str(gain(0.5)) == "2.00 x the default"


def test_a_hundred_rounds_leave_out_more_than_a_third_at_each_end() -> None:
    """34 gains lie outside the interval at each of its ends."""
    assert str(gain(*[2.0] * 34, *[0.5] * 32, *[0.1] * 34)) == "2.00 x the default"


def test_twenty_rounds_have_two_outliers_at_each_end() -> None:
    assert str(gain(*[0.5] * 16, 2.0, 2.0, 0.1, 0.1)) == "2.00 x the default"
    assert (
        str(gain(*[0.5] * 15, *[2.0] * 3, 0.1, 0.1)) == "no faster than the default (0.50 to 2.00)"
    )
    assert str(gain(*[2.0] * 10, *[2.5] * 10)) == "slower than the default (0.40 to 0.50)"


def test_a_candidate_without_a_default_beside_it_has_no_gain() -> None:
    plain = tune.Trial(tune.Candidate(0, ()), tune.Result((1.0,)), 0.0, 2.0)
    assert tune.gain_of(plain) is None
    assert tune.gain_of(replace(plain, default=None, final=True)) is None
    assert tune.gain_of(None) is None


class Copies(Machine):
    """A noisy machine on which each candidate is a copy of the default schedule.

    A quarter of the rounds is slowed down by other programs.
    """

    def noisy(self, rng: np.random.Generator, rounds: int) -> tuple[float, ...]:
        times = self.reference_cost * rng.normal(1, 0.05, rounds)
        busy = rng.random(rounds) < 0.25
        return tuple(np.where(busy, times * rng.uniform(1, 3, rounds), times).tolist())

    def _result(self, candidate: tune.Candidate) -> tune.Result:
        return tune.Result((min(self.noisy(np.random.default_rng([*candidate.row]), 9)),))

    def remeasure(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
        rng = np.random.default_rng([8, *programs[0].candidate.row])
        *times, default = (self.noisy(rng, ROUNDS) for _ in range(len(programs) + 1))
        return [tune.Result(at_one_speed(each, default)) for each in (*times, default)]


@pytest.mark.parametrize("seed", range(50))
def test_copies_of_the_default_are_no_faster_than_the_default(seed: int) -> None:
    outcome = search(machine=Copies(task()), trials=20, policy=tune.RandomPolicy, seed=seed)
    assert outcome.best.final
    assert "no faster than the default" in str(outcome)


def test_the_printers_agree() -> None:
    outcome = search(machine=Copies(task()), trials=20, policy=tune.RandomPolicy)
    curve = viz.TuningCurve.from_trials(outcome.task, (*outcome.trials, *outcome.final))
    speed = f"{tune.rate(outcome.task, outcome.best.seconds):.3g} GFLOP/s"
    assert f"best, measured again: {speed}" in repr(curve)
    tasks = auto_scheduler.TasksOutcome((outcome,), (1,), "trials", 1.0, (), (2e-3,), {})
    assert "no faster" in str(tasks)
    assert str(outcome.compared) in str(outcome)
