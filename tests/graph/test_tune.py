"""Tuned networks: candidates are used where they beat the default, and compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minitvm import auto_scheduler, graph, te, tune
from minitvm.base import GraphError, ScheduleError, Target
from minitvm.graph.tune import LEAST, _use_best, task_of

ONE = "llvm -num-cores=1 -unroll=0"


def small() -> graph.Graph:
    """Two layers."""
    rng = np.random.default_rng(0)
    b = graph.Builder("small")
    x = b.input("x", (8, 32))
    for n in (48, 16):
        w = b.param(f"w{n}", rng.standard_normal((n, x.type.shape[1])).astype("float32"))
        x = b.relu(b.dense(x, w))
    return b.graph(x)


def picked(steps) -> graph.Tuned:
    """Return tuned kernels with these steps."""
    none = auto_scheduler.TasksOutcome((), (), "trials", 0.0, (), (), {})
    return graph.Tuned(graph.extract_tasks(small(), ONE), Target(ONE), none, steps, ())


def test_a_network_of_picked_candidates_computes_the_same() -> None:
    net, rng = small(), np.random.default_rng(0)
    tasks = [task_of(kernel) for kernel in graph.extract_tasks(net, ONE)]
    assert len({task.key for task in tasks}) == 2
    steps = {}
    for task in tasks:
        (candidate,) = tune.RandomPolicy(task, rng).propose(1)
        steps[task.workload[-1]] = task.sketches[candidate.sketch].filled(candidate.row)
    asked = list[te.Schedule | None]()

    def pick(outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
        asked.append(picked(steps).pick(outputs, target))
        return asked[-1]

    x = rng.random((8, 32), np.float32)
    found = graph.compile(net, ONE, pick=pick)(x)
    (expected,) = graph.evaluate(net, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert [s is not None for s in asked] == [True, True]


def test_other_targets_and_formulas_keep_their_default() -> None:
    kernel, *_ = graph.extract_tasks(small(), ONE)
    task = task_of(kernel)
    (candidate,) = tune.RandomPolicy(task, np.random.default_rng(0)).propose(1)
    steps = task.sketches[candidate.sketch].filled(candidate.row)
    outputs = [kernel.args[-1]]
    assert picked({task.workload[-1]: steps}).pick(outputs, Target(ONE)) is not None
    assert picked({task.workload[-1]: steps}).pick(outputs, Target("llvm -num-cores=2")) is None
    assert picked({}).pick(outputs, Target(ONE)) is None


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
    faster = {o.task.workload[-1] for o in tuned.outcome.outcomes if o.gain >= LEAST}
    assert set(tuned.chosen) == faster
    assert f"{len(faster)} of 2 kernels" in str(tuned)
    again = graph.tune(net, ONE, trials=8, log=log, measure=options)
    assert again.outcome.rounds == ()
    assert again.chosen == tuned.chosen
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
    best = tune.Trial(tune.Candidate(n, tuple(row)), tune.Result((0.5,)))
    return tune.Outcome(task, (best,), 0, "trials", 0.0, (best,), tune.Result((1.0,)))


@pytest.mark.parametrize("other", [True, False])
def test_a_kernel_may_become_faster_by_another_formula(other: bool) -> None:
    kernel, task = conv_task()
    assert 'method="winograd"' in str(kernel.body)
    names = [sketch.name for sketch in task.sketches]
    assert names[:2] == ["sketch 0, plan", "formula 1, sketch 0, level 1"]
    tuned = picked({})
    others = graph.passes.other_formulas(kernel.body)
    _use_best(tuned, kernel.body, others, outcome_of(task, names[other]))
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
