"""Vectors and their masks, register tiles, heap memory and parallel loops as machine code."""

import mmap
import platform
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import BOOL, DTYPES, FLOAT32, INT8, INT32, host
from minitvm.codegen import emit_llvm
from minitvm.tir import (
    Allocate,
    Buffer,
    Const,
    For,
    If,
    PrimFunc,
    Store,
    Var,
    all_of,
    cast_to,
    const,
    floordiv,
    floormod,
    if_then_else,
    index,
    interpret,
    lane,
    load,
    maximum,
    seq,
)

from .conftest import Run, floats, numbers, variable

i, j, n = variable("i", 1000), variable("j", 1000), Var("n", 0)
A, C, where = floats("A", 64), floats("C", 64), Buffer("where", (64,), INT32)


# --- vectors ------------------------------------------------------------------------------------


@pytest.fixture
def cliff() -> Callable[[int], np.ndarray[Any, Any]]:
    """cliff(size): float32 zeros; touching what follows the last one ends the process."""
    if platform.system() != "Linux":
        pytest.skip("needs mprotect of a page")
    import ctypes

    def make(size: int) -> np.ndarray[Any, Any]:
        memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
        start = np.frombuffer(memory, np.uint8).ctypes.data
        last = ctypes.c_void_p(start + 2 * mmap.PAGESIZE)
        assert ctypes.CDLL(None).mprotect(last, mmap.PAGESIZE, 0) == 0
        end = 2 * mmap.PAGESIZE
        return np.frombuffer(memory, np.float32, size, end - 4 * size)

    return make


def test_a_masked_tail_touches_nothing_behind_the_end(machine: Run, cliff: Any) -> None:
    v = variable("v", 3)
    at = v * 16 + lane(16)
    x, y = floats("X", 37), floats("Y", 37)
    tail = For(v, 3, If(at < 37, Store(y, (at,), load(x, at) * 2.0), likely=True))
    a, c = cliff(37), cliff(37)
    a[:] = numbers(37)
    machine(PrimFunc("main", (x, y), tail, (y,)), a, c)
    np.testing.assert_array_equal(c, a * 2)


def test_a_symbolic_masked_tail_stores_no_lane_too_many(machine: Run) -> None:
    v = variable("v", 1000)
    at = v * 16 + lane(16)
    x, y = floats("X", n), floats("Y", n)
    body = For(v, (n + 15) // 16, If(at < n, Store(y, (at,), load(x, at) * 2.0)))
    a, c = numbers(64), np.full(64, 9, np.float32)
    machine(PrimFunc("main", (n, x, y), body, (y,)), 37, a, c)
    np.testing.assert_array_equal(c, np.concatenate([a[:37] * 2, np.full(27, 9)]))


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, -1, -2, -3, -7])
def test_vectors_of_every_stride(machine: Run, cliff: Any, stride: int) -> None:
    span = abs(stride) * 7 + 1
    first = 0 if stride > 0 else span - 1
    x, y, z = floats("X", span), floats("Y", 8), floats("Z", span)
    at = lane(8) * stride + first
    body = seq(Store(y, (lane(8),), load(x, at)), Store(z, (at,), load(x, at)))
    a, b, c = cliff(span), np.zeros(8, np.float32), cliff(span)
    a[:] = numbers(span)
    machine(PrimFunc("main", (x, y, z), body, (y, z)), a, b, c)
    np.testing.assert_array_equal(b, a[::stride][:8])
    np.testing.assert_array_equal(c[::stride], a[::stride])
    assert np.count_nonzero(c) == 8


@pytest.mark.parametrize("stride", [-1, 2])
def test_masked_vectors_of_other_strides(machine: Run, stride: int) -> None:
    first = 0 if stride > 0 else 7
    at = lane(8) * stride + first
    body = If(lane(8) < n, Store(C, (at,), load(A, at)))
    a, c = numbers(64), np.zeros(64, np.float32)
    machine(PrimFunc("main", (n, A, C), body, (C,)), 3, a, c)
    on = first + stride * np.arange(3)
    np.testing.assert_array_equal(c[on], a[on])
    assert np.count_nonzero(c) == 3


@pytest.mark.parametrize("stride", [2, 3])
def test_masked_vectors_of_other_strides_touch_nothing_past_the_end(
    machine: Run, cliff: Any, stride: int
) -> None:
    x, y = floats("X", 2 * stride + 1), floats("Y", 8)
    body = If(lane(8) < n, Store(y, (lane(8),), load(x, lane(8) * stride)))
    a, c = cliff(2 * stride + 1), np.zeros(8, np.float32)
    a[:] = numbers(2 * stride + 1)
    machine(PrimFunc("main", (n, x, y), body, (y,)), 3, a, c)
    np.testing.assert_array_equal(c, np.append(a[::stride], np.zeros(5)))


def test_gather_and_scatter_through_data(machine: Run) -> None:
    at = index(load(where, lane(16)))
    body = If(load(where, lane(16)) < 64, Store(C, (at,), load(A, 63 - at)))
    order = np.random.default_rng(0).permutation(128)[:64].astype(np.int32)
    a, c = numbers(64), np.zeros(64, np.float32)
    machine(PrimFunc("main", (A, where, C), body, (C,)), a, order, c)
    inside = order[:16][order[:16] < 64]
    np.testing.assert_array_equal(c[inside], a[63 - inside])
    assert np.count_nonzero(c) == len(inside)


def test_a_vector_condition_guards_scalar_loads_and_stores(machine: Run) -> None:
    far = n * 1_000_000_000  # no such element, unless n is 0
    value = load(A, lane(8)) + load(A, far)
    body = If(lane(8) < 4 - n, seq(Store(C, (lane(8),), value), Store(C, (far + 63,), const(5.0))))
    f = PrimFunc("main", (n, A, C), body, (C,))
    a, c = numbers(64), np.zeros(64, np.float32)
    machine(f, 4, a, c)
    assert not c.any()
    machine(f, 0, a, c)
    np.testing.assert_array_equal(c[:8], np.append(a[:4] + a[0], np.zeros(4)))
    assert c[63] == 5


def test_vector_conditions_nest_and_have_an_else(machine: Run) -> None:
    at = lane(16)

    def mark(value: float) -> Store:
        return Store(C, (at,), const(value))

    body = If(at < 8, If(at >= 4, mark(1.0), mark(2.0)), mark(3.0))
    c = np.zeros(64, np.float32)
    machine(PrimFunc("main", (C,), body, (C,)), c)
    assert c[:16].tolist() == [2] * 4 + [1] * 4 + [3] * 8


def test_vector_padding_reads_only_inside(machine: Run, cliff: Any) -> None:
    at = lane(16)
    x = floats("X", 10)
    padded = if_then_else(all_of(at >= 3, at < 13), load(x, at - 3), const(-1.0))
    a, c = cliff(10), np.zeros(64, np.float32)
    a[:] = numbers(10)
    machine(PrimFunc("main", (x, C), Store(C, (at,), padded), (C,)), a, c)
    np.testing.assert_array_equal(c[:16], np.pad(a, 3, constant_values=-1))


def test_bools_are_bytes_in_memory(machine: Run) -> None:
    D, E = Buffer("D", (64,), BOOL), Buffer("E", (64,), BOOL)
    at = lane(64)
    body = seq(Store(D, (at,), load(A, at) > 0.0), Store(E, (at,), all_of(load(D, at), at < 32)))
    a, d, e = numbers(64), np.zeros(64, bool), np.zeros(64, bool)
    machine(PrimFunc("main", (A, D, E), body, (D, E)), a, d, e)
    np.testing.assert_array_equal(d, a > 0)
    np.testing.assert_array_equal(e, (a > 0) & (np.arange(64) < 32))


def test_index_arithmetic_on_lanes(machine: Run) -> None:
    D = Buffer("D", (64,), INT32)
    x = lane(16) * 5 - i * 9
    body = seq(
        Store(D, (lane(16),), Const(0, INT32) + floordiv(x, 7)),
        Store(D, (lane(16) + 16,), Const(0, INT32) + floormod(x, 7)),
        Store(D, (lane(16) + 32,), Const(0, INT32) + floordiv(x + 9000, n)),
        Store(D, (lane(16) + 48,), Const(0, INT32) + maximum(x, floormod(lane(16) * 7, 5))),
    )
    f = PrimFunc("main", (n, D), For(i, 3, body), (D,))
    got, expected = np.zeros(64, np.int32), np.zeros(64, np.int32)
    machine(f, 5, got)
    interpret(f, 5, expected)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d is not BOOL], ids=str)
@pytest.mark.parametrize("lanes", [3, 16, 64])
def test_vectors_of_every_type_and_width(machine: Run, dtype: Any, lanes: int) -> None:
    x, y = Buffer("X", (64,), dtype), Buffer("Y", (64,), dtype)
    a, c = np.arange(64).astype(dtype.numpy), np.zeros(64, dtype.numpy)
    store = Store(y, (lane(lanes),), load(x, lane(lanes)) + load(x, 1))
    machine(PrimFunc("main", (n, x, y), If(lane(lanes) < n, store), (y,)), 40, a, c)
    np.testing.assert_array_equal(c, np.where(np.arange(64) < min(lanes, 40), a + a[1], 0))


def test_one_constant_lane_of_a_truncated_vector_stores_only_its_bytes(machine: Run) -> None:
    D, E = Buffer("D", (64,), INT32), Buffer("E", (64,), INT8)
    body = If(lane(16) < 1, Store(E, (lane(16),), cast_to(load(D, lane(16)), INT8)))
    d, e = np.full(64, 0x01020304, np.int32), np.zeros(64, np.int8)
    machine(PrimFunc("main", (D, E), body, (E,)), d, e)
    assert e.tolist() == [4] + [0] * 63


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("target", ["llvm", "llvm -mattr=-avx512f"])
def test_no_half_of_a_long_vector_is_read_outside(dtype: str, target: str) -> None:
    flags = te.placeholder((4,), "int32", name="flags")
    x = te.placeholder((4, 16), dtype, name="x")

    def moved(i: Any, j: Any) -> Any:
        inside = te.all(flags[i] > 0, j >= 8)
        return te.if_then_else(inside, x[i, j - 8], te.const(0, dtype))

    c = te.compute((4, 16), moved, name="c")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    a, got = np.arange(1, 65).reshape(4, 16).astype(dtype), np.full((4, 16), 99, dtype)
    tvm.build(s, [flags, x, c], target)(np.array([0, 1, 1, 0], "int32"), a, got)
    want = np.zeros_like(a)
    want[1:3, 8:] = a[1:3, :8]
    np.testing.assert_array_equal(got, want)


# --- registers ----------------------------------------------------------------------------------


def register_tile(rows: int, vectors: int, guard: bool = False) -> PrimFunc:
    """C = A @ B for one tile of C, kept in a local buffer while k runs over 100 elements."""
    across = 16 * vectors
    x, y, z = floats("A", rows, 100), floats("B", 100, across), floats("C", rows, across)
    tile = floats("tile", rows, across, scope="local")
    k = variable("k", 100)
    places = [
        (r, 16 * v, r * across + 16 * v + lane(16)) for r in range(rows) for v in range(vectors)
    ]
    update = [
        Store(
            tile, (at,), load(tile, at) + load(x, r * 100 + k) * load(y, k * across + v + lane(16))
        )
        for r, v, at in places
    ]
    if guard:
        update = [If(v + lane(16) < n, s) for (_, v, _), s in zip(places, update, strict=True)]
    body = seq(
        *(Store(tile, (at,), const(0.0)) for _, _, at in places),
        For(k, 100, seq(*update)),
        *(Store(z, (at,), load(tile, at)) for _, _, at in places),
    )
    return PrimFunc("main", (n, x, y, z), Allocate(tile, body), (z,))


def test_a_register_tile_computes_the_product(machine: Run) -> None:
    a, b, c = numbers(6, 100), numbers(100, 64), np.zeros((6, 64), np.float32)
    machine(register_tile(6, 4), 0, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_register_tile_leaves_no_memory_access_but_operands_in_its_loop(assembly: Any) -> None:
    if host().vector_bytes < 64:
        pytest.skip("the tile is made for 32 registers of 16 floats")
    text = assembly(emit_llvm(register_tile(6, 4), vector_bytes=64))
    loops = re.findall(r"^(\.LBB\d+_\d+):((?:(?!^\.LBB).)*?j\w+\s+\1)$", text, re.M | re.S)
    (inner,) = (body for _, body in loops if "vfmadd" in body)
    assert inner.count("vfmadd") % 24 == 0
    assert not re.search(r"vmovups\s+%zmm\d+, |rsp|rbp", inner)  # no store, no stack


def test_masked_updates_of_a_local_tile_stay_in_registers(assembly: Any) -> None:
    text = assembly(emit_llvm(register_tile(2, 2, guard=True), vector_bytes=64))
    assert "rsp" not in text or host().vector_bytes < 64


# --- out of memory, parallel loops --------------------------------------------------------------


def hungry(kind: Any) -> PrimFunc:
    """Needs n elements of memory in each iteration of a loop."""
    t = floats("t", n)
    fill = For(j, n, Store(t, (j,), load(A, i) + cast_to(j, FLOAT32)))
    body = Allocate(t, seq(fill, Store(C, (i,), load(t, floormod(index(load(where, i)), n)))))
    return PrimFunc("main", (n, where, A, C), For(i, 64, body, kind), (C,))


def test_too_little_memory_is_status_1(machine: Run) -> None:
    a, c, zeros = numbers(64), np.zeros(64, np.float32), np.zeros(64, np.int32)
    assert machine(hungry("serial"), 1 << 58, zeros, a, c) == 1
    assert machine(hungry("serial"), 10, zeros, a, c) == 0
    np.testing.assert_array_equal(c, a)


def in_threads(body: Callable[[int, int], None], extent: int) -> None:
    """Run chunks of three iterations, each in a thread of its own."""
    threads = [
        threading.Thread(target=body, args=(b, min(b + 3, extent))) for b in range(0, extent, 3)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_parallel_loops_run_in_chunks(machine: Run) -> None:
    x, y = floats("X", 20, 30), floats("Y", 20, 30)
    row = For(j, 30, Store(y, (i * 30 + j,), load(x, i * 30 + j) * 2.0))
    f = PrimFunc("main", (x, y), For(i, 20, row, "parallel"), (y,))
    a, c = numbers(20, 30), np.zeros((20, 30), np.float32)
    assert machine(f, a, c, launch=in_threads) == 0
    np.testing.assert_array_equal(c, a * 2)


def test_parallel_bodies_see_loops_sizes_and_memory_around_them(machine: Run) -> None:
    t, u = floats("t", n), floats("u", n)
    outer, v = variable("o", 4), variable("v", 4)
    at = outer * 16 + i
    work = Allocate(u, seq(Store(u, (0,), load(t, i)), Store(C, (at,), load(u, 0))))
    fill = For(v, n, Store(t, (v,), load(A, outer * 16 + v)))
    body = For(outer, 4, Allocate(t, seq(fill, For(i, n, work, "parallel"))))
    f = PrimFunc("main", (n, A, C), body, (C,))
    a, c = numbers(64), np.zeros(64, np.float32)
    assert machine(f, 16, a, c, launch=in_threads) == 0
    np.testing.assert_array_equal(c, a)


def test_a_parallel_loop_inside_another_is_serial(machine: Run) -> None:
    launches: list[int] = []

    def launch(body: Callable[[int, int], None], extent: int) -> None:
        launches.append(extent)
        body(0, extent)

    inner = For(j, 8, Store(C, (i * 8 + j,), const(1.0)), "parallel")
    f = PrimFunc("main", (C,), For(i, 8, inner, "parallel"), (C,))
    c = np.zeros(64, np.float32)
    machine(f, c, launch=launch)
    assert c.all()
    assert launches == [8]


def test_an_empty_parallel_loop_is_not_launched(machine: Run) -> None:
    f = PrimFunc("main", (n, C), For(i, n, Store(C, (i,), const(1.0)), "parallel"), (C,))
    c = np.zeros(64, np.float32)
    assert machine(f, 0, c, launch=lambda body, extent: pytest.fail("launched")) == 0


def test_too_little_memory_in_a_thread_is_status_1(machine: Run) -> None:
    a, c, zeros = numbers(64), np.zeros(64, np.float32), np.zeros(64, np.int32)
    assert machine(hungry("parallel"), 1 << 58, zeros, a, c, launch=in_threads) == 1
    assert machine(hungry("parallel"), 10, zeros, a, c, launch=in_threads) == 0


def test_a_large_buffer_leaves_the_stack_to_local_ones() -> None:
    large, tile = floats("large", 1 << 14), floats("tile", 64, scope="local")
    body = seq(Store(tile, (0,), const(1.0)), Store(large, (0,), load(tile, 0)))
    f = PrimFunc("f", (C,), Allocate(large, Allocate(tile, body)), (C,))
    text = emit_llvm(f)
    assert "%tile = alloca [64 x float]" in text
    assert text.count("call ptr @malloc") == 1
