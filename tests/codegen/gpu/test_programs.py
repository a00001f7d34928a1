"""Schedules for a GPU, simulated and compared with numpy; every barrier is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import minitvm as tvm
from minitvm import simt, te, tir

from .programs import PROGRAMS, barriers, bind, without

SIMULATED = tvm.Target("cuda -sim")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_schedule_computes_what_numpy_computes(name: str) -> None:
    program = PROGRAMS[name]()
    f = tvm.build(program.schedule, program.args, target=SIMULATED)
    arrays = program.arrays()
    expected = program.meaning(*arrays)
    out = np.full(expected.shape, np.nan, np.float32)
    f(*arrays, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert f.check(*arrays, out).ok


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_barrier_is_needed(name: str) -> None:
    program = PROGRAMS[name]()
    f = tvm.lower(program.schedule, program.args, target=SIMULATED)
    arrays = program.arrays()
    out = np.zeros(program.args[-1].shape, np.float32)
    for number in range(barriers(f)):
        assert simt.run(without(f, number), [*arrays, out]).races, f"barrier {number}"


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("late")])
def test_every_wait_is_needed(name: str) -> None:
    program = PROGRAMS[name]()
    f = tvm.lower(program.schedule, program.args, target=SIMULATED)
    arrays, out = program.arrays(), np.zeros(program.args[-1].shape, np.float32)
    waits = barriers(f, simt.ASYNC_WAIT)
    assert waits == (1 if name == "late copies" else 2)  # before the loop over k, and in it
    for number in range(waits):
        faults = simt.run(without(f, number, simt.ASYNC_WAIT), [*arrays, out]).faults
        assert faults[0].kind == "read before it arrives", f"wait {number}"
        assert "A_shared[" in faults[0].access


def test_a_barrier_before_the_wait_does_not_help() -> None:
    program = PROGRAMS["late copies"]()
    f = tvm.lower(program.schedule, program.args, target=SIMULATED)

    def swapped(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Evaluate(tir.Call(simt.ASYNC_WAIT)):
                return tir.Evaluate(replace(s.value, name=simt.BARRIER))
            case tir.Evaluate(tir.Call(simt.BARRIER)):
                return tir.Evaluate(replace(s.value, name=simt.ASYNC_WAIT))
            case _:
                return s

    out = np.zeros((64, 64), np.float32)
    report = simt.run(replace(f, body=tir.rewrite(f.body, swapped)), [*program.arrays(), out])
    assert "read after write" in {fault.kind for fault in report.faults}


@pytest.mark.parametrize("threads", [20, 32])  # in shared memory, and by shuffles
def test_threads_find_the_position_of_the_largest_element(threads: int) -> None:
    def combine(x: tuple[tir.Expr, ...], y: tuple[tir.Expr, ...]) -> tuple[tir.Expr, ...]:
        first = te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0]))
        return te.if_then_else(first, x[0], y[0]), te.if_then_else(x[1] >= y[1], x[1], y[1])

    def identity(number: str, value: str) -> tuple[tir.Expr, ...]:
        return te.const(2**30, number), te.min_value(value)

    argmax = te.comm_reducer(combine, identity, name="argmax")
    number = te.placeholder((6, 50), "int32", name="I")
    value = te.placeholder((6, 50), name="V")
    k = te.reduce_axis((0, 50), name="k")
    place, largest = te.compute((6,), lambda i: argmax((number[i, k], value[i, k]), axis=k))
    s = te.create_schedule(place.op)
    bind(s, place, bx=place.op.axis[0], tx=s[place].split(k, threads)[1])
    f = tvm.build(s, [number, value, place, largest], target=SIMULATED)
    numbers = np.tile(np.arange(50, dtype=np.int32), (6, 1))
    values = np.random.default_rng(0).integers(0, 30, (6, 50)).astype(np.float32)
    places, top = np.zeros(6, np.int32), np.zeros(6, np.float32)
    f(numbers, values, places, top)
    np.testing.assert_array_equal(places, values.argmax(axis=1))
    np.testing.assert_array_equal(top, values.max(axis=1))


def test_the_number_of_blocks_may_be_symbolic() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 32)
    bind(s, B, bx=outer, tx=inner)
    f = tvm.build(s, [A, B], target=SIMULATED)
    assert "    if (n + 31) // 32 > 0:\n        main_kernel[" in f.source("cuda")
    for size in (0, 1, 32, 77):
        a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        f(a, b)
        np.testing.assert_array_equal(b, 2 * a)
        (kernel,) = f.check(a, b).kernels
        assert kernel.launch.blocks == -(-size // 32)


IN_NUMBAS_SIMULATOR = """
import numpy as np
from numba import cuda
import minitvm as tvm
from tests.codegen.gpu.programs import PROGRAMS

for name, make in PROGRAMS.items():
    if name in ("tiled", "tiled, ragged"):
        continue  # "padded" and "in registers, ragged" show the same in less time
    program = make()
    f = tvm.build(program.schedule, program.args, target="cuda -sim")
    text = f.source("cuda")
    if "shfl" in text or "syncwarp" in text:
        continue  # numba's simulator has neither
    scope = {}
    exec(compile(text, "<kernel>", "exec"), scope)
    arrays = program.arrays()
    expected = program.meaning(*arrays)
    out = cuda.to_device(np.full(expected.size, np.nan, np.float32))
    scope["main"](*(cuda.to_device(a.reshape(-1)) for a in arrays), out)
    np.testing.assert_allclose(out.copy_to_host(), expected.reshape(-1), rtol=1e-6)
    print(name)
"""


@pytest.mark.exhaustive  # random kernels do the same in testing/test_gpu.py, in a tenth of the time
def test_numbas_own_simulator_gets_the_same_results_from_the_printed_source() -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, "-c", IN_NUMBAS_SIMULATOR],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) >= 15
