"""Searches on the simulated GPU: modelled cycles in results, logs and texts, and no seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import autotvm, simt, te, tir, topi, tune
from minitvm.base import ArgumentError, MeasureError
from minitvm.tune.legal_gpu import MAX_STEPS as STEPS
from minitvm.tune.simulated import count_steps

SIM = "cuda -sim"
N = 48


@pytest.fixture
def scale() -> Iterator[autotvm.Template]:
    """A template with a knob for the threads of a block: B = A * 2."""

    @autotvm.template("sim/scale")
    def template(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] * 2, name="B")
        s = te.create_schedule(B.op)
        cfg = autotvm.get_config()
        cfg.define_knob("threads", [16, 1024, 2048])
        block, thread = s[B].split(B.op.axis[0], cfg["threads"].val)
        s[B].bind(block, te.thread_axis("blockIdx.x"))
        s[B].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [A, B]

    yield template
    autotvm.templates.TEMPLATES.pop("sim/scale")


def bound(B: te.Tensor) -> te.Schedule:
    s = te.create_schedule(B.op)
    s[B].bind(s[B].fuse(*B.op.axis), te.thread_axis("threadIdx.x"))
    return s


def doubled(factor: float = 2.0, shift: int = 0) -> tir.PrimFunc:
    """B[i] = A[i] * factor with a thread for each element, shifted around if asked for."""
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: A[(i + shift) % N] * factor, name="B")
    return tvm.lower(bound(B), [A, B], target=SIM)


def racing() -> tir.PrimFunc:
    """B is computed from A, and one element of it also by its neighbour's thread: a race."""
    A, B = (tir.Buffer(name, (N,), tvm.base.dtype("float32")) for name in "AB")
    i = tir.Var("i", 0, N - 1)
    two = tir.Const(2.0, A.dtype)
    own = tir.Store(B, (i,), tir.Load(A, (i,), A.dtype) * two)
    again = tir.Store(B, (0,), tir.Load(B, (i,), A.dtype) * tir.Const(1.0, A.dtype))
    last = tir.Store(B, (0,), tir.Load(A, (0,), A.dtype) * two)
    body = tir.For(i, N, tir.seq(own, again, last), "bind", "threadIdx.x")
    return tir.PrimFunc("racing", (A, B), body, (B,))


def test_a_result_has_modelled_cycles_and_no_seconds() -> None:
    gpu = tune.SimulatedGpu(doubled())
    (result,) = gpu.measure([doubled])
    assert result.error == ""
    assert result.seconds == ()
    assert result.costs == result.cycles == (gpu.reference_cost,)
    report = simt.run(doubled(), [np.ones(N, "float32"), np.zeros(N, "float32")])
    assert result.cycles == (simt.cycles(report),)
    trial = tune.Trial(tune.Candidate(0, ()), result)
    assert trial.cost == result.best
    with pytest.raises(MeasureError, match="modelled cycles, which say nothing about seconds"):
        _ = trial.seconds


def test_a_wrong_program_is_refused() -> None:
    gpu = tune.SimulatedGpu(doubled())
    scaled, shifted = gpu.measure([lambda: doubled(2.5), lambda: doubled(shift=1)])
    assert scaled.error == shifted.error == "wrong answer"
    assert "instead of" in scaled.detail


def test_a_race_is_found_when_finalists_are_measured_again() -> None:
    """All threads run in lockstep here, so its values are right by chance."""
    gpu = tune.SimulatedGpu(doubled())
    (trial,) = gpu.measure([racing])
    assert trial.error == ""
    final, reference = gpu.remeasure([racing])
    assert final.error == "wrong answer"
    assert final.detail.startswith("write after read: B[0] = ")
    assert reference.cycles == (gpu.reference_cost,)


def test_a_program_with_too_few_threads_is_not_simulated() -> None:
    A = te.placeholder((2 * STEPS + 2,), name="A")
    B = te.compute(A.shape, lambda i: A[i] * 2, name="B")
    good, alone = te.create_schedule(B.op), te.create_schedule(B.op)
    block, thread = good[B].split(B.op.axis[0], 256)
    good[B].bind(block, te.thread_axis("blockIdx.x"))
    good[B].bind(thread, te.thread_axis("threadIdx.x"))
    _, pair = alone[B].split(B.op.axis[0], 2)
    alone[B].bind(pair, te.thread_axis("threadIdx.x"))
    programs = [tvm.lower(s, [A, B], target=SIM) for s in (good, alone)]
    assert [count_steps(p) for p in programs] == [
        3,
        STEPS + 1,
    ]  # 129 blocks, of which 64 run together
    first, second = tune.SimulatedGpu(programs[0]).measure([lambda p=p: p for p in programs])
    assert first.error == ""
    assert second.error == "run time-out"
    assert second.detail.startswith("it takes 16,385 steps of the simulator, at most 16,384")


def test_the_reference_must_be_right() -> None:
    with pytest.raises(simt.KernelError, match="write after read"):
        _ = tune.SimulatedGpu(racing()).reference_cost


def test_only_a_simulated_gpu_is_simulated() -> None:
    with pytest.raises(ArgumentError, match="it has no simulator"):
        tune.SimulatedGpu(doubled(), "llvm")
    with pytest.raises(ArgumentError, match="SimulatedGpu for a simulated GPU"):
        tune.Measurer(doubled(), SIM)


def test_a_search_and_its_log_speak_of_cycles(scale: autotvm.Template, tmp_path: Path) -> None:
    task = autotvm.task.create("sim/scale", (4096,), SIM)
    log = tmp_path / "sim.log"
    outcome = autotvm.tuner.GridSearchTuner(task).tune(
        3, callbacks=[autotvm.callback.log_to_file(log)]
    )
    kinds = {task.config(t.candidate)["threads"].val: t.result.error for t in outcome.trials}
    assert kinds == {16: "", 1024: "", 2048: "lower"}
    assert "FLOP/cycle" in str(outcome)
    assert "GFLOP" not in str(outcome)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["unit"] for line in lines} == {"cycles"}
    assert not any("seconds" in line for line in lines)
    assert lines[0]["machine"] == {"simulated": "sm_90", "version": 1}
    best = tune.best(tune.Log(log).records(), task.key, SIM)
    assert best is not None
    assert best.cost == outcome.best.cost == best.result.cycles[0]
    assert tune.cost_text(best, 12345.0) == "12,345 modelled cycles"
    resumed = tune.run(task, trials=3, log=log)
    assert [t.result for t in resumed.trials] == [t.result for t in outcome.trials]


def test_a_line_must_have_the_unit_of_its_target(scale: autotvm.Template) -> None:
    task = autotvm.task.create("sim/scale", (64,), SIM)
    trial = tune.Trial(tune.Candidate(0, (0,)), tune.Result(cycles=(7.0,)))
    line = tune.to_line(tune.record_of(task, trial))
    assert tune.from_line(line).result == trial.result
    for other in (line.replace('"cycles"', '"seconds"'), line.replace(SIM, "cuda")):
        with pytest.raises(ValueError, match="broken"):
            tune.from_line(other)


def test_cycles_and_seconds_are_not_compared(scale: autotvm.Template) -> None:
    sim = autotvm.task.create("sim/scale", (64,), SIM)
    real = autotvm.task.create("sim/scale", (64,), "cuda")
    slow = tune.record_of(real, tune.Trial(tune.Candidate(0, (0,)), tune.Result((1.0,))))
    fast = tune.record_of(sim, tune.Trial(tune.Candidate(0, (1,)), tune.Result(cycles=(9e3,))))
    with pytest.raises(ArgumentError, match="some records have seconds"):
        tune.best([slow, fast], sim.key)
    assert tune.best([slow, fast], sim.key, SIM) == fast
    assert tune.best([slow, fast], sim.key, "cuda") == slow
    history = autotvm.ApplyHistoryBest()
    for record in (slow, fast):
        history._add(record.target, record.task, record.cost, record)
    chosen = [history.find(tvm.Target(t), ("sim/scale", 64)) for t in (SIM, "cuda")]
    assert [c["threads"].val for c in chosen if c is not None] == [1024, 16]
    assert history.find(tvm.Target("cuda -arch=sm_80"), ("sim/scale", 64)) == chosen[1]


def test_pruning_keeps_the_best_of_each_unit(scale: autotvm.Template, tmp_path: Path) -> None:
    log = tune.Log(tmp_path / "both.log")
    for target, unit in ((SIM, "cycles"), ("cuda", "seconds")):
        task = autotvm.task.create("sim/scale", (64,), target)
        for option, cost in enumerate((3.0, 2.0)):
            result = tune.Result(**{unit: (cost,)})
            log.append(tune.record_of(task, tune.Trial(tune.Candidate(0, (option,)), result)))
    assert tune.prune(log, keep=1) == (2, 2)
    assert [(r.target, r.cost) for r in log.records()] == [(SIM, 2.0), ("cuda", 2.0)]


def test_the_reference_of_topi_is_measured() -> None:
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    C = topi.matmul(A, B)
    program = tvm.lower(topi.schedule(C, SIM), [A, B, C], target=SIM)
    (result,) = tune.SimulatedGpu(program).measure([lambda: program])
    assert result.error == ""
