"""Small programs with schedules for a GPU, each with its meaning in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from minitvm import te, tir

Array = np.ndarray[Any, Any]


class Program(NamedTuple):
    """A schedule, its arguments (the last one is the output), and the output in numpy."""

    schedule: te.Schedule
    args: Sequence[te.Tensor]
    meaning: Callable[..., Array]

    def arrays(self) -> list[Array]:
        rng = np.random.default_rng(0)
        return [rng.integers(-4, 5, t.shape).astype(np.float32) for t in self.args[:-1]]


def thread(tag: str, extent: int | None = None) -> te.IterVar:
    return te.thread_axis(tag) if extent is None else te.thread_axis((0, extent), tag)


def bind(s: te.Schedule, stage: te.Tensor, **loops: Any) -> None:
    """Bind loops: bind(s, C, bx=i, ty=j)."""
    for short, loop in loops.items():
        tag = {"b": "blockIdx.", "t": "threadIdx."}[short[0]] + short[1]
        s[stage].bind(loop, thread(tag))


def product(n: int, m: int = 0, k: int = 0) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    m, k = m or n, k or n
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    return A, B, te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def tiled(n: int = 64, tile: int = 16, threads: int = 16) -> Program:
    """Multiply in tiles that the threads of a block fetch together into shared memory."""
    A, B, C = product(n)
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    shared = [s.cache_read(t, "shared", [local]) for t in (A, B)]
    by, bx, ty, tx = s[C].tile(*C.op.axis, tile, tile)
    bind(s, C, by=by, bx=bx, ty=ty, tx=tx)
    s[local].compute_at(s[C], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], tile)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for t in shared:
        s[t].compute_at(s[local], ko)
        y, x = s[t].op.axis
        yo, yi = s[t].split(y, nparts=threads)
        xo, xi = s[t].split(x, nparts=threads)
        s[t].reorder(yo, xo, yi, xi)
        s[t].bind(yo, thread("threadIdx.y", threads))
        s[t].bind(xo, thread("threadIdx.x", threads))
    return Program(s, [A, B, C], np.matmul)


def in_registers(
    n: int = 64,
    *,
    tile: int = 32,
    depth: int = 8,
    each: int = 4,
    ratio: int = 1,
    vthreads: int = 1,
    wide: int = 1,
    double: bool = False,
    late: bool = False,
    turned: str = "",
) -> Program:
    """Multiply tiles of tile x tile, in steps of `depth`; a thread computes each x each results.

    ratio    how many times as wide as high tiles are, in shared memory and in registers
    late     whether the tiles are fetched by asynchronous copies
    turned   how the tile of A is transposed in shared memory: "layout" of its buffer, or a "stage"
             of its own, whose rows have gaps; "" for not at all
    """
    A, B, C = product(n)
    if turned == "stage":
        r = te.reduce_axis((0, n), name="k")
        At = te.compute((n, n), lambda q, i: A[i, q], name="At")
        C = te.compute((n, n), lambda i, j: te.sum(At[r, i] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    left = At if turned == "stage" else s.cache_read(A, "shared", [local])
    shared = [left, s.cache_read(B, "shared", [local])]
    if turned == "stage":
        s[left].set_scope("shared")
    elif turned == "layout":
        s[left].transform_layout(lambda i, k: (k, i))
    own = [s.cache_read(t, "local", [local]) for t in shared]
    threads = tile // each
    (by, y), (bx, x) = s[C].split(C.op.axis[0], tile), s[C].split(C.op.axis[1], tile * ratio)
    vy, y = s[C].split(y, nparts=vthreads)
    vx, x = s[C].split(x, nparts=vthreads * ratio)
    (ty, y), (tx, x) = s[C].split(y, nparts=threads), s[C].split(x, nparts=threads)
    s[C].reorder(by, bx, vy, vx, ty, tx, y, x)
    for loop in (vy, vx):
        s[C].bind(loop, thread("vthread"))
    bind(s, C, by=by, bx=bx, ty=ty, tx=tx)
    if wide > 1:
        s[C].vectorize(s[C].split(x, min(wide, each // vthreads))[1])
    s[local].compute_at(s[C], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], depth)
    s[local].reorder(ko, ki, *s[local].op.axis)
    s[local].unroll(ki)
    for t in own:
        s[t].compute_at(s[local], ki)
    for t in shared:
        s[t].compute_at(s[local], ko)
        axes = s[t].op.axis
        if t is left and turned == "stage":
            s[t].storage_align(axes[0], 32, 4)
            axes = axes[::-1]
            s[t].reorder(*axes)
        rest = s[t].fuse(*axes)
        if wide > 1:
            rest, inner = s[t].split(rest, wide)
            s[t].vectorize(inner)
        rest, tx_ = s[t].split(rest, threads)
        rest, ty_ = s[t].split(rest, threads)
        bind(s, t, ty=ty_, tx=tx_)
        if double:
            s[t].double_buffer()
        if late:
            s[t].pragma(s[t].leaf_iter_vars[0], "async_copy")
    return Program(s, [A, B, C], np.matmul)


def large(n: int = 1024, **options: Any) -> Program:
    """Multiply by 16 x 16 threads, of which each computes 8 x 8 results in four groups."""
    return in_registers(n, tile=128, each=8, vthreads=2, wide=4, **options)


def ragged(n: int = 77) -> Program:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 32)
    bind(s, B, bx=outer, tx=inner)
    return Program(s, [A, B], lambda a: a * 2)


def two_kernels() -> Program:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2, name="B")
    C = te.compute((64,), lambda i: B[63 - i] + 1, name="C")
    s = te.create_schedule(C.op)
    for t in (B, C):
        outer, inner = s[t].split(t.op.axis[0], 16)
        bind(s, t, bx=outer, tx=inner)
    return Program(s, [A, C], lambda a: a[::-1] * 2 + 1)


def halo() -> Program:
    """Add three neighbours, which a block fetches with the two beyond its own."""
    A = te.placeholder((66,), name="A")
    B = te.compute((64,), lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    outer, inner = s[B].split(B.op.axis[0], 16)
    bind(s, B, bx=outer, tx=inner)
    s[shared].compute_at(s[B], outer)
    bind(s, shared, tx=s[shared].split(s[shared].op.axis[0], 16)[1])
    return Program(s, [A, B], lambda a: a[:-2] + a[1:-1] + a[2:])


def exchange() -> Program:
    """Reverse rows through memory that the threads of a warp share."""
    A = te.placeholder((4, 64), name="A")
    B = te.compute((4, 64), lambda i, j: A[i, j // 32 * 32 + 31 - j % 32], name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    jo, ji = s[B].split(j, 32)
    warp = s.cache_read(A, "warp", [B])
    bind(s, B, bx=i, ty=jo, tx=ji)
    s[warp].compute_at(s[B], jo)
    bind(s, warp, tx=s[warp].op.axis[1])
    return Program(s, [A, B], lambda a: a.reshape(4, 2, 32)[:, :, ::-1].reshape(4, 64))


def row_sums(
    n: int, m: int, rows: int, threads: int, reduce: Callable[..., Any] = te.sum
) -> Program:
    """Reduce rows: `rows` of them in a block, `threads` threads each."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: reduce(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], rows)
    bind(s, B, bx=outer, ty=inner, tx=s[B].split(k, threads)[1])
    meaning = {te.sum: np.sum, te.max: np.max}[reduce]
    return Program(s, [A, B], lambda a: meaning(a, axis=1))


def sums_over_two_axes() -> Program:
    A = te.placeholder((5, 24, 30), name="A")
    k, q = te.reduce_axis((0, 24), name="k"), te.reduce_axis((0, 30), name="q")
    B = te.compute((5,), lambda i: te.sum(A[i, k, q], axis=[k, q]), name="B")
    s = te.create_schedule(B.op)
    (ko, ki), (qo, qi) = s[B].split(k, 6), s[B].split(q, 8)
    s[B].reorder(B.op.axis[0], ko, qo, ki, qi)
    bind(s, B, bx=B.op.axis[0], ty=ki, tx=qi)
    return Program(s, [A, B], lambda a: a.sum(axis=(1, 2)))


def with_start() -> Program:
    """Sum from a start of the user's own."""
    A = te.placeholder((4, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=te.const(3.0, "float32")), name="B")
    s = te.create_schedule(B.op)
    bind(s, B, bx=B.op.axis[0], tx=s[B].split(k, 32)[1])
    return Program(s, [A, B], lambda a: a.sum(axis=1) + 3)


def softmax(n: int = 8, m: int = 100) -> Program:
    A = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="q")
    top = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="Top")
    powers = te.compute((n, m), lambda i, j: te.exp(A[i, j] - top[i]), name="Powers")
    total = te.compute((n,), lambda i: te.sum(powers[i, q], axis=q), name="Total")
    out = te.compute((n, m), lambda i, j: powers[i, j] / total[i], name="Out")
    s = te.create_schedule(out.op)
    row, column = out.op.axis
    bind(s, out, bx=row, tx=s[out].split(column, 32)[1])
    for t in (total, powers, top):
        s[t].compute_at(s[out], row)
        s[t].set_scope("shared")
        axis = s[t].op.reduce_axis[0] if s[t].op.reduce_axis else s[t].op.axis[1]
        bind(s, t, tx=s[t].split(axis, 32)[1])

    def meaning(a: Array) -> Array:
        e = np.exp(a - a.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Program(s, [A, out], meaning)


def fused() -> Program:
    """A product whose results stay in registers until they have been changed."""
    A, B, C = product(32)
    R = te.compute((32, 32), lambda i, j: te.max(C[i, j] - 8.0, 0.0), name="R")
    s = te.create_schedule(R.op)
    by, bx, ty, tx = s[R].tile(*R.op.axis, 8, 8)
    bind(s, R, by=by, bx=bx, ty=ty, tx=tx)
    s[C].compute_at(s[R], tx)
    s[C].set_scope("local")
    return Program(s, [A, B, R], lambda a, b: np.maximum(a @ b - 8, 0))


def directly() -> Program:
    """A product whose threads add up in global memory, each its own element."""
    A, B, C = product(32)
    s = te.create_schedule(C.op)
    by, bx, ty, tx = s[C].tile(*C.op.axis, 8, 8)
    bind(s, C, by=by, bx=bx, ty=ty, tx=tx)
    return Program(s, [A, B, C], np.matmul)


def padded() -> Program:
    """The tiled product with a gap after each row of the first tile."""
    program = tiled()
    s = program.schedule
    s["A.shared"].storage_align(s["A.shared"].op.axis[0], 32, 1)
    return program


PROGRAMS: dict[str, Callable[[], Program]] = {
    "tiled": tiled,
    "tiled, 10 x 10 threads": lambda: tiled(40, 10, 10),
    "tiled, ragged": lambda: tiled(50),
    "padded": padded,
    "in registers": in_registers,
    "virtual threads": lambda: in_registers(vthreads=2),
    "wide accesses": lambda: in_registers(wide=4),
    "wide tiles": lambda: in_registers(ratio=2, vthreads=1, wide=4, turned="layout"),
    "double buffer": lambda: in_registers(wide=4, double=True),
    "everything": lambda: in_registers(vthreads=1, wide=4, double=True, turned="layout"),
    "everything, padded": lambda: in_registers(wide=4, double=True, turned="stage"),
    "late copies": lambda: in_registers(wide=4, late=True),
    "late copies, double buffer": lambda: in_registers(wide=4, late=True, double=True),
    "late copies, transposed": lambda: in_registers(
        wide=4, late=True, double=True, turned="layout"
    ),
    "late copies, ragged": lambda: in_registers(50, late=True, double=True),
    "in registers, ragged": lambda: in_registers(50),
    "in registers, ragged, double buffer": lambda: in_registers(50, double=True),
    "ragged": ragged,
    "two kernels": two_kernels,
    "halo": halo,
    "warp memory": exchange,
    "sums by 8 threads": lambda: row_sums(10, 37, 4, 8),
    "sums by a warp": lambda: row_sums(10, 100, 4, 32),
    "sums by 256 threads": lambda: row_sums(6, 1000, 2, 256),
    "largest by 24 threads": lambda: row_sums(9, 100, 3, 24, te.max),
    "sums over two axes": sums_over_two_axes,
    "sums from a start": with_start,
    "softmax": softmax,
    "fused": fused,
    "directly": directly,
}


def barriers(f: tir.PrimFunc, name: str = "sync") -> int:
    """Count the barriers of a program, or other calls whose names begin with `name`."""
    return sum(isinstance(n, tir.Call) and n.name.startswith(name) for n in tir.walk(f.body))


def without(f: tir.PrimFunc, number: int, call: str = "sync") -> tir.PrimFunc:
    """Return the program without its barrier, or its call of another name, of this number."""
    numbers = iter(range(barriers(f, call)))

    def removed(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Evaluate(tir.Call(name)) if name.startswith(call):
                return tir.NOTHING if next(numbers) == number else s
            case _:
                return s

    return replace(f, body=tir.rewrite(f.body, removed))
