"""The simulated GPU: values, every kind of fault, and what accesses cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm import simt, tir
from minitvm.base import dtype

F32, I32 = dtype("float32"), dtype("int32")
X = tir.Buffer("X", (128,), F32)
OUT = tir.Buffer("Out", (64,), F32)
T = tir.Buffer("T", (1,), F32, "local")
S = tir.Buffer("S", (32,), F32, "shared")
BARRIER = tir.Evaluate(tir.Call("syncthreads", (), I32))
TX = tir.Var("tx", 0, 31)


def threads(body: tir.Stmt, n: int = 32, var: tir.Var = TX, tag: str = "threadIdx.x") -> tir.Stmt:
    return tir.For(var, n, body, "bind", tag)


def at(b: tir.Buffer, i: tir.Index) -> tir.Load:
    return tir.Load(b, (i,), b.dtype)


def put(b: tir.Buffer, i: tir.Index, value: tir.Expr) -> tir.Store:
    return tir.Store(b, (i,), value)


def run(body: tir.Stmt, **options: Any) -> tuple[simt.Report, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).random(128, dtype=np.float32)
    out = np.zeros(64, np.float32)
    report = simt.run(tir.PrimFunc("f", (X, OUT), body, (OUT,)), [x, out], **options)
    return report, x, out


def only_fault(body: tir.Stmt) -> simt.Fault:
    (fault,) = run(body)[0].faults
    return fault


def reversed_in_shared(*between: tir.Stmt) -> tir.Stmt:
    """Each thread writes an element of S and reads that of another thread."""
    write, read = put(S, TX, at(X, TX)), put(OUT, TX, at(S, 31 - TX))
    return threads(tir.Allocate(S, tir.seq(write, *between, read)))


# --- values --------------------------------------------------------------------------------------


def test_threads_exchange_values_through_shared_memory() -> None:
    report, x, out = run(reversed_in_shared(BARRIER))
    assert report.ok
    np.testing.assert_array_equal(out[:32], x[31::-1])


def test_the_iterations_of_a_loop_may_differ_between_threads() -> None:
    k = tir.Var("k", 0, 31)
    add = tir.For(k, tir.add(TX, 1), put(T, 0, at(T, 0) + at(X, k)))
    body = tir.seq(put(T, 0, tir.const(0, F32)), add, put(OUT, TX, at(T, 0)))
    report, x, out = run(threads(tir.Allocate(T, body)))
    assert report.ok
    np.testing.assert_allclose(out[:32], np.cumsum(x[:32]), rtol=1e-5)


def test_threads_may_take_different_ways() -> None:
    body = tir.If(tir.compare("<", TX, 5), put(OUT, TX, at(X, TX)), put(OUT, TX, at(X, TX + 32)))
    report, x, out = run(threads(body))
    assert report.ok
    np.testing.assert_array_equal(out[:32], [*x[:5], *x[37:64]])


def butterfly() -> list[tir.Stmt]:
    v = at(T, 0)
    return [
        put(T, 0, v + tir.Call("shfl_xor", (v, tir.Const(n, I32)), F32)) for n in (16, 8, 4, 2, 1)
    ]


def test_shuffles_add_over_a_warp() -> None:
    body = tir.seq(put(T, 0, at(X, TX)), *butterfly(), put(OUT, TX, at(T, 0)))
    report, x, out = run(threads(tir.Allocate(T, body)))
    assert report.ok
    np.testing.assert_allclose(out[:32], np.full(32, x[:32].sum()), rtol=1e-5)


def test_blocks_run_in_batches_and_see_what_kernels_before_wrote() -> None:
    big = tir.Buffer("Big", (1 << 16,), F32)
    bx = tir.Var("bx", 0, 2047)
    i = tir.add(tir.mul(bx, 32), TX)
    fill = threads(threads(put(big, i, tir.cast_to(i, "float32"))), 2048, bx, "blockIdx.x")
    add = threads(
        threads(put(big, i, at(big, 65535 - i) + tir.const(1, F32))), 2048, bx, "blockIdx.x"
    )
    func = tir.PrimFunc("two", (big,), tir.seq(fill), (big,))
    values = np.zeros(1 << 16, np.float32)
    assert simt.run(func, [values]).ok
    np.testing.assert_array_equal(values, np.arange(1 << 16))
    racing = simt.run(tir.PrimFunc("race", (big,), add, (big,)), [values])
    assert {f.kind for f in racing.faults} & {"read after write", "write after read"}


# --- faults --------------------------------------------------------------------------------------


def test_a_missing_barrier_is_found_although_the_values_are_right() -> None:
    report, x, out = run(reversed_in_shared())
    np.testing.assert_array_equal(out[:32], x[31::-1])  # threads run in lockstep here
    (fault,) = report.races
    assert str(fault) == (
        "read after write: S[31 - tx] in block 0, thread 0, and S[tx] = X[tx] in block 0, "
        "thread 31; no barrier orders their accesses of shared S[31]"
    )


def test_a_read_before_the_next_write_is_a_race_too() -> None:
    k = tir.Var("k", 0, 3)
    body = tir.seq(put(S, TX, at(X, TX + k * 32)), BARRIER, put(OUT, TX, at(S, 31 - TX)))
    fault = only_fault(threads(tir.Allocate(S, tir.For(k, 4, body))))
    assert (fault.kind, fault.other) == ("write after read", "S[31 - tx]")


@pytest.mark.parametrize(
    ("value", "kind", "harmless"),
    [(at(X, TX), "write after write", False), (tir.const(1, F32), "redundant writes", True)],
)
def test_threads_that_write_one_element_race_unless_the_value_is_equal(
    value: tir.Expr, kind: str, harmless: bool
) -> None:
    report, *_ = run(threads(put(OUT, 0, value)))
    (fault,) = report.kernels[0].faults
    assert (fault.kind, fault.harmless) == (kind, harmless)
    assert report.ok is harmless


def test_no_barrier_orders_blocks() -> None:
    bx = tir.Var("bx", 0, 3)
    write = put(OUT, TX, at(X, tir.add(tir.mul(bx, 32), TX)))
    fault = only_fault(threads(threads(write), 4, bx, "blockIdx.x"))
    assert fault.kind == "write after write"


def test_a_barrier_in_a_divergent_condition_is_found() -> None:
    fault = only_fault(threads(tir.If(tir.compare("<", TX, 8), BARRIER)))
    assert str(fault) == (
        "divergent barrier: syncthreads() inside if tx < 8; reached by 8 of 32 threads of block 0"
    )


def test_a_barrier_in_a_loop_of_divergent_length_is_found() -> None:
    k = tir.Var("k", 0, 31)
    fault = only_fault(threads(tir.For(k, tir.add(TX, 1), BARRIER)))
    assert fault.kind == "divergent barrier"
    assert "for k in range(tx + 1)" in fault.access


def test_an_access_out_of_bounds_ends_the_launch() -> None:
    report, _, out = run(threads(tir.seq(put(OUT, TX, at(X, TX * 5)), put(OUT, TX, at(X, TX)))))
    (fault,) = report.faults
    assert (fault.kind, fault.detail) == (
        "out of bounds",
        "X has elements 0 to 127, this is 130",
    )
    assert fault.thread == "block 0, thread 26"
    assert not out.any()


def test_memory_that_no_thread_has_written_is_not_read_unnoticed() -> None:
    only_some = tir.If(tir.compare("<", TX, 31), put(S, TX, at(X, TX)))
    body = threads(tir.Allocate(S, tir.seq(only_some, BARRIER, put(OUT, TX, at(S, TX)))))
    assert only_fault(body).kind == "read before it is written"
    assert np.isnan(run(body)[2][31])


def test_a_shuffle_needs_all_lanes() -> None:
    body = tir.seq(put(T, 0, at(X, TX)), tir.If(tir.compare("<", TX, 20), tir.seq(*butterfly())))
    faults = run(threads(tir.Allocate(T, body)))[0].faults
    assert {f.kind for f in faults} == {"shuffle from an inactive lane"}


def test_a_barrier_of_warps_orders_only_the_memory_of_warps() -> None:
    warp = tir.Buffer("W", (32,), F32, "warp")
    sync = tir.Evaluate(tir.Call("syncwarp", (), I32))
    exchange = tir.seq(put(warp, TX, at(X, TX)), sync, put(OUT, TX, at(warp, 31 - TX)))
    report, x, out = run(threads(tir.Allocate(warp, exchange)))
    assert report.ok
    np.testing.assert_array_equal(out[:32], x[31::-1])
    assert only_fault(reversed_in_shared(sync)).kind == "read after write"


def test_as_many_threads_must_run_as_the_loops_say() -> None:
    func = tir.PrimFunc("f", (X, OUT), threads(put(OUT, TX, at(X, TX))), (OUT,))
    arrays = [np.zeros(128, np.float32), np.zeros(64, np.float32)]
    report = simt.run(func, arrays, launch=simt.Launch(block=(16, 1, 1)))
    assert str(report.faults[0]) == (
        "wrong number of threads: loop tx bound to threadIdx.x; "
        "it has 32 iterations, but 16 threads run"
    )


def test_more_threads_than_the_loops_have_iterations() -> None:
    func = tir.PrimFunc("f", (X, OUT), threads(put(OUT, TX, at(X, TX))), (OUT,))
    arrays = [np.zeros(128, np.float32), np.zeros(64, np.float32)]
    (fault,) = simt.run(func, arrays, launch=simt.Launch(block=(64, 1, 1))).faults
    assert (fault.kind, fault.detail) == (
        "wrong number of threads",
        "it has 32 iterations, but 64 threads run",
    )


def test_blocks_that_write_one_element_race_unless_the_value_is_equal() -> None:
    bx = tir.Var("bx", 0, 3)
    for value, harmless in ((at(X, tir.mul(bx, 32)), False), (tir.const(2, F32), True)):
        report, *_ = run(tir.For(bx, 4, put(OUT, 5, value), "bind", "blockIdx.x"))
        (fault,) = report.kernels[0].faults
        assert fault.kind == ("redundant writes" if harmless else "write after write")
        assert fault.harmless is harmless
        assert "Out[5]" in fault.detail


def test_a_shift_in_place_is_a_race() -> None:
    fault = only_fault(threads(put(OUT, TX, at(OUT, TX + 1))))
    assert (fault.kind, fault.access) == ("write after read", "Out[tx] = Out[tx + 1]")
    assert (fault.other, fault.thread) == ("Out[tx + 1]", "block 0, thread 1")
    assert fault.other_thread == "block 0, thread 0"


def test_threads_that_add_to_one_element_race() -> None:
    faults = run(threads(put(OUT, 0, at(OUT, 0) + at(X, TX))))[0].faults
    assert {f.kind for f in faults} == {"write after read", "write after write"}
    assert all(f.access == "Out[0] = Out[0] + X[tx]" for f in faults)


def test_one_block_needs_no_loop_over_blocks() -> None:
    write, read = threads(put(S, TX, at(X, TX))), threads(put(OUT, TX, at(S, 31 - TX)))
    report, x, out = run(tir.Allocate(S, tir.seq(write, BARRIER, read)))
    assert report.ok
    assert len(report.kernels) == 1
    np.testing.assert_array_equal(out[:32], x[31::-1])


# --- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "sectors", "useful"),
    [
        (lambda t: t, 4, 1.0),  # 32 adjacent floats fill 4 sectors of 32 bytes
        (lambda t: t + 1, 5, 0.8),  # not aligned
        (lambda t: t * 2, 8, 0.5),
        (lambda t: t * 4 % 128, 16, 0.25),
        (lambda t: tir.index(0), 1, 0.125),  # all lanes read the same element
    ],
)
def test_sectors_of_global_memory(
    index: Callable[[tir.Var], tir.Index], sectors: int, useful: float
) -> None:
    report, *_ = run(threads(put(OUT, TX, at(X, index(TX)))))
    load = report.kernels[0].accesses[0]
    assert load.requests == 1
    assert load.sectors_per_request == sectors
    assert load.useful == useful


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(1, 1), (2, 2), (4, 4), (32, 32), (33, 1), (0, 1)]
)
def test_wavefronts_of_shared_memory(stride: int, wavefronts: int) -> None:
    wide = tir.Buffer("S", (32 * 33,), F32, "shared")
    body = threads(tir.Allocate(wide, put(wide, TX * stride, at(X, TX))))
    (access,) = [a for a in run(body)[0].kernels[0].accesses if a.space == "shared"]
    assert access.wavefronts_per_request == wavefronts


def test_a_vectorized_loop_is_one_wide_access() -> None:
    v, t = tir.Var("v", 0, 3), tir.Var("tx", 0, 15)
    copy = tir.For(v, 4, put(OUT, t * 4 + v, at(X, t * 4 + v)), "vectorize")
    load = run(threads(copy, 16, t))[0].kernels[0].accesses[0]
    assert (load.requests, load.sectors, load.runs) == (1, 8, 1)


def test_a_report_is_a_table() -> None:
    report, *_ = run(reversed_in_shared(BARRIER))
    assert str(report).splitlines() == [
        "f: 1 block of 32 threads, 1 barrier",
        "  access                memory  threads  sectors/request  useful  wavefronts/request",
        "  X[tx]                 global       32              4.0    100%",
        "  S[tx] = X[tx]         shared       32                                          1.0",
        "  S[31 - tx]            shared       32                                          1.0",
        "  Out[tx] = S[31 - tx]  global       32              4.0    100%",
    ]


def test_counting_and_looking_for_races_can_be_left_out() -> None:
    report, *_ = run(reversed_in_shared(), races=False, counters=False)
    assert report.ok
    assert not any(a.runs for a in report.kernels[0].accesses)


# --- what is watched -----------------------------------------------------------------------------


def test_each_counted_access_is_shown_in_order() -> None:
    seen: list[simt.Executed] = []
    report, *_ = run(reversed_in_shared(BARRIER), watch=seen.append)
    (kernel,) = report.kernels
    assert [kernel.accesses[e.number].access for e in seen] == [
        "X[tx]", "S[tx] = X[tx]", "S[31 - tx]", "Out[tx] = S[31 - tx]"
    ]  # fmt: skip
    assert [isinstance(e.node, tir.Load) for e in seen] == [True, False, True, False]
    assert seen[2].index.tolist() == list(range(31, -1, -1))
    assert [set(e.passed.tolist()) for e in seen] == [{0}, {0}, {1}, {1}]
    assert all(e.threads.tolist() == list(range(32)) for e in seen)


def test_a_race_says_which_element() -> None:
    fault = run(reversed_in_shared())[0].faults[0]
    assert fault.buffer is not None
    assert (fault.buffer.name, fault.element) == ("S", 31)
