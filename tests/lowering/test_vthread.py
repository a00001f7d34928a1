"""Threads: virtual ones become one, hardware ones are checked, memory is shared among them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import BuildError, LoweringError
from minitvm.lowering import inject_virtual_thread
from minitvm.tir import PrimFunc, interpret, verify

Same = Callable[..., None]


def chain(n: int = 8) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """B = A + 1, C = B * 2"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] * 2.0, name="C")
    return te.create_schedule(C.op), A, B, C


def threads(tag: str, n: int = 8, nparts: int = 2) -> PrimFunc:
    """The chain with B computed for each virtual thread, flattened."""
    s, A, B, C = chain(n)
    o, _ = s[C].split(C.op.axis[0], nparts=nparts)
    s[C].bind(o, te.thread_axis(tag))
    s[B].compute_at(s[C], o)
    return tvm.lower(s, [A, C], until="flatten")


def body(f: PrimFunc) -> list[str]:
    return [line[2:] for line in str(f).splitlines()[1:]]


def injected(before: PrimFunc, same: Same) -> list[str]:
    """The body after the pass, which computes the same."""
    after = replace(before, body=inject_virtual_thread(before.body))
    verify(after, "flat")
    same(before, after)
    return body(after)


@pytest.mark.parametrize("tag", ["vthread", "cthread", "vthread.x"])
def test_threads_take_turns_statement_by_statement(tag: str, same: Same) -> None:
    assert injected(threads(tag), same) == [
        'B = allocate((2, 4), "float32", "local")',
        "for i in range(4):",
        "  B[i] = A[i] + 1.0",
        "  B[i + 4] = A[i + 4] + 1.0",
        "for i_inner in range(4):",
        "  C[i_inner] = B[i_inner] * 2.0",
        "  C[i_inner + 4] = B[i_inner + 4] * 2.0",
    ]


def test_many_turns_are_a_loop(same: Same) -> None:
    assert injected(threads("vthread", 64, 16), same)[2:4] == [
        "  for i_outer_s in range(16):",
        "    B[i + i_outer_s*4] = A[i_outer_s*4 + i] + 1.0",
    ]


def shared(tag: str) -> PrimFunc:
    """C[t, j] = B[j] + t; every thread needs all of B."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda j: A[j] + 1.0, name="B")
    C = te.compute((2, 4), lambda t, j: B[j] * t.astype("float32"), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis(tag))
    s[B].compute_at(s[C], C.op.axis[0])
    return tvm.lower(s, [A, C], until="flatten")


def test_what_is_the_same_for_all_virtual_threads_is_done_once(same: Same) -> None:
    assert injected(shared("vthread"), same)[:3] == [
        'B = allocate((4,), "float32", "local")',
        "for j in range(4):",
        "  B[j] = A[j] + 1.0",
    ]


def test_cthreads_share_nothing(same: Same) -> None:
    assert injected(shared("cthread"), same)[:4] == [
        'B = allocate((2, 4), "float32", "local")',
        "for j in range(4):",
        "  B[j] = A[j] + 1.0",
        "  B[j + 4] = A[j] + 1.0",
    ]


def test_a_condition_on_the_thread_is_kept_around_its_statement(same: Same) -> None:
    f = threads("vthread", 7)
    assert injected(f, same)[1:5] == [
        "for i in range(4):",
        "  B[i] = A[i] + 1.0",
        "  if likely(i + 4 < 7):",
        "    B[i + 4] = A[i + 4] + 1.0",
    ]


def test_virtual_threads_inside_each_other_multiply(same: Same) -> None:
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 6), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    yo, yi = s[C].split(C.op.axis[0], nparts=2)
    xo, xi = s[C].split(C.op.axis[1], nparts=3)
    s[C].reorder(yo, xo, yi, xi)
    s[C].bind(yo, te.thread_axis("cthread"))
    s[C].bind(xo, te.thread_axis("cthread"))
    s[B].compute_at(s[C], xo)
    f = tvm.lower(s, [A, C], until="flatten")
    assert injected(f, same)[0] == 'B = allocate((2, 3, 2, 2), "float32", "local")'


def test_a_program_without_virtual_threads_stays_as_it_is() -> None:
    s, A, _, C = chain()
    f = tvm.lower(s, [A, C], until="flatten")
    assert inject_virtual_thread(f.body) is f.body


def test_a_reduction_is_done_by_all_threads_together(same: Same) -> None:
    A, k = te.placeholder((8, 5), name="A"), te.reduce_axis((0, 5), name="k")
    C = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    o, _ = s[C].split(C.op.axis[0], nparts=4)
    s[C].bind(o, te.thread_axis("vthread"))
    injected(tvm.lower(s, [A, C], until="flatten"), same)


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_virtual_threads_run_on_every_target(target: str) -> None:
    s, A, B, C = chain(10)
    o, i = s[C].split(C.op.axis[0], nparts=3)
    s[C].bind(o, te.thread_axis("vthread"))
    s[C].vectorize(i)
    s[B].compute_at(s[C], o)
    a, c = np.arange(10, dtype="float32"), np.zeros(10, "float32")
    tvm.build(s, [A, C], target=target)(a, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


# --- hardware threads ----------------------------------------------------------------------------


def gpu(scope: str, at_block: bool = False) -> tuple[te.Schedule, list[Any]]:
    """C = B * 2 on 4 blocks of 8 threads; B in `scope`, computed inside the threads or blocks."""
    s, A, B, C = chain(32)
    bx, tx = s[C].split(C.op.axis[0], factor=8)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], bx if at_block else tx)
    if scope:
        s[B].set_scope(scope)
    return s, [A, C]


def nest(s: te.Schedule, args: list[Any]) -> list[str]:
    return body(tvm.lower(s, args, until="nest"))


def test_shared_memory_holds_what_all_threads_need() -> None:
    assert nest(*gpu("shared"))[2:5] == [
        '    B = allocate((8,), "float32", "shared")',
        "    for i in range(8):",
        "      B[i] = A[i_outer*8 + i] + 1.0",
    ]


def test_local_memory_holds_what_one_thread_needs() -> None:
    assert nest(*gpu("local"))[2:4] == [
        '    B = allocate((1,), "float32", "local")',
        "    B[0] = A[i_outer*8 + i_inner] + 1.0",
    ]


@pytest.mark.parametrize(("at_block", "scope"), [(False, "local"), (True, "shared")])
def test_memory_that_nobody_chose_is_that_of_the_threads_around(at_block: bool, scope: str) -> None:
    assert f'"{scope}")' in "\n".join(nest(*gpu("", at_block)))


def test_bound_loops_compute_the_same_as_plain_ones() -> None:
    s, args = gpu("shared")
    a, c = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    interpret(tvm.lower(s, args, until="nest"), a, c)
    np.testing.assert_array_equal(c, (a + 1) * 2)


def refusal(call: Callable[[], Any], error: type[Exception] = LoweringError) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_local_memory_is_not_read_by_other_threads() -> None:
    s, args = gpu("local")
    s["B"].compute_root()
    assert refusal(lambda: tvm.lower(s, args)) == (
        "B in 'local' memory: C reads it in loop 'i.outer' bound to 'blockIdx.x', and each "
        "blockIdx.x has memory of its own\n"
        "  try: s[B].compute_at(..., i.outer), or set_scope('global')"
    )


def test_local_memory_of_a_block_holds_in_each_thread_what_all_threads_need() -> None:
    s, args = gpu("local", at_block=True)
    assert nest(s, args)[1:4] == [
        '  B = allocate((8,), "float32", "local")',
        "  for i in range(8):",
        "    B[i] = A[i_outer*8 + i] + 1.0",
    ]


@pytest.mark.parametrize("n", [64, 70, te.var("n")])
def test_a_stage_of_all_threads_reads_the_local_memory_of_one(n: Any) -> None:
    """TVM's test_bound_nest_thread: A1 in each thread, A2 in shared memory by all threads."""
    A = te.placeholder((n,), name="A")
    A1 = te.compute((n,), lambda i: A[i], name="A1")
    A2 = te.compute((n,), lambda i: A1[i] + 2.0, name="A2")
    A3 = te.compute((n,), lambda i: A2[i] + 3.0, name="A3")
    s = te.create_schedule(A3.op)
    s[A2].set_scope("shared")
    s[A1].set_scope("local")
    bx, tx = s[A3].split(A3.op.axis[0], factor=32)
    s[A3].bind(bx, te.thread_axis("blockIdx.x"))
    s[A3].bind(tx, te.thread_axis("threadIdx.x"))
    s[A2].compute_at(s[A3], tx)
    _, xi = s[A2].split(A2.op.axis[0], nparts=1)
    s[A2].bind(xi, te.thread_axis("threadIdx.x"))
    s[A1].compute_at(s[A3], tx)
    a = np.random.default_rng(0).random(70 if not isinstance(n, int) else n, "float32")
    out = np.zeros_like(a)
    interpret(tvm.lower(s, [A, A3]), a, out, flat=True)
    np.testing.assert_allclose(out, a + 5, rtol=1e-6)


def test_a_thread_has_one_range_in_a_kernel() -> None:
    s, args = gpu("shared", at_block=True)
    o, _ = s["B"].split(s["B"].op.axis[0], nparts=4)
    s["B"].bind(o, te.thread_axis("threadIdx.x"))
    assert refusal(lambda: tvm.lower(s, args)) == (
        "loop 'i.inner' bound to 'threadIdx.x': it has 8 iterations, but loop 'i.outer', bound to "
        "the same index in the same kernel, has 4\n"
        "  try: split both by the same nparts, and bind the outer parts"
    )


def test_kernels_after_one_another_may_differ() -> None:
    s, A, B, C = chain(32)
    for t, n in ((B, 4), (C, 8)):
        o, _ = s[t].split(t.op.axis[0], nparts=n)
        s[t].bind(o, te.thread_axis("threadIdx.x"))
    assert "bind(4, 'threadIdx.x')" in str(tvm.lower(s, [A, C]))


def test_a_stage_has_as_many_threads_as_were_said() -> None:
    s, A, B, C = chain(32)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 8)[0])
    s[B].bind(B.op.axis[0], te.thread_axis((0, 4), "threadIdx.x"))
    assert refusal(lambda: tvm.lower(s, [A, C])) == (
        "bind of 'i' in B: 4 threads for 8 iterations; each runs one\n"
        "  try: split(..., nparts=4) and bind the outer loop"
    )


def test_threads_without_work_stay() -> None:
    s, A, B, C = chain(32)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 8)[0])
    s[B].set_scope("shared")
    o, _ = s[B].split(B.op.axis[0], nparts=16)
    s[B].bind(o, te.thread_axis("threadIdx.x"))
    assert "    if likely(i_outer_1 < 8):" in nest(s, [A, C])


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_a_cpu_has_no_hardware_threads(target: str) -> None:
    s, args = gpu("local")
    assert refusal(lambda: tvm.build(s, args, target=target), BuildError) == (
        "loop 'i.outer' bound to 'blockIdx.x': a CPU has no hardware threads\n"
        "  try: parallel() in place of bind(), te.thread_axis('vthread'), "
        "or tir.interpret(program, ...)"
    )


# --- memory of one thread, and of a warp ----------------------------------------------------------


def copied(scope: str, n: int, loop: int, threads: int | None = None, shift: int = 0) -> PrimFunc:
    """Rows read backwards through a copy in `scope` whose loop is bound to threadIdx.x, too."""
    A = te.placeholder((4, n + shift), name="A")
    C = te.compute((4, n), lambda i, j: A[i, n - 1 - j] + A[i, n - 1 - j + shift], name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, scope, [C])
    tx = te.thread_axis(None if threads is None else (0, threads), "threadIdx.x")
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], tx)
    s[AA].compute_at(s[C], C.op.axis[loop])
    s[AA].bind(s[AA].op.axis[1], tx)
    return tvm.lower(s, [A, C], simple_mode=True)


@pytest.mark.parametrize("threads", [None, 16])
def test_a_thread_computes_its_own_part_in_a_loop_bound_to_it(threads: int | None) -> None:
    assert str(copied("local", 16, 1, threads)).splitlines()[1:] == [
        "  for i in bind(4, 'blockIdx.x'):",
        "    for j in bind(16, 'threadIdx.x'):",
        '      A_local = allocate((1, 1), "float32", "local")',
        "      A_local[0, 0] = A[i, 15 - j]",
        "      C[i, j] = A_local[0, 0] + A_local[0, 0]",
    ]


def test_threads_do_not_share_the_work_on_what_each_has_for_itself() -> None:
    assert refusal(lambda: copied("local", 16, 1, shift=1)) == (
        "loop 'ax1' of A.local bound to 'threadIdx.x': A.local is in 'local' memory, and each "
        "threadIdx.x has memory of its own\n"
        "  try: set_scope('shared' or 'global'), or do not bind it"
    )


def test_the_threads_of_a_warp_share_its_memory() -> None:
    assert str(copied("warp", 32, 0)).splitlines()[1:] == [
        "  for i in bind(4, 'blockIdx.x'):",
        '    A_warp = allocate((1, 32), "float32", "warp")',
        "    for ax1 in bind(32, 'threadIdx.x'):",
        "      A_warp[0, ax1] = A[i, ax1]",
        "    for j in bind(32, 'threadIdx.x'):",
        "      C[i, j] = A_warp[0, 31 - j] + A_warp[0, 31 - j]",
    ]


def test_memory_of_a_warp_serves_32_threads() -> None:
    assert refusal(lambda: copied("warp", 64, 0)) == (
        "A.warp in 'warp' memory: loop 'ax1' bound to 'threadIdx.x' has 64 iterations, and a warp "
        "is 32 threads\n  try: bind at most 32 iterations to threadIdx.x, or set_scope('shared')"
    )


@pytest.mark.parametrize(("scope", "loop"), [("local", 1), ("warp", 0), ("warp", 1)])
def test_copies_for_one_thread_or_a_warp_have_the_right_values(scope: str, loop: int) -> None:
    a, c = np.arange(64, dtype="float32").reshape(4, 16), np.zeros((4, 16), "float32")
    interpret(copied(scope, 16, loop), a, c)
    np.testing.assert_array_equal(c, a[:, ::-1] * 2)
