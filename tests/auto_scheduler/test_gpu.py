"""Sketches for a GPU: what each rule does, and that programs drawn from them are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from minitvm import auto_scheduler, schedule, te, topi, tune
from minitvm.auto_scheduler import ComputeDAG, SearchTask
from minitvm.base import ArgumentError, Target
from minitvm.tune.legal_gpu import kernels, threads

SIM = Target("cuda -sim")
Formula = Callable[[], Sequence[te.Tensor]]


def matmul() -> Sequence[te.Tensor]:
    A, B = te.placeholder((24, 20), name="A"), te.placeholder((20, 32), name="B")
    return A, B, topi.matmul(A, B)


def matmul_bias_relu() -> Sequence[te.Tensor]:
    A, B = te.placeholder((16, 33), name="A"), te.placeholder((33, 14), name="B")
    bias = te.placeholder((14,), name="bias")
    return A, B, bias, topi.relu(topi.add(topi.matmul(A, B), bias))


def conv2d_layer() -> Sequence[te.Tensor]:
    data, kernel = (
        te.placeholder((1, 8, 7, 7), name="data"),
        te.placeholder((16, 8, 3, 3), name="W"),
    )
    bias = te.placeholder((1, 16, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, 1, 1, 1, "float32")
    return data, kernel, bias, topi.nn.relu(topi.add(conv, bias))


def sum_of_all() -> Sequence[te.Tensor]:
    A, k = te.placeholder((1000,), name="A"), te.reduce_axis((0, 1000), "k")
    return A, te.compute((), lambda: te.sum(A[k], k), name="B")


def sums() -> Sequence[te.Tensor]:
    A = te.placeholder((10, 100), name="A")
    return A, topi.sum(A, axis=1)


def softmax() -> Sequence[te.Tensor]:
    x = te.placeholder((6, 50), name="x")
    return x, topi.softmax(x)


def elementwise() -> Sequence[te.Tensor]:
    A = te.placeholder((5, 77), name="A")
    return A, topi.tanh(topi.exp(A))


FORMULAS: tuple[Formula, ...] = (
    matmul, matmul_bias_relu, conv2d_layer, sum_of_all, sums, softmax, elementwise,
)  # fmt: skip


def task_of(formula: Formula) -> SearchTask:
    return SearchTask(compute_dag=ComputeDAG(formula()), target=SIM)


def states(formula: Formula) -> list[auto_scheduler.State]:
    return list(task_of(formula).states)


def bound(state: auto_scheduler.State) -> dict[str, list[str]]:
    """The threads to which the loops of each stage are bound, outermost first."""
    every = state.s.state.stages
    tags = {s.name: [s.note(a).thread for a in s.leaves if s.note(a).thread] for s in every}
    return {name: found for name, found in tags.items() if found}


def drawn(task: SearchTask, n: int, count: int) -> list[tune.CandidateProgram]:
    space = tune.restricted(task.sketches[n], SIM).space
    rows = space.sample(np.random.default_rng(n), count)
    if not len(rows):  # the shape is tiny: less than a warp of threads
        rows = task.sketches[n].space.sample(np.random.default_rng(n), count)
    return [tune.CandidateProgram(task, tune.Candidate(n, tuple(r))) for r in rows.tolist()]


def test_a_product_is_tiled_bound_and_fetched() -> None:
    (state,) = states(matmul)
    assert state.rules == ("cache write", "tile, bind and fetch")
    tiles = ["blockIdx.x", "vthread", "threadIdx.x"]
    fetch = ["threadIdx.x"]
    assert bound(state) == {"A.shared": fetch, "B.shared": fetch, "T_matmul": tiles}
    lines = [line.strip() for line in str(state).splitlines()]
    loops = [line.split()[1] for line in lines if line.startswith("for")]
    assert loops == [
        *("k.0", "ax0@ax1.0.0", "ax0@ax1.0.0"),
        *("k.1", "i.3", "j.3", "k.2", "i.4", "j.4", "i.5", "j.5"),
    ]


def test_a_layer_is_fused_with_bias_and_relu_and_its_padding_is_fetched() -> None:
    """Index 0 of an axis of one iteration, as in bias[0, o, 0, 0], reads elementwise too."""
    (state,) = states(conv2d_layer)
    assert state.rules == ("always inline", "tile, bind and fetch", "always inline")
    assert set(bound(state)) == {"T_pad.shared", "W.shared", "T_relu"}
    (sketch,) = task_of(conv2d_layer).sketches
    locals_ = [s for s in state.s.state.stages if s.scope == "local"]
    assert [s.name for s in locals_] == ["T_conv2d"]
    assert [g.name for g in sketch.space.knobs[:3]] == ["tile_o", "tile_y", "tile_x"]


def test_a_sum_with_few_results_is_shared_by_a_block_or_left_to_single_threads() -> None:
    one, other = states(sums)
    assert one.rules == ("cross-thread reduction",)
    assert bound(one) == {"T_sum": ["blockIdx.x", "threadIdx.x"]}
    assert one.s.state.stage("T_sum").leaves[-1].kind == "reduce"
    assert other.rules == ()
    assert other.s.state.stage("T_sum").leaves[-1].kind == "reduce"
    assert bound(other) == {"T_sum": ["blockIdx.x", "threadIdx.x"]}
    assert [g.name for g in other.knobs] == ["block_T_sum"]


def test_a_product_with_few_results_may_be_shared_by_a_block() -> None:
    A, B = te.placeholder((4, 512), name="A"), te.placeholder((512, 4), name="B")
    rules = [s.rules for s in states(lambda: (A, B, topi.matmul(A, B)))]
    assert rules == [("cross-thread reduction",), ("cache write", "tile, bind and fetch")]


def test_elementwise_stages_are_inlined_and_bound() -> None:
    (state,) = states(elementwise)
    assert state.rules == ("always inline",)
    assert bound(state) == {"T_tanh": ["blockIdx.x", "threadIdx.x"]}


@pytest.mark.parametrize("formula", FORMULAS)
def test_programs_drawn_from_the_sketches_are_right(formula: Formula) -> None:
    """Their values are those of topi's schedule; races are looked for."""
    task = task_of(formula)
    gpu = tune.measurer(task.default(), SIM)
    for n in range(len(task.sketches)):
        *results, _ = gpu.remeasure(drawn(task, n, 4))
        assert [r.error for r in results] == [""] * len(results), results


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ({"i": (4, 1, 32, 2, 1), "j": (4, 1, 64, 1, 1)}, "32 x 64 = 2048 threads"),
        ({"i": (64, 1, 2, 2, 1), "j": (64, 1, 2, 2, 1)}, "4 threads, less than a warp"),
        ({"i": (1, 1, 16, 8, 2), "j": (1, 1, 16, 4, 4)}, "arrays of 16 x 16 sums"),
        ({"i": (1, 8, 8, 2, 2), "j": (1, 8, 8, 2, 2)}, "64 virtual threads"),
        ({"i": (1, 1, 32, 8, 1), "j": (4, 1, 16, 4, 1), "k": (1, 16, 16)}, "shared memory"),
    ],
)
def test_rows_that_a_gpu_cannot_launch_are_refused_before_measuring(
    sizes: dict[str, tuple[int, ...]], why: str
) -> None:
    A, B = te.placeholder((256, 256), name="A"), te.placeholder((256, 256), name="B")
    task = SearchTask(compute_dag=ComputeDAG((A, B, topi.matmul(A, B))), target="cuda")
    (sketch,) = task.sketches
    good = {"i": (8, 1, 16, 2, 1), "j": (8, 1, 16, 2, 1), "k": (32, 4, 2)}

    def row(parts: dict[str, tuple[int, ...]]) -> tune.Rows:
        chosen = {f"tile_{name}": parts[name] for name in "ijk"}
        knobs = sketch.space.knobs
        return np.array([[k.options.index(chosen.get(k.name, k.options[0])) for k in knobs]])

    assert tune.legal_rows(sketch, row(good), task.target).tolist() == [True]
    assert tune.legal_rows(sketch, row(good | sizes), task.target).tolist() == [False], why


def test_what_the_rules_allow_can_be_lowered() -> None:
    A, B = te.placeholder((256, 256), name="A"), te.placeholder((256, 256), name="B")
    task = SearchTask(compute_dag=ComputeDAG((A, B, topi.matmul(A, B))), target="cuda")
    space = tune.restricted(task.sketches[0], task.target).space
    for row in space.sample(np.random.default_rng(0), 10).tolist():
        task.lowered(tune.Candidate(0, tuple(row)))


@pytest.mark.parametrize(("formula", "least"), [(conv2d_layer, 0.8), (matmul_bias_relu, 0.75)])
def test_estimates_order_candidates_as_the_simulated_gpu_does(
    formula: Formula, least: float
) -> None:
    """The estimate knows no addresses; it orders pairs of candidates nearly as well as counters."""
    task = task_of(formula)
    programs = drawn(task, 0, 14)
    rows = np.array([p.candidate.row for p in programs], np.int32)
    columns = tune.columns_of(task)
    estimates = columns.of(0, rows)[:, columns.analytic or 0]
    measured = tune.measurer(task.default(), SIM).measure(programs)
    costs = np.array([result.best for result in measured])
    accuracy = tune.pairwise_accuracy(estimates, 1 / costs)
    assert accuracy is not None
    assert accuracy >= least
    assert 0.5 < np.median(2**-estimates / costs) < 2


def test_threads_and_kernels_of_a_batch() -> None:
    task = task_of(matmul)
    (sketch,) = task.sketches
    rows = sketch.space.sample(np.random.default_rng(0), 5)
    rows[:, -1] = 0  # all without unrolling: candidates of one shape
    batch = tune.statements(sketch).at(rows)
    (kernel,) = kernels(batch.statements)
    assert set(threads(kernel)) == {"blockIdx.x", "threadIdx.x"}
    for n, row in enumerate(rows.tolist()):
        sizes = sketch.space.options(row)
        expected = np.prod([sizes[f"tile_{a}"][2] for a in "ij"])
        assert threads(kernel)["threadIdx.x"][n] == expected


def test_a_rule_of_the_user_comes_before_those_for_a_gpu() -> None:
    def apply(state: auto_scheduler.State, stage: str, target: Target):
        yield state.copy(), -1

    rule = auto_scheduler.Rule("mine", lambda state, stage, target: True, apply, exclusive=True)
    task = SearchTask(
        compute_dag=ComputeDAG(matmul()), target=SIM, rules=(rule, *auto_scheduler.GPU_RULES)
    )
    (state,) = task.states
    assert state.rules == ("mine",)
    assert bound(state) == {"T_matmul": ["blockIdx.x", "threadIdx.x"]}


def test_a_search_for_a_gpu_beats_the_default() -> None:
    task = task_of(conv2d_layer)
    rng = np.random.default_rng(0)
    outcome = tune.run(task, trials=24, batch=8, rng=rng)
    assert not any(t.result.error for t in outcome.trials)
    assert outcome.best.cost <= 1.2 * outcome.best.default


def test_the_task_scheduler_speaks_of_cycles() -> None:
    tasks = [task_of(f) for f in (sums, matmul)]
    scheduler = auto_scheduler.TaskScheduler(tasks, rng=np.random.default_rng(0))
    outcome = scheduler.tune(trials=8, batch=4)
    head, *rows = str(outcome).splitlines()
    assert "Cycles (model)    (FLOP/cycle)" in head
    assert f"Estimated total latency: {outcome.latency:,.0f} modelled cycles" in rows[-1]
    assert "ms" not in str(outcome)


def test_tasks_in_seconds_and_in_cycles_are_not_tuned_together() -> None:
    dag = ComputeDAG(matmul())
    tasks = [SearchTask(compute_dag=dag, target=t) for t in ("llvm", SIM)]
    with pytest.raises(ArgumentError, match="others in modelled cycles"):
        auto_scheduler.TaskScheduler(tasks)


def test_a_sketch_for_a_gpu_is_stored_as_steps() -> None:
    task = task_of(conv2d_layer)
    (program,) = drawn(task, 0, 1)
    steps = task.sketches[0].filled(program.candidate.row)
    assert schedule.from_json(schedule.to_json(steps)) == steps
