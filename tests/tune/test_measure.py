"""Every program gets a result, whatever it does, and no process is left."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest

import minitvm as tvm
from minitvm import te, tir, topi, tune
from minitvm.base import ArgumentError, MeasureError, ScheduleError, Target
from minitvm.tune.builder import Builder, Built
from minitvm.tune.inputs import arguments, draw, tolerance
from minitvm.tune.measure import at_one_speed, processors
from minitvm.workers import Worker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
ONE = "llvm -num-cores=1"
SHORT = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)


def helper(name: str) -> ModuleType:
    """Load a file beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


failing = helper("failing")


@pytest.fixture(scope="module")
def measurer() -> Iterator[tune.Measurer]:
    before = set(psutil.Process().children(recursive=True))
    with tune.Measurer(failing.doubled(), ONE, options=SHORT) as m:
        yield m
    assert set(psutil.Process().children(recursive=True)) <= before


def children() -> set[psutil.Process]:
    """Return the processes that this one started; forks of those come and go."""
    return set(psutil.Process().children())


def product(n: int, constant: bool = False, rows: int = 4) -> tir.PrimFunc:
    """A product of matrices, the second of which may be a constant that is packed beforehand."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B", constant=constant)
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    if constant:
        packed = s.cache_read(B, "global", [C])
        s[packed].transform_layout(lambda k, j: (j // 16, k, j % 16))
    _, j = C.op.axis
    s[C].reorder(*s[C].split(C.op.axis[0], rows), k, j)
    s[C].vectorize(s[C].split(j, 16)[1])
    return tvm.lower(s, [A, B, C], target=ONE)


# --- failures ---------------------------------------------------------------------------------


SLOW = {
    "slow build": tune.MeasureOptions(compile_seconds=0.3, min_repeat_ms=1),
    "hang": tune.MeasureOptions(compile_seconds=30, run_seconds=0.5, min_repeat_ms=1),
}


@pytest.mark.parametrize("name", [name for name in failing.FAILURES if name not in SLOW])
def test_a_failure_is_a_result_that_says_why(measurer: tune.Measurer, name: str) -> None:
    program, error, words = failing.FAILURES[name]
    found, after = measurer.measure([program, failing.doubled])
    assert (found.error, found.seconds, found.best) == (error, (), np.inf)
    assert found.detail.startswith("program ")
    assert words in found.detail
    assert after.error == ""


@pytest.mark.parametrize("name", SLOW)
def test_what_takes_too_long_is_a_failure(name: str) -> None:
    program, error, words = failing.FAILURES[name]
    with tune.Measurer(failing.doubled(), ONE, options=SLOW[name]) as m:
        (found,) = m.measure([program])
    assert found.error == error
    assert words in found.detail


def test_an_abort_of_llvm_is_a_result(
    measurer: tune.Measurer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measurer.reference_cost > 0
    aborts = 'define void @f() {\n call void asm "nonsense", ""()\n ret void\n}'
    with monkeypatch.context() as m:
        m.setattr("minitvm.codegen.llvm.target.emit_llvm", lambda *_, **__: aborts)
        (found,) = measurer.measure([failing.doubled])
    assert found.error == "compile"
    assert "ended by signal 6" in found.detail
    assert "Inline asm not supported" in found.detail
    (after,) = measurer.measure([failing.doubled])
    assert after.error == ""


def test_thirty_programs_of_which_six_fail(measurer: tune.Measurer) -> None:
    kinds = ["abort", "exit", "wrong", "memory", "illegal", "garbage"]
    at = dict(zip(range(2, 30, 5), kinds, strict=True))
    programs = [
        failing.FAILURES[at[n]][0] if n in at else lambda n=n: failing.doubled(2 + n)
        for n in range(30)
    ]
    found = list(measurer.measure(programs))
    assert [r.error for r in found] == [
        failing.FAILURES[at[n]][1] if n in at else "" for n in range(30)
    ]
    assert all(r.best > 0 for r in found)
    assert all(r.build_seconds > 0 for r in found)


def test_other_errors_of_a_program_are_raised(measurer: tune.Measurer) -> None:
    results = measurer.measure([failing.doubled, lambda: 1 // 0])
    assert next(results).error == ""
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_a_reference_that_fails_is_an_error() -> None:
    before = children()
    with (
        tune.Measurer(failing.calling("abort"), ONE) as m,
        pytest.raises(MeasureError, match=r"reference program: .*SIGABRT"),
    ):
        next(m.measure([failing.doubled]))
    assert children() == before


# --- what is measured --------------------------------------------------------------------------


def test_results_come_in_order_and_programs_run_ahead(measurer: tune.Measurer) -> None:
    called: list[int] = []

    def program(n: int) -> tir.PrimFunc:
        called.append(n)
        time.sleep(0.05 * (n % 3))
        if n % 2:
            raise ScheduleError(f"number {n}")
        return failing.doubled()

    results = measurer.measure((lambda n=n: program(n)) for n in range(12))
    first = next(results)
    assert first.error == ""
    details = [r.detail for r in results]
    assert [d.partition("number ")[2] for d in details] == [
        str(n) if n % 2 else "" for n in range(1, 12)
    ]
    assert called == list(range(12))


def test_results_that_nobody_takes_leave_nothing_behind(measurer: tune.Measurer) -> None:
    called: list[int] = []

    def program(n: int) -> tir.PrimFunc:
        called.append(n)
        return failing.doubled()

    results = measurer.measure((lambda n=n: program(n)) for n in range(1000))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert len(called) < 50
    assert not [t for t in threading.enumerate() if t.name.startswith("minitvm-build")]


def test_programs_see_the_context_of_the_search(measurer: tune.Measurer) -> None:
    factor: ContextVar[int] = ContextVar("factor")
    token = factor.set(4)
    (found,) = measurer.measure([lambda: failing.doubled(factor.get())])
    factor.reset(token)
    assert found.error == ""


def test_a_slower_program_takes_longer() -> None:
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=30, early_stop=np.inf)
    with tune.Measurer(product(64), ONE, options=options) as m:
        same, slow = m.measure([lambda: product(64), lambda: scalar_product(64)])
        assert slow.error == same.error == ""
        assert slow.best > 2 * same.best
        assert 0 < m.reference_cost < slow.best
        slow, reference = m.remeasure([lambda: scalar_product(64)], rounds=3)
        assert (len(slow.seconds), len(reference.seconds)) == (1, 3)  # it left the race


def scalar_product(n: int) -> tir.PrimFunc:
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(k, C.op.axis[1], C.op.axis[0])
    return tvm.lower(s, [A, B, C], target=ONE)


def test_programs_are_compared_in_each_round_of_the_final_turns() -> None:
    """The machine is slower for half of the rounds; twice its speed changes within a round."""
    state = [1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 1.3, 1.3, 1.3, 1.3]
    default, ours = [2.0 * x for x in state], [1.0 * x for x in state]
    np.testing.assert_allclose(at_one_speed(ours, default), [1.15] * 10)
    np.testing.assert_allclose(at_one_speed(default, default), [2.3] * 10)
    lucky = [0.6, *ours[1:9], 2.0]
    assert np.median(at_one_speed(lucky, default)) == pytest.approx(1.15)
    np.testing.assert_allclose(at_one_speed(ours[:1], default), [1.15])  # dropped after a round
    assert at_one_speed(ours, ()) == tuple(ours)  # the default has failed
    assert at_one_speed((), default) == ()


def test_measurers_take_turns_with_the_same_processes() -> None:
    pairs = (failing.doubled, failing.wrong), (lambda: product(32), failing.doubled)
    before = children()
    with tune.Processes(ONE) as shared:
        each = [tune.Measurer(r(), ONE, options=SHORT, processes=shared) for r, _ in pairs]
        started = []
        for _ in range(2):
            for m, programs in zip(each, pairs, strict=True):
                right, wrong = m.measure(programs)
                assert right.error == ""
                assert wrong.error in ("wrong answer", "lower")
                m.close()  # the processes are not its own
                started.append(children() - before)
        assert started[0]
        assert started == started[:1] * 4
        seconds = each[0].reference_cost
        shared.close()
        assert psutil.wait_procs(started[0], timeout=30)[1] == []
        *_, again = each[0].remeasure([failing.doubled])
        assert again.error == ""
        assert each[0].reference_cost == seconds
        with pytest.raises(ArgumentError, match="the given processes build for"):
            tune.Measurer(failing.doubled(), "llvm -num-cores=2", processes=shared)


@pytest.mark.parametrize("cold", [False, True])
def test_constants_are_packed_once(cold: bool) -> None:
    options = tune.MeasureOptions(30, 30, min_repeat_ms=1, cold=cold)
    with tune.Measurer(product(32, constant=True), ONE, options=options) as m:
        found, plain = m.measure([lambda: product(32, True, 8), lambda: product(32)])
    assert (found.error, plain.error) == ("", "")
    assert found.best > 0


@pytest.mark.parametrize("unroll", [0, 1])
def test_programs_are_compiled_as_they_are_used(unroll: int) -> None:
    """The same target gives the same machine code: what was measured is what is applied."""
    target, func = Target(f"{ONE} -unroll={unroll}"), product(64)
    builder = Builder(target, 1, 4 << 30, None)
    try:
        built = builder.build(lambda: func, 30)
    finally:
        builder.close()
    assert isinstance(built, Built), built
    same, other = (tvm.build(func, target=f"{ONE} -unroll={n}") for n in (unroll, 1 - unroll))
    assert same.package is not None
    assert other.package is not None
    assert built.objects == (same.package().code,)
    assert other.package().code not in built.objects  # LLVM unrolls the loop over k


def test_builds_that_are_not_needed_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lowering, closed, asked = threading.Event(), threading.Event(), list[object]()

    def late() -> tir.PrimFunc:
        lowering.set()
        assert closed.wait(60)
        return product(32)

    builder = Builder(Target(ONE), 2, 4 << 30, None)
    try:
        ahead = builder.ahead([lambda: product(32), late], 30, False)
        assert isinstance(next(ahead), Built)
        assert lowering.wait(60)
        monkeypatch.setattr(Worker, "ask", lambda *args, **options: asked.append(args))
        monkeypatch.setattr(Worker, "kill", lambda worker: closed.set())
        ahead.close()
        monkeypatch.undo()
        assert closed.is_set()
        assert asked == []
        assert isinstance(builder.build(lambda: product(32), 30), Built)
    finally:
        builder.close()


def test_parallel_programs_are_measured_by_wall_time() -> None:
    def program() -> tir.PrimFunc:
        A = te.placeholder((64, 64), name="A")
        B = topi.exp(A)
        s = te.create_schedule(B.op)
        s[B].parallel(B.op.axis[0])
        return tvm.lower(s, [A, B], target="llvm -num-cores=2")

    with tune.Measurer(program(), "llvm -num-cores=2", options=SHORT) as m:
        assert [r.error for r in m.measure([program] * 20)] == [""] * 20


def test_repeats_and_rounds_are_counted(measurer: tune.Measurer) -> None:
    options = tune.MeasureOptions(30, 30, min_repeat_ms=1, repeat=3)
    with tune.Measurer(failing.doubled(), ONE, options=options) as m:
        (found,) = m.measure([failing.doubled])
        assert len(found.seconds) == 3
        best, bad, reference = m.remeasure([failing.doubled, failing.wrong], rounds=4)
    assert len(best.seconds) == len(reference.seconds) == 4
    assert (best.error, bad.error) == ("", "wrong answer")


def test_a_small_element_must_be_right_beside_a_large_one() -> None:
    """exp(12 A) is between 6e-6 and 1.6e5."""

    def power(least: float) -> tir.PrimFunc:
        A = te.placeholder((1000,), name="A")
        e = te.compute((1000,), lambda i: te.exp(12 * A[i]), name="e")
        B = te.compute((1000,), lambda i: te.if_then_else(e[i] < least, 0.0, e[i]), name="B")
        return tvm.lower(te.create_schedule(B.op), [A, B])

    with tune.Measurer(power(0.0), ONE, options=SHORT) as m:
        right, wrong = m.measure([lambda: power(0.0), lambda: power(1e-3)])
    assert (right.error, wrong.error) == ("", "wrong answer")
    assert " is 0.0 instead of " in wrong.detail


@pytest.mark.parametrize("signed", [True, False])
def test_a_sum_may_be_added_in_any_order_but_needs_all_its_terms(signed: bool) -> None:
    terms = 4096

    def rows(parts: int, count: int = terms) -> tir.PrimFunc:
        A, k = te.placeholder((500, terms), name="A"), te.reduce_axis((0, count), name="k")
        B = te.compute((500,), lambda i: te.sum(A[i, k], axis=k), name="B")
        s = te.create_schedule(B.op)
        s.rfactor(B, s[B].split(k, nparts=parts)[1])
        return tvm.lower(s, [A, B], target=ONE)

    a = np.random.default_rng(0).uniform(-1 if signed else 0, 1, (500, terms)).astype("float32")
    with tune.Measurer(rows(64), ONE, inputs=[a], options=SHORT) as m:
        programs = [rows(parts) for parts in (1, 8, 512, 4096)] + [rows(1, terms - 1)]
        *right, wrong = m.measure([lambda f=f: f for f in programs])
    assert [r.error for r in right] == [""] * 4
    assert wrong.error == "wrong answer"


def test_a_zero_of_relu_may_be_a_rounding_error() -> None:
    """Half of the sums are negative, and some are so small that the order decides their sign."""

    def relu(outer: int) -> tir.PrimFunc:
        A, B = (te.placeholder((256, 256), name=n) for n in "AB")
        C = topi.matmul(A, B)
        D = topi.relu(C)
        s = te.create_schedule(D.op)
        s.rfactor(C, s[C].split(C.op.reduce_axis[0], nparts=outer)[1])
        return tvm.lower(s, [A, B, D], target=ONE)

    a = np.random.default_rng(0).integers(-3, 4, (2, 256, 256)) * np.float32(0.1)
    with tune.Measurer(relu(1), ONE, inputs=[*a.astype("float32")], options=SHORT) as m:
        assert [r.error for r in m.measure([lambda: relu(16), lambda: relu(256)])] == [""] * 2


def test_integers_must_be_equal() -> None:
    def sums(extra: int) -> tir.PrimFunc:
        A = te.placeholder((100,), "int32", name="A")
        B = te.compute((100,), lambda i: A[i] * 1000 + te.if_then_else(i < 99, 0, extra), name="B")
        return tvm.lower(te.create_schedule(B.op), [A, B])

    with tune.Measurer(sums(0), ONE, options=SHORT) as m:
        right, wrong = m.measure([lambda: sums(0), lambda: sums(1)])
    assert (right.error, wrong.error) == ("", "wrong answer")
    assert "B[99] is " in wrong.detail


def test_a_root_gets_inputs_without_signs() -> None:
    A = te.placeholder((50,), name="A")
    B = topi.sqrt(A)
    func = tvm.lower(te.create_schedule(B.op), [A, B])
    with tune.Measurer(func, ONE, options=SHORT) as m:
        assert [r.error for r in m.measure([lambda: func])] == [""]


def test_nan_in_the_expected_outputs_is_an_error() -> None:
    func = failing.doubled()
    a = np.full(failing.N, np.nan, "float32")
    with (
        tune.Measurer(func, ONE, inputs=[a], options=SHORT) as m,
        pytest.raises(MeasureError, match="NaN"),
    ):
        next(m.measure([failing.doubled]))


# --- arguments ---------------------------------------------------------------------------------


def test_bad_arguments_are_refused_before_a_process_starts() -> None:
    func = failing.doubled()
    before = children()
    with pytest.raises(ArgumentError, match="target 'python"):
        tune.Measurer(func, "python")
    with pytest.raises(ArgumentError, match="no constants"):
        tune.Measurer(func, ONE, options=tune.MeasureOptions(cold=True))
    with pytest.raises(ArgumentError, match=r"inputs: A: float64 of shape \(1000,\), not float32"):
        tune.Measurer(func, ONE, inputs=[np.zeros(1000)])
    with pytest.raises(ArgumentError, match="2 are given for A"):
        tune.Measurer(func, ONE, inputs=[np.zeros(1000, "float32")] * 2)
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    with pytest.raises(ArgumentError, match="size n is known only at the call"):
        tune.Measurer(tvm.lower(te.create_schedule(B.op), [A, B]), ONE)
    assert children() == before


def test_inputs_are_reproducible_and_not_denormal() -> None:
    wanted = arguments(product(32), None)
    first, again = (draw(wanted, np.random.default_rng(7)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert all(1 / 8 <= np.abs(a).min() <= np.abs(a).max() <= 1 for a in first)
    assert all(a.min() < 0 < a.max() for a in first)


def test_the_tolerance_grows_with_the_sum() -> None:
    eps = float(np.finfo("float32").eps)
    assert tolerance(failing.doubled()) <= 9 * eps
    assert 8 * 8 * eps < tolerance(product(64)) < 8 * 9 * eps
    assert 8 * 32 * eps < tolerance(product(1024)) < 8 * 33 * eps
    X = te.placeholder((64, 1024), name="X")
    rows = topi.softmax(X)  # the other operations of an element do not dilute its sum
    assert 8 * 32 * eps < tolerance(tvm.lower(topi.schedule(rows), [X, rows])) < 8 * 64 * eps


def test_the_runner_has_a_processor_of_its_own() -> None:
    builders, runners = processors(1)
    if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1:
        assert builders is not None
        assert runners is not None
        assert not {*builders} & {*runners}
    assert processors(2) == (None, None)


# --- interrupts --------------------------------------------------------------------------------


def test_ctrl_c_is_raised_and_the_measurer_goes_on() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=600)
    started = children()
    try:
        with tune.Measurer(failing.doubled(), ONE, options=options) as m:
            assert m.reference_cost > 0
            strike = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
            strike.start()
            with pytest.raises(KeyboardInterrupt):
                list(m.measure([failing.FAILURES["hang"][0]] * 3))
            strike.join()
            (found,) = m.measure([failing.doubled])
            assert found.error == ""
    finally:
        signal.signal(signal.SIGINT, before)
    assert children() == started


SEARCH = """
import importlib.util, psutil, sys, threading
spec = importlib.util.spec_from_file_location("failing", sys.argv[1])
failing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(failing)
from minitvm import tune
def search():
    options = tune.MeasureOptions(run_seconds=600)
    with tune.Measurer(failing.doubled(), "llvm -num-cores=1", options=options) as m:
        next(m.measure([failing.doubled]))
        print(*(p.pid for p in psutil.Process().children(recursive=True)), flush=True)
        list(m.measure([lambda: failing.calling("pause")] * 3))
thread = threading.Thread(target=search)
thread.start()
thread.join()
"""


def test_a_search_that_is_killed_leaves_no_process() -> None:
    file = str(Path(__file__).parent / "failing.py")
    search = subprocess.Popen(
        [sys.executable, "-c", SEARCH, file], stdout=subprocess.PIPE, text=True
    )
    assert search.stdout is not None
    pids = [int(pid) for pid in search.stdout.readline().split()]
    assert len(pids) >= 2
    search.kill()
    search.wait()
    search.stdout.close()
    _, alive = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], 60)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
