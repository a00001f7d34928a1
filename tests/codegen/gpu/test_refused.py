"""What no GPU can run is refused when it is lowered, with the numbers and with advice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import minitvm as tvm
from minitvm import simt, te, tir
from minitvm.base import BuildError, LoweringError, MeasureError, TVMError

from .programs import bind, product, thread


def copy(n: int, threads: int, tag: str = "tx") -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], threads)
    bind(s, B, bx=outer, **{tag: inner})
    return s, [A, B]


def refusal(s: te.Schedule, args: list[te.Tensor]) -> str:
    with pytest.raises(LoweringError) as error:
        tvm.lower(s, args, target="cuda -sim")
    return str(error.value)


def test_a_schedule_without_threads() -> None:
    A, B, C = product(8)
    assert refusal(te.create_schedule(C.op), [A, B, C]) == (
        "the loops that store to C: no GPU thread runs them\n"
        "  try: did you forget to bind? bind a loop to te.thread_axis('blockIdx.x')"
    )


def test_too_many_threads() -> None:
    assert refusal(*copy(4096, 2048)) == (
        "kernel that computes B: a block has 2048 threads, at most 1024 are possible\n"
        "  try: smaller factors in the splits whose loops are bound to threads"
    )


def test_too_many_threads_along_z() -> None:
    assert "128 threads along threadIdx.z, at most 64" in refusal(*copy(4096, 128, "tz"))


def test_too_much_shared_memory() -> None:
    A = te.placeholder((16, 1024), name="A")
    B = te.compute((16, 1024), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    bind(s, B, ty=B.op.axis[0], bx=s[B].split(B.op.axis[1], 1024)[0])
    s[shared].compute_at(s[B], s[B].leaf_iter_vars[0])
    s[B].reorder(s[B].leaf_iter_vars[1], s[B].leaf_iter_vars[0])
    s[shared].compute_at(s[B], s[B].leaf_iter_vars[0])
    assert "a block needs 65536 bytes of shared memory, at most 49152" in refusal(s, [A, B])


def test_a_symbolic_number_of_threads() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], thread("threadIdx.x"))
    assert "the number of threads along threadIdx.x is n" in refusal(s, [A, B])


def test_a_barrier_that_some_threads_would_not_reach() -> None:
    A = te.placeholder((40, 16), name="A")
    B = te.compute((40, 16), lambda i, j: te.if_then_else(i < 40, A[i, 15 - j], 0.0), name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    (outer, inner), j = s[B].split(B.op.axis[0], 16), B.op.axis[1]
    bind(s, B, bx=outer, ty=inner, tx=j)
    s[shared].compute_at(s[B], inner)
    bind(s, shared, tx=s[shared].op.axis[1])
    f = tvm.build(s, [A, B], target="cuda -sim")
    a, b = np.random.default_rng(0).random((40, 16), np.float32), np.zeros((40, 16), np.float32)
    f(a, b)  # lowering guards only the statements, so no barrier is in a condition
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_a_late_copy_of_what_is_computed() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2, name="B")
    C = te.compute((64,), lambda i: B[63 - i], name="C")
    s = te.create_schedule(C.op)
    block, inner = s[C].split(C.op.axis[0], 32)
    bind(s, C, bx=block, tx=inner)
    s[B].compute_at(s[C], block)
    s[B].pragma(B.op.axis[0], "async_copy")
    bind(s, B, tx=B.op.axis[0])
    s[B].set_scope("shared")
    assert "async_copy of B: A[" in (message := refusal(s, [A, C]))
    assert "is not an element of global memory\n  try: cache_read, which copies" in message
    s, args = copy(64, 32)
    s[args[1]].pragma(s[args[1]].leaf_iter_vars[0], "async_copy")
    assert "async_copy of B: it is in global memory" in refusal(s, args)


def test_a_thread_that_reads_what_another_writes_in_the_same_statement() -> None:
    buffer = tir.Buffer("A", (64,), tvm.base.dtype("float32"))
    t = tir.Var("t", 0, 31)
    shift = tir.Store(buffer, (t,), tir.Load(buffer, (t + 1,), buffer.dtype))
    body = tir.For(t, 32, shift, "bind", "threadIdx.x")
    with pytest.raises(LoweringError, match="other threads write this element in the same stat"):
        tvm.codegen.TARGETS["cuda"].passes[-2](body)


def test_without_a_gpu_a_call_says_what_to_do() -> None:
    f = tvm.build(*copy(64, 32), target="cuda")
    a = np.zeros(64, np.float32)
    with pytest.raises(BuildError, match='"cuda -sim", which simulates one'):
        f(a, a.copy())
    assert isinstance(f.check(a, a.copy()), simt.Report)


def test_a_simulated_gpu_has_no_clock() -> None:
    f = tvm.build(*copy(64, 32), target="cuda -sim")
    with pytest.raises(MeasureError, match=r"f\.check"):
        f.time_evaluator()


@pytest.mark.parametrize(
    "what", [lambda s, a: tvm.build(s, a, target="llvm"), lambda s, a: tvm.Target("cuda -sm=90")]
)
def test_other_targets_and_options(what: Callable[..., object]) -> None:
    with pytest.raises(TVMError):
        what(*copy(64, 32))


def test_a_race_raises_when_the_program_is_called() -> None:
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[31 - i], name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    outer, inner = s[B].split(B.op.axis[0], 32)
    bind(s, B, bx=outer, tx=inner)
    s[shared].compute_at(s[B], outer)
    bind(s, shared, tx=s[shared].op.axis[0])
    passes = tuple(p for p in tvm.codegen.TARGETS["cuda"].passes if p.__name__ != "thread_sync")
    f = tvm.build(tvm.lower(s, [A, B], passes=passes), target="cuda -sim")
    with pytest.raises(simt.KernelError, match="read after write"):
        f(np.ones(32, np.float32), np.zeros(32, np.float32))
