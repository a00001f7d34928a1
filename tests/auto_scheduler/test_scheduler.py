"""The task scheduler on fake machines and tables: gradients, objectives, resuming, dead tasks."""

from __future__ import annotations

import importlib.util
import io
import math
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from minitvm import auto_scheduler, graph, tune
from minitvm.auto_scheduler import objectives
from minitvm.base import ArgumentError, MeasureError
from tests.tune import fakes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NET = ((1.0, 2.0), (3.0, 0.0))  # two networks of two tasks


# --- objectives ----------------------------------------------------------------------------------


def test_the_objectives_are_those_of_the_paper() -> None:
    g = [0.1, 0.2]  # 0.1 + 2 x 0.2 = 0.5; 3 x 0.1 = 0.3
    assert objectives.total(NET)(g) == pytest.approx(0.8)
    assert objectives.requirements(NET, [0.45, 0.35])(g) == pytest.approx(0.5 + 0.35)
    assert objectives.geomean(NET, [1.0, 1.2])(g) == pytest.approx(-math.sqrt(2.0 * 4.0))
    assert objectives.early_stop(NET, [0.0, 0.25])(g) == pytest.approx(0.1 + 0.5 + 0.3)


def test_a_derivative_is_the_weight_where_the_objective_depends_on_the_task() -> None:
    g = [0.1, 0.2]
    assert objectives.derivative(objectives.total(NET), g, 0) == pytest.approx(4)
    assert objectives.derivative(objectives.total(NET), g, 1) == pytest.approx(2)
    reached = objectives.requirements(NET, [1.0, 1.0])
    assert objectives.derivative(reached, g, 0) == 0
    stopped = objectives.early_stop(NET, [0.1, 0.0])
    assert objectives.derivative(stopped, g, 0) == pytest.approx(0, abs=1e-9)
    # f3 = -(1/.5 x 1/.3)^(1/2): its derivative by the second task is -f3 x 1/2 x 2/.5
    speedup = objectives.geomean(NET, [1.0, 1.0])
    assert objectives.derivative(speedup, g, 1) == pytest.approx(-speedup(g) * 2, rel=1e-3)


def test_slopes_by_hand() -> None:
    """Four rounds, 12 ms three rounds ago: backward -2/3; forward -10/4, or by a similar task."""
    a = objectives.Progress(latency=10e-3, rounds=4, before=12e-3, flops=1e9)
    b = objectives.Progress(latency=2e-3, rounds=4, before=None, flops=1e9)
    alone = objectives.slopes([a, b], [[], []])
    assert alone == pytest.approx([0.2 * -2e-3 / 3 + 0.8 * -10e-3 / 4, 0.8 * -2e-3 / 4])
    alike = objectives.slopes([a, b], [[1], [0]])
    # 2 x 1e9 / (1e9 / 2 ms) = 4 ms: 6 ms less than now. For b it would be slower: -2/4 stays
    assert alike == pytest.approx([0.2 * -2e-3 / 3 + 0.8 * -6e-3, 0.8 * -2e-3 / 4])
    only_past = objectives.slopes([a, b], [[1], [0]], alpha=1.0)
    assert only_past == pytest.approx([-2e-3 / 3, 0.0])


def named(name: str, flops: float = 1e9) -> tune.Task:
    return replace(fakes.task(), name=name, flops=flops)


def test_tasks_are_similar_if_operators_and_sizes_are() -> None:
    matmul = fakes.task(fakes.sketch(n=64))
    tasks = [replace(matmul, flops=n) for n in (1e6, 1.5e6, 2e6, 1e9)]
    given = graph.networks.dqn()
    other = replace(matmul, args=next(iter(graph.extract_tasks(given))).args, flops=1e6)
    found = objectives.neighbours([*tasks, other])
    assert found == [{1}, {0, 2}, {1}, set(), set()]


def test_a_task_that_stays_slow_is_no_longer_similar() -> None:
    similar = [{1}, {0}]
    fast = objectives.Progress(1e-3, 2, None, 1e9)
    slow = objectives.Progress(5e-3, 7, None, 1e9)
    objectives.part_from(similar, [fast, slow], 1, beta=2)
    assert similar == [{1}, {0}]
    objectives.part_from(similar, [fast, replace(slow, rounds=8)], 1, beta=2)
    assert similar == [set(), set()]


# --- on a fake machine ---------------------------------------------------------------------------


@dataclass
class Clock:
    """The time that all fake machines share."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Curve:
    """A measurer whose best candidate after `n` trials takes floor x (1 + 4 / n)."""

    floor: float
    clock: Clock = field(default_factory=Clock)
    reference_cost: float = 1.0
    count: int = 0
    finals: int = 0
    flat: bool = False  # all candidates take the floor

    def measure(self, programs):
        for _ in programs:
            self.count += 1
            self.clock.now += 0.1
            yield tune.Result((self.floor * (1 if self.flat else 1 + 4 / self.count),))

    def remeasure(self, programs):
        self.finals += 1
        return [tune.Result((self.floor,)) for _ in programs] + [tune.Result((1.0,))]


@dataclass
class Fake:
    """Some tasks whose latencies follow curves."""

    curves: dict[str, Curve]
    events: list = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return next(iter(self.curves.values())).clock

    def scheduler(self, weights=None, **options) -> auto_scheduler.TaskScheduler:
        options.setdefault("rng", np.random.default_rng(0))
        tasks = [named(name) for name in self.curves]
        found = auto_scheduler.TaskScheduler(
            tasks,
            weights,
            policy=options.pop("policy", tune.RandomPolicy),
            measurers=lambda task: self.curves[task.name],
            **options,
        )
        return found

    def tune(self, weights=None, *, scheduler=None, **options) -> auto_scheduler.TasksOutcome:
        own = ("objective", "bounds", "references", "strategy", "epsilon", "load_log_file", "rng")
        given = {name: options.pop(name) for name in (*own, "policy") if name in options}
        options.setdefault("batch", 4)
        return self.scheduler(weights, **given).tune(
            timer=self.clock, clock=lambda: 7.0, on=self.events.append, **options
        )


def fake(*floors: float, **options) -> Fake:
    clock = Clock()
    return Fake({f"task{n}": Curve(g, clock, **options) for n, g in enumerate(floors)})


def counts(outcome: auto_scheduler.TasksOutcome) -> list[int]:
    return [len(o.trials) for o in outcome.outcomes]


def test_most_trials_go_to_the_task_that_takes_most_of_the_time() -> None:
    outcome = fake(1e-3, 30e-3, 1e-3).tune(trials=120, epsilon=0.0)
    assert counts(outcome)[1] > 80
    assert sum(counts(outcome)) == 120
    weighted = fake(1e-3, 1e-3, 1e-3).tune([1, 1, 30], trials=120, epsilon=0.0)
    assert counts(weighted)[2] > 80
    assert outcome.ended == "trials"


def test_round_robin_and_sequential_spend_alike() -> None:
    even = fake(1e-3, 30e-3, 1e-3).tune(trials=120, strategy="round-robin")
    assert counts(even) == [40, 40, 40]
    assert [r.task for r in even.rounds[:6]] == [0, 1, 2, 0, 1, 2]
    ordered = fake(1e-3, 30e-3, 1e-3).tune(trials=120, strategy="sequential")
    assert counts(ordered) == [40, 40, 40]
    assert [r.task for r in ordered.rounds] == sorted(r.task for r in ordered.rounds)
    timed = fake(1e-3, 30e-3, 1e-3).tune(seconds=12.0, strategy="sequential")
    assert counts(timed) == pytest.approx([40, 40, 40], abs=4)
    assert timed.ended == "seconds"


def test_each_task_gets_a_round_first_the_largest_one_first() -> None:
    given = fake(1e-3, 2e-3, 3e-3)
    outcome = given.tune([1, 5, 2], trials=20)
    assert [r.task for r in outcome.rounds[:3]] == [1, 2, 0]
    assert all(r.gradients == () for r in outcome.rounds[:3])
    assert all(len(r.gradients) == 3 for r in outcome.rounds[3:])
    short = fake(1e-3, 2e-3, 3e-3).tune(trials=6, batch=64)
    assert counts(short) == [2, 2, 2]


def test_the_choice_can_be_repeated_and_epsilon_makes_it_random() -> None:
    def choices(**options) -> list[int]:
        return [r.task for r in fake(1e-3, 5e-3, 9e-3).tune(trials=200, **options).rounds]

    assert choices() == choices()
    greedy = choices(epsilon=0.0)
    mixed = choices(epsilon=1.0)
    assert greedy[3:].count(0) < mixed[3:].count(0) / 2
    assert set(mixed[3:]) == {0, 1, 2}


def test_the_largest_fall_of_the_objective_is_chosen() -> None:
    given = fake(1e-3, 5e-3, 9e-3)
    outcome = given.tune(trials=200, epsilon=0.0)
    for r in outcome.rounds[3:]:
        assert r.task == int(np.argmin(r.gradients))
        assert max(r.gradients) <= 0


def test_events_say_what_was_tuned() -> None:
    given = fake(1e-3, 3e-3)
    outcome = given.tune([1, 2], trials=40)
    started, *rounds, finished = given.events
    assert isinstance(started, auto_scheduler.TasksStarted)
    assert (started.weights, started.trials) == ((1.0, 2.0), 40)
    assert tuple(rounds) == outcome.rounds
    assert finished == auto_scheduler.TasksFinished(outcome)
    last = rounds[-1]
    assert last.trials == tuple(counts(outcome))
    assert last.latencies == outcome.latencies
    assert last.latency == last.objective == pytest.approx(outcome.latency)
    assert math.isinf(rounds[0].latency)  # the second task has no default yet
    assert [r.latency for r in rounds[1:]] == sorted((r.latency for r in rounds[1:]), reverse=True)


def test_the_default_is_the_latency_until_a_candidate_is_faster() -> None:
    given = fake(1e-3, 3e-3, reference_cost=2e-3)
    outcome = given.tune(trials=80)
    assert outcome.latencies[0] < 2e-3
    assert outcome.latencies[1] == 2e-3


def test_every_task_is_measured_again_at_the_end() -> None:
    given = fake(1e-3, 3e-3)
    outcome = given.tune(trials=40)
    assert [c.finals for c in given.curves.values()] == [1, 1]
    assert [o.gain for o in outcome.outcomes] == pytest.approx([1000, 1000 / 3])


def test_a_table_and_a_line_show_the_tasks() -> None:
    text, given = io.StringIO(), fake(1e-3, 3e-3)
    line = auto_scheduler.TasksLine(text)
    outcome = given.scheduler([1, 2]).tune(trials=40, batch=4, timer=given.clock, on=line)
    shown = text.getvalue().replace("\n", "").split("\r")[-1]
    assert shown.startswith("2 tasks |")
    assert "40 trials, task" in shown
    table = str(outcome).splitlines()
    assert len(table) == 4
    assert "Latency (ms)" in table[0]
    assert table[2].split()[0] == "1"
    assert f"Estimated total latency: {outcome.latency * 1e3:.3f} ms  Trials: 40" in table[-1]


def test_tasks_that_were_not_measured_have_no_latency_in_the_table() -> None:
    *_, row, last = str(fake(1e-3, 3e-3).tune(seconds=0.3)).splitlines()
    assert row.split()[-4:] == ["-", "-", "0", "-"]
    assert last.startswith("Estimated total latency: -  Trials: 4")


# --- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("building", "trials"), [(0.0, 11), (0.25, 6), (60.0, 4)])
def test_the_budget_counts_building_and_measuring_but_no_start_of_processes(
    building, trials
) -> None:
    given = fake(1e-3, 3e-3)

    def policy(task: tune.Task, rng: np.random.Generator) -> tune.Policy:
        given.clock.now += building
        return tune.RandomPolicy(task, rng)

    class Starting(Curve):
        def measure(self, programs):
            self.clock.now += 0 if self.count else 100
            yield from super().measure(programs)

    given.curves["task0"] = Starting(1e-3, given.clock)
    scheduler = given.scheduler(policy=policy, strategy="sequential")
    outcome = scheduler.tune(seconds=0.95, batch=4, timer=given.clock)
    assert (outcome.ended, sum(counts(outcome))) == ("seconds", trials)


def test_a_task_without_an_improvement_is_left() -> None:
    given = fake(1e-3, 30e-3)
    given.curves["task1"].flat = True
    outcome = given.tune(trials=400, early_stopping_task=12)
    assert counts(outcome)[1] <= 20
    assert sum(counts(outcome)) == 400


class Few(tune.RandomPolicy):
    """Propose six candidates of the second task."""

    def __init__(self, task: tune.Task, rng: np.random.Generator) -> None:
        super().__init__(task, rng)
        self.left = 6 if task.name == "task1" else 1000

    def propose(self, count: int) -> list[tune.Candidate]:
        count = min(count, self.left)
        self.left -= count
        return super().propose(count) if count else []


def test_a_task_whose_policy_has_no_candidate_is_left() -> None:
    outcome = fake(1e-3, 30e-3).tune(trials=60, policy=Few)
    assert counts(outcome) == [54, 6]
    every = Fake({"task1": Curve(1e-3)}).tune(trials=60, policy=Few)
    assert (counts(every), every.ended) == ([6], "exhausted")


def test_requirements_end_when_all_are_met() -> None:
    outcome = fake(1e-3, 1e-3).tune(objective="requirements", bounds=[2.5e-3], trials=500)
    assert outcome.ended == "objective reached"
    assert outcome.latency <= 2.5e-3
    assert sum(counts(outcome)) < 100


def test_early_stop_leaves_tasks_that_do_not_improve() -> None:
    given = fake(1e-3, 30e-3, flat=True)
    outcome = given.tune(objective="early-stop", early_stopping_task=8, trials=500, epsilon=0.0)
    assert outcome.ended == "objective reached"
    assert counts(outcome) == [12, 12]


def test_two_networks_and_a_function_of_ones_own() -> None:
    mean = fake(1e-3, 10e-3).tune(NET, objective="geomean", trials=40)
    assert mean.rounds[-1].objective < 0
    assert mean.weights == (4.0, 2.0)
    first = fake(1e-3, 10e-3).tune(objective=lambda g: g[0], trials=80, epsilon=0.0)
    assert counts(first) == [76, 4]


def test_no_improvement_of_the_objective_ends_all() -> None:
    outcome = fake(1e-3, 2e-3, flat=True).tune(trials=400, early_stopping=20)
    assert outcome.ended == "early stopping"
    assert sum(counts(outcome)) == 28  # after the first round of the second task


def test_it_stops_on_request() -> None:
    stop, given = threading.Event(), fake(1e-3, 2e-3)
    given.events = type("Stopper", (list,), {"append": lambda self, e: stop.set()})()
    outcome = given.tune(trials=400, stop=stop)
    assert outcome.ended == "stopped"
    assert sum(counts(outcome)) == 0
    later, given = threading.Event(), fake(1e-3, 2e-3)

    def on(event) -> None:
        if isinstance(event, auto_scheduler.TaskRound) and event.number == 5:
            later.set()

    outcome = given.scheduler().tune(trials=400, batch=4, stop=later, on=on, timer=given.clock)
    assert (outcome.ended, len(outcome.rounds)) == ("stopped", 5)
    assert all(o.final for o in outcome.outcomes)


def test_the_second_interrupt_ends_all_tasks_at_once() -> None:
    given = fake(1e-3, 2e-3, 3e-3)

    def on(event) -> None:
        if isinstance(event, auto_scheduler.TaskRound) and event.number == 5:
            raise KeyboardInterrupt

    outcome = given.scheduler().tune(trials=400, batch=4, on=on, timer=given.clock)
    assert (outcome.ended, sum(counts(outcome))) == ("stopped", 20)
    assert [c.finals for c in given.curves.values()] == [0, 0, 0]


def test_it_ends_the_final_measurements_of_all_tasks(monkeypatch) -> None:
    given, asked = fake(1e-3, 2e-3, 3e-3), list[object]()

    def interrupted(self, programs):
        asked.append(programs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Curve, "remeasure", interrupted)
    outcome = given.tune(trials=12)
    assert (outcome.ended, sum(counts(outcome)), len(asked)) == ("trials", 12, 1)


@dataclass
class Broken(Curve):
    """A measurer whose default cannot be measured."""

    @property
    def reference_cost(self) -> float:
        raise MeasureError("the reference program", "it crashed")

    @reference_cost.setter
    def reference_cost(self, value: float) -> None:
        """Accept the value of the dataclass."""


def test_a_task_whose_default_fails_is_left_with_the_reason() -> None:
    given = fake(1e-3, 2e-3)
    given.curves["task1"] = Broken(1e-3, given.clock)
    outcome = given.tune(trials=40)
    assert counts(outcome) == [40, 0]
    assert "it crashed" in outcome.refused[1]
    assert "is not tuned" in str(outcome)
    alone = Fake({"task0": Broken(1e-3)})
    with pytest.raises(MeasureError, match="it crashed"):
        alone.tune(trials=40)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"strategy": "best"}, "strategy 'best'"),
        ({"objective": "speed"}, "objective 'speed'"),
        ({"objective": "requirements"}, "0 bounds for 1 networks"),
        ({"references": [1.0, 2.0]}, "2 references"),
        ({"alpha": 2.0}, "alpha"),
        ({"epsilon": -0.1}, "epsilon"),
        ({"beta": 0.0}, "beta"),
        ({"backward_window": 0}, "backward_window"),
        ({"weights": [1.0]}, "task_weights"),
        ({"weights": [1.0, -1.0]}, "negative"),
    ],
)
def test_wrong_settings_are_refused(options, why) -> None:
    with pytest.raises(ArgumentError, match=why):
        fake(1e-3, 2e-3).scheduler(**options)


def test_a_budget_and_tasks_are_needed() -> None:
    with pytest.raises(ArgumentError, match="budget of a search"):
        fake(1e-3).tune()
    with pytest.raises(ArgumentError, match="no tasks"):
        auto_scheduler.TaskScheduler([])
    with pytest.raises(ArgumentError, match="no sketches"):
        auto_scheduler.TaskScheduler([replace(fakes.task(), sketches=())])


# --- resuming ------------------------------------------------------------------------------------


def test_the_same_call_resumes(tmp_path) -> None:
    log = tmp_path / "log.jsonl"
    first = fake(1e-3, 10e-3).tune(trials=40, log=log)
    given = fake(1e-3, 10e-3)
    second = given.tune(trials=80, log=log, rng=np.random.default_rng(1))
    assert sum(counts(second)) == 80
    assert sum(c.count for c in given.curves.values()) == 40
    assert all(r.gradients for r in second.rounds)  # no first round again
    assert second.rounds[0].latency <= first.latency
    assert [o.earlier for o in second.outcomes] == counts(first)
    done = fake(1e-3, 10e-3)
    third = done.tune(trials=80, log=log)
    assert (third.rounds, third.latencies) == ((), second.latencies)
    assert [o.gain for o in third.outcomes] == [o.gain for o in second.outcomes]
    assert [c.count + c.finals for c in done.curves.values()] == [0, 0]


def test_another_log_can_be_loaded(tmp_path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    fake(1e-3, 10e-3).tune(trials=40, log=old)
    given = fake(1e-3, 10e-3)
    outcome = given.tune(trials=60, load_log_file=old, log=new)
    assert sum(counts(outcome)) == 60
    assert len([r for r in tune.Log(new).records() if not r.final]) == 20
    same = fake(1e-3, 10e-3).tune(trials=60, load_log_file=old, log=old)
    assert sum(counts(same)) == 60


def test_models_are_given_to_the_default_policy() -> None:
    made = list[str]()

    def model(task: tune.Task) -> tune.Model:
        made.append(task.name)
        return tune.Trees()

    tasks = [named("a")]
    scheduler = auto_scheduler.TaskScheduler(tasks, model=model, rng=np.random.default_rng(0))
    policy = scheduler.policy(tasks[0], np.random.default_rng(0))
    assert made == ["a"]
    assert isinstance(policy, tune.GuidedPolicy)
    assert isinstance(policy.model, tune.Trees)


def test_options_of_tvm_are_understood(tmp_path) -> None:
    @dataclass
    class Options:
        num_measure_trials: int = 24
        early_stopping: int | None = None
        num_measures_per_round: int = 4
        verbose: int = 0
        log: Path = tmp_path / "log.jsonl"
        measure: tune.MeasureOptions = field(default_factory=tune.MeasureOptions)

    given = fake(1e-3, 2e-3)
    outcome = given.scheduler().tune(Options(), timer=given.clock)
    assert sum(counts(outcome)) == 24
    assert len(outcome.rounds) == 6
    assert Options.log.exists()


# --- on tables -----------------------------------------------------------------------------------


def replays() -> ModuleType:
    """Load the networks of the benchmark."""
    spec = importlib.util.spec_from_file_location("_replay", BENCHMARKS / "_replay.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["_replay"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["mobilenet_v2", "squeezenet"])
def test_a_network_becomes_faster_sooner_than_with_even_trials(name: str) -> None:
    """The area of what can be gained is at most .85 of round robin's, in 4 of 5 seeds."""
    replay = replays()
    given = replay.replay(getattr(graph.networks, name)())
    ratios = list[float]()
    for seed in range(5):
        ours, even = (replay.area(given, s, seed, 24) for s in ("gradient", "round-robin"))
        assert ours.latency < even.latency
        ratios.append(ours.excess / even.excess)
    assert sorted(ratios)[3] <= 0.85
