"""Tensor intrinsics for CPUs: tiles of a formula, written out as loops that stay in registers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from minitvm import te
from minitvm.tensor import TensorIntrin
from minitvm.tir import Buffer, Index, IRBuilder, Stmt, const, ir_builder


def gemm_intrin(m: int = 8, n: int = 8, k: int = 8, dtype: str = "float32") -> TensorIntrin:
    """z[i, j] = sum(x[i, k] * y[k, j], k) on a tile of m x n x k.

    The tile of results is kept in registers while k runs: m rows of one vector of n elements.
    """
    x = te.placeholder((m, k), dtype, name="x")
    y = te.placeholder((k, n), dtype, name="y")
    r = te.reduce_axis((0, k), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(x(i, r) * y(r, j), axis=r)

    z = te.compute((m, n), product, name="z")

    def statements(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Stmt, Stmt, Stmt]:
        (a, b), (c,) = ins, outs
        return _multiply(a, b, c, add=False), _zero(c), _multiply(a, b, c, add=True)

    return te.decl_tensor_intrin(z.op, statements, name=f"gemm_{m}x{n}x{k}")


def _multiply(a: Buffer, b: Buffer, c: Buffer, add: bool) -> Stmt:
    """c = a @ b, or c += a @ b."""
    (m, k), (_, n) = a.shape, b.shape
    ib = ir_builder.create()
    x, y, z = ib.buffer_ptr(a), ib.buffer_ptr(b), ib.buffer_ptr(c)
    tile = ib.allocate(c.dtype, (m, n), name="tile", scope="local")
    with _each(ib, m, n) as (i, j):
        tile[i, j] = z[i, j] if add else const(0, c.dtype)
    with ib.for_range(0, k, name="k") as r, _each(ib, m, n) as (i, j):
        tile[i, j] = tile[i, j] + x[i, r] * y[r, j]
    with _each(ib, m, n) as (i, j):
        z[i, j] = tile[i, j]
    return ib.get()


def _zero(c: Buffer) -> Stmt:
    """c = 0 everywhere."""
    ib = ir_builder.create()
    z = ib.buffer_ptr(c)
    with _each(ib, *c.shape) as (i, j):
        z[i, j] = const(0, c.dtype)
    return ib.get()


@contextmanager
def _each(ib: IRBuilder, rows: Index, columns: Index) -> Generator[tuple[Index, Index]]:
    """All elements of a tile: a vector for each row."""
    with (
        ib.for_range(0, rows, name="i", kind="unrolled") as i,
        ib.for_range(0, columns, name="j", kind="vectorized") as j,
    ):
        yield i, j
