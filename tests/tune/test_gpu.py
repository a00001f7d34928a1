"""Kernels are measured in a process that owns the GPU; here numba's simulator plays the GPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import minitvm as tvm
from minitvm import autotvm, runtime, te, tir, tune
from minitvm.base import MeasureError, Target
from minitvm.tune import measure
from minitvm.tune.record import machine_facts

LONG = tune.MeasureOptions(run_seconds=60, number=2, min_repeat_ms=1)
N = 64


def scaled(factor: float = 2.0, threads: int = 32, past: int = 0) -> tir.PrimFunc:
    """Each number of X times `factor`; with `past`, another one is read that far past the end."""
    X = te.placeholder((N,), name="X")
    Y = te.compute((N,), lambda i: X[i] * factor, name="Y")
    s = te.create_schedule(Y.op)
    block, thread = s[Y].split(Y.op.axis[0], threads)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(thread, te.thread_axis("threadIdx.x"))
    return tvm.lower(s, [X, Y], target="cuda")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let numba's simulator be the GPU of the processes that measure."""
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setattr(measure, "JOB", "tests.tune.simulator_job")


@pytest.fixture
def measurer(simulator: None) -> Iterator[tune.Measurer]:
    with tune.Measurer(scaled(), "cuda", options=LONG) as m:
        yield m


def failing(kind: str, monkeypatch: pytest.MonkeyPatch) -> tir.PrimFunc:
    """Print the next kernel with a fault in its body."""
    body = {
        "hang": "while True: pass",
        "past the end": f"X[{N}]",
        "end": "__import__('os').abort()",
    }
    printed = runtime.GpuFunction.source

    def source(self: runtime.GpuFunction, fmt: str = "tir") -> str:
        text = printed(self, fmt)
        line = next(n for n in text.splitlines() if "cuda.blockIdx" in n)
        indent = line[: len(line) - len(line.lstrip())]
        return text.replace(line, f"{indent}{body[kind]}\n{line}")

    monkeypatch.setattr(runtime.GpuFunction, "source", source)
    return scaled()


def test_right_and_wrong_kernels_are_told_apart(measurer: tune.Measurer) -> None:
    assert measurer.reference_cost > 0
    right, wrong, other = measurer.measure([scaled, lambda: scaled(3.0), lambda: scaled(threads=8)])
    assert right.error == other.error == ""
    assert right.best > 0
    assert wrong.error == "wrong answer"
    assert wrong.detail.startswith("program 2: Y[")


@pytest.mark.parametrize(("kind", "error"), [("past the end", "exit"), ("end", "crash")])
def test_after_a_fault_another_process_takes_the_gpu(
    kind: str, error: str, measurer: tune.Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measurer.reference_cost > 0
    with monkeypatch.context() as broken:
        bad = failing(kind, broken)
        (result,) = measurer.measure([lambda: bad])
    assert result.error == error
    (after,) = measurer.measure([scaled])
    assert after.error == ""


def test_a_kernel_that_does_not_end_is_ended(
    simulator: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "SLOWDOWN", 0)
    options = tune.MeasureOptions(run_seconds=2, number=2, min_repeat_ms=1)
    with tune.Measurer(scaled(), "cuda", options=options) as measurer:
        assert measurer.reference_cost > 0
        with monkeypatch.context() as broken:
            bad = failing("hang", broken)
            (result,) = measurer.measure([lambda: bad])
    assert result.error == "run time-out"


def test_programs_are_measured_alternately(
    measurer: tune.Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "HOPELESS", 1e9)  # a simulator on a busy machine is uneven
    fast, reference = measurer.remeasure([scaled], rounds=3)
    assert fast.error == reference.error == ""
    assert len(fast.seconds) == len(reference.seconds) == 3


def test_without_a_gpu_the_reference_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    if machine_facts(Target("cuda"))["device"]:
        pytest.skip("this machine has a GPU")
    with (
        tune.Measurer(scaled(), "cuda", options=LONG) as measurer,
        pytest.raises(MeasureError, match=r"(?s)has no GPU .*try: target=.cuda -sim"),
    ):
        _ = measurer.reference_cost


def test_a_search_measures_seconds_on_the_device(simulator: None, tmp_path: Path) -> None:
    @autotvm.template("gpu/scale")
    def template(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] * 2, name="B")
        s = te.create_schedule(B.op)
        cfg = autotvm.get_config()
        cfg.define_knob("threads", [8, 16, 2048])
        block, thread = s[B].split(B.op.axis[0], cfg["threads"].val)
        s[B].bind(block, te.thread_axis("blockIdx.x"))
        s[B].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [A, B]

    try:
        task = autotvm.task.create("gpu/scale", (64,), "cuda")
        log = tmp_path / "log.jsonl"
        options = autotvm.measure_option(
            builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=2, timeout=60)
        )
        outcome = autotvm.tuner.GridSearchTuner(task).tune(
            3, measure_option=options, callbacks=[autotvm.callback.log_to_file(log)]
        )
    finally:
        autotvm.templates.TEMPLATES.pop("gpu/scale")
    kinds = {task.config(t.candidate)["threads"].val: t.result.error for t in outcome.trials}
    assert kinds == {8: "", 16: "", 2048: "lower"}
    (record, *_) = tune.Log(log).records()
    assert record.seconds > 0
    assert set(record.machine) == {"device"}
