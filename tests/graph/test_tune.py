"""Tuned networks: candidates are used where they beat the default, and compute the same."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from minitvm import auto_scheduler, graph, te, tune
from minitvm.base import ArgumentError, BuildError, GraphError, ScheduleError, Target
from minitvm.graph.comparison import Comparison, compare
from minitvm.graph.tune import Choice, _choice, _compared, task_of

ONE = "llvm -num-cores=1 -unroll=0"
TUNE = sys.modules["minitvm.graph.tune"]  # graph.tune is the function


def small() -> graph.Graph:
    """Two layers."""
    rng = np.random.default_rng(0)
    b = graph.Builder("small")
    x = b.input("x", (8, 32))
    for n in (48, 16):
        w = b.param(f"w{n}", rng.standard_normal((n, x.type.shape[1])).astype("float32"))
        x = b.relu(b.dense(x, w))
    return b.graph(x)


def tuned_with(*selected: Choice) -> graph.Tuned:
    """Return tuned kernels with these choices."""
    none = auto_scheduler.TasksOutcome((), (), "trials", 0.0, (), (), {})
    return graph.Tuned(graph.extract_tasks(small(), ONE), Target(ONE), none, selected=selected)


def drawn(kernel: graph.GraphTask, seed: int = 0) -> Choice:
    """Return a random program of a kernel."""
    task = task_of(kernel)
    (candidate,) = tune.RandomPolicy(task, np.random.default_rng(seed)).propose(1)
    steps = task.sketches[candidate.sketch].filled(candidate.row)
    return Choice(kernel.body, kernel.body, task.workload[-1], steps)


def test_a_network_of_picked_candidates_computes_the_same() -> None:
    net, rng = small(), np.random.default_rng(0)
    choices = [drawn(kernel) for kernel in graph.extract_tasks(net, ONE)]
    assert len({choice.key for choice in choices}) == 2
    asked = list[te.Schedule | None]()

    def pick(outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
        asked.append(tuned_with(*choices).pick(outputs, target))
        return asked[-1]

    x = rng.random((8, 32), np.float32)
    found = graph.compile(net, ONE, pick=pick)(x)
    (expected,) = graph.evaluate(net, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert [s is not None for s in asked] == [True, True]


def test_other_targets_and_formulas_keep_their_default() -> None:
    kernel, *_ = graph.extract_tasks(small(), ONE)
    choice, outputs = drawn(kernel), [kernel.args[-1]]
    assert tuned_with(choice).pick(outputs, Target(ONE)) is not None
    assert tuned_with(choice).pick(outputs, Target("llvm -num-cores=2")) is None
    assert tuned_with().pick(outputs, Target(ONE)) is None


# --- in the network ---


def slow(kernel: graph.GraphTask) -> Choice:
    """Return a program of a kernel that is much slower than its default: all loops in order."""
    return replace(drawn(kernel), steps=())


def two_products(size: int = 256) -> graph.Graph:
    """Two layers, each with a product that takes milliseconds without a schedule."""
    rng = np.random.default_rng(0)
    b = graph.Builder("two")
    x = b.input("x", (size, size))
    for n in (size, 2 * size):
        w = b.param(f"w{n}", rng.standard_normal((n, x.type.shape[1])).astype("float32"))
        x = b.relu(b.dense(x, w))
    return b.graph(x)


def test_a_comparison_measures_each_kernel_in_the_network() -> None:
    net = two_products()
    first, second = graph.extract_tasks(net, ONE)
    tuned = tuned_with(slow(second))
    modules = graph.compile(net, ONE), graph.compile(net, ONE, pick=tuned.pick)
    found = compare(*modules, [first.body, second.body])
    assert found.tuned > 2 * found.default
    assert found.gains[second.body] < 0.5
    assert not found.is_faster(second.body)
    assert found.gains[first.body] > 0.5


def test_a_comparison_adds_up_the_calls_of_a_kernel_and_leaves_out_views() -> None:
    b = graph.Builder("views")
    x = b.softmax(b.input("x", (8, 32)))
    x = b.softmax(b.reshape(x, (4, 64)))
    net = b.graph(b.softmax(b.reshape(x, (8, 32))))
    kernels = graph.extract_tasks(net, ONE)
    assert [(k.name, k.count) for k in kernels][:2] == [("softmax", 2), ("reshape", 1)]
    modules = graph.compile(net, ONE), graph.compile(net, ONE)
    assert len(modules[0].plan.calls) == 3
    found = compare(*modules, [kernel.body for kernel in kernels])
    gains = {kernel.name: found.gains[kernel.body] for kernel in kernels}
    assert gains["reshape"] == 0 < gains["softmax"]


def test_a_comparison_with_another_formula() -> None:
    kernel, task = conv_task()
    others = graph.passes.other_formulas(kernel.body)
    names = [sketch.name for sketch in task.sketches]
    tuned = tuned_with(_choice(kernel.body, others, outcome_of(task, names[1])))
    net = convolution()
    modules = graph.compile(net, ONE), graph.compile(net, ONE, pick=tuned.pick, passes=tuned.passes)
    bodies = [each.body for each in graph.extract_tasks(net, ONE)]
    found = compare(*modules, bodies)
    assert found.gains[kernel.body] > 0
    assert list(found.gains) == bodies


def test_only_kernels_that_are_faster_in_the_network_are_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = two_products(32)
    first, second = choices = [drawn(kernel) for kernel in graph.extract_tasks(net, ONE)]
    comparisons = list[int]()

    def tuned(*pairs: tuple[float, float]) -> graph.Tuned:
        """Return the outcome if the kernels take these seconds by default and tuned."""

        def told(*_) -> Comparison:
            comparisons.append(1)
            default, chosen = (sum(pair[n] for pair in pairs) for n in (0, 1))
            gains = {c.body: a / b for c, (a, b) in zip(choices, pairs, strict=True)}
            return Comparison(default, chosen, gains)

        comparisons.clear()
        monkeypatch.setattr(TUNE, "compare", told)
        return _compared(tuned_with(), net, choices, True)

    assert tuned((3, 2), (2, 1)).selected == (first, second)
    assert len(comparisons) == 1
    assert tuned((3, 2), (2, 2.5)).selected == (first,)
    assert len(comparisons) == 2
    lost = tuned((3, 2.9), (3, 3.5))  # the second costs more than the first gains
    assert lost.selected == ()
    assert str(lost).endswith("with the defaults, which are kept")
    assert tuned((3, 2.99), (3, 2.99)).selected == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BuildError("a kernel", "it crashed")])
def test_a_comparison_that_is_stopped_or_fails_does_not_lose_the_search(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_) -> Comparison:
        raise error

    monkeypatch.setattr(TUNE, "compare", stopped)
    monkeypatch.setattr(tune.Outcome, "compared", tune.Gain(1.06, 1.06, 1.06))
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
    tuned = graph.tune(small(), ONE, trials=2, measure=options)
    assert tuned.comparison is None
    assert len(tuned.selected) == 2


@pytest.mark.parametrize(("gain", "count"), [(1.04, 0), (1.06, 1)])
def test_a_network_without_values_is_not_compared(
    gain: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = graph.Builder("empty")
    x = b.input("x", (8, 32))
    net = b.graph(b.relu(b.dense(x, b.unknown("w", (16, 32)))))
    monkeypatch.setattr(TUNE, "compare", None)  # a call would fail
    monkeypatch.setattr(tune.Outcome, "compared", tune.Gain(gain, gain, gain))
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
    tuned = graph.tune(net, ONE, trials=2, measure=options)
    assert tuned.comparison is None
    assert len(tuned.selected) == count


def test_a_network_is_tuned_and_the_same_call_resumes(tmp_path: Path) -> None:
    net, log, events = small(), tmp_path / "log.jsonl", list[auto_scheduler.TasksEvent]()
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1, cold=True)
    rng = np.random.default_rng(0)
    tuned = graph.tune(net, ONE, trials=8, log=log, measure=options, rng=rng, on=events.append)
    assert sum(len(o.trials) for o in tuned.outcome.outcomes) == 8
    assert tuned.outcome.weights == (1.0, 1.0)
    assert [type(e).__name__ for e in events] == [
        "TasksStarted",
        *["TaskRound"] * 2,
        "TasksFinished",
    ]
    faster = {o.task.workload[-1] for o in tuned.outcome.outcomes if o.gain > 1}
    assert {choice.key for choice in tuned.selected} <= faster
    assert f"faster than their default: {len(tuned.selected)} of 2" in str(tuned)
    again = graph.tune(net, ONE, trials=8, log=log, measure=options)
    assert again.outcome.rounds == ()
    assert [o.best for o in again.outcome.outcomes] == [o.best for o in tuned.outcome.outcomes]
    x = rng.random((8, 32), np.float32)
    (expected,) = graph.evaluate(net, x)
    found = graph.compile(net, ONE, pick=again.pick)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def convolution() -> graph.Graph:
    """A 3x3 convolution for which Winograd's formula is estimated to be faster."""
    rng = np.random.default_rng(0)
    b = graph.Builder("conv")
    x = b.input("x", (1, 32, 28, 28))
    w = b.param("w", rng.standard_normal((32, 32, 3, 3)).astype("float32"))
    return b.graph(b.relu(b.conv2d(x, w, padding=1)))


def conv_task(winograd: bool = True) -> tuple[graph.GraphTask, tune.Task]:
    kernels = graph.extract_tasks(convolution(), ONE)
    (kernel,) = (k for k in kernels if "conv2d" in k.name)
    others = graph.passes.other_formulas(kernel.body) if winograd else []
    return kernel, task_of(kernel, others)


def outcome_of(task: tune.Task, name: str) -> tune.Outcome:
    """Return an outcome in which a random candidate of the sketch `name` is the fastest."""
    (n,) = (n for n, sketch in enumerate(task.sketches) if sketch.name == name)
    (row,) = task.sketches[n].space.sample(np.random.default_rng(0), 1).tolist()
    best = tune.Trial(tune.Candidate(n, tuple(row)), tune.Result((0.5,)), default=1.0, final=True)
    return tune.Outcome(task, (best,), 0, "trials", 0.0, (best,))


@pytest.mark.parametrize("other", [True, False])
def test_a_kernel_may_become_faster_by_another_formula(other: bool) -> None:
    kernel, task = conv_task()
    assert 'method="winograd"' in str(kernel.body)
    names = [sketch.name for sketch in task.sketches]
    assert names[:2] == ["sketch 0, plan", "formula 1, sketch 0, level 1"]
    others = graph.passes.other_formulas(kernel.body)
    tuned = tuned_with(_choice(kernel.body, others, outcome_of(task, names[other])))
    assert tuned.formulas == ({kernel.body: others[0]} if other else {})
    assert ("1 of them by another formula" in str(tuned)) == other
    seen, asked = dict[str, graph.Graph](), list[bool]()

    def pick(outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
        found = tuned.pick(outputs, target)
        asked.append(found is not None)
        return found

    net, x = convolution(), np.random.default_rng(1).random((1, 32, 28, 28), np.float32)
    watch = {"pick": pick, "passes": tuned.passes, "watch": seen.__setitem__}
    found = graph.compile(net, ONE, **watch)(x)
    assert asked.count(True) == 1
    assert ('method="winograd"' in str(seen["use_formulas"])) == (not other)
    (expected,) = graph.evaluate(net, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_a_kernel_without_a_trial_keeps_its_default() -> None:
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
    tuned = graph.tune(small(), ONE, trials=1, measure=options)
    assert sorted(len(o.trials) for o in tuned.outcome.outcomes) == [0, 1]
    assert "kernels faster than their default: " in str(tuned)


def test_without_winograd_no_other_formula_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[int]()
    derive = auto_scheduler.sketches

    def count(dags, *rest):
        given.append(len(dags))
        return derive(dags, *rest)

    monkeypatch.setattr(auto_scheduler, "sketches", count)
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
    for winograd, count_of_formulas in ((True, 2), (False, 1)):
        given.clear()
        graph.tune(convolution(), ONE, trials=1, winograd=winograd, measure=options)
        assert max(given) == count_of_formulas


@pytest.mark.parametrize(("took", "left"), [(3.0, 4.0), (60.0, TUNE.MIN_SECONDS)])
def test_the_time_of_deriving_sketches_counts(
    took: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, budgets = [0.0], list[float]()

    def derived(*args: object) -> tune.Task:
        now[0] += took
        return task_of(*args)

    def tuned(*_: object, seconds: float, **options: object) -> None:
        budgets.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(TUNE, "task_of", derived)
    monkeypatch.setattr(auto_scheduler.TaskScheduler, "tune", tuned)
    with pytest.raises(KeyboardInterrupt):
        graph.tune(small(), ONE, seconds=10.0, timer=lambda: now[0])
    assert budgets == [left]


def test_an_impossible_budget_is_refused_before_the_work() -> None:
    with pytest.raises(ArgumentError, match="budget of a search"):
        graph.tune(small(), ONE, seconds=-1.0)


def test_kernels_without_a_sketch_keep_their_default(monkeypatch: pytest.MonkeyPatch) -> None:
    derive, calls = auto_scheduler.sketches, list[object]()

    def refuse_first(*args):
        calls.append(args)
        if len(calls) == 1:
            raise ScheduleError("sketches", "no rule applies")
        return derive(*args)

    monkeypatch.setattr(auto_scheduler, "sketches", refuse_first)
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
    tuned = graph.tune(small(), ONE, trials=2, measure=options)
    assert "dense_relu keeps its default: sketches: no rule applies" in str(tuned)
    assert len(tuned.outcome.outcomes) == 1
    monkeypatch.setattr(auto_scheduler, "sketches", lambda *args: ())
    with pytest.raises(GraphError, match="no kernel has a sketch"):
        graph.tune(small(), ONE, trials=2)
