"""Tensor intrinsics for CPUs: hand-written loops that compute a tile and keep it in registers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from minitvm import te, tensor, tir


def gemm_intrin(m: int = 8, n: int = 8, k: int = 8, dtype: str = "float32") -> tensor.TensorIntrin:
    """Declare an intrinsic for z[i, j] = sum(x[i, k] * y[k, j], k) on a tile of m x n x k.

    During the loop over k, the m x n results stay in registers, one vector of n elements per row.
    """
    x = te.placeholder((m, k), dtype, name="x")
    y = te.placeholder((k, n), dtype, name="y")
    r = te.reduce_axis((0, k), name="k")

    def product(i: Any, j: Any) -> Any:
        return te.sum(x(i, r) * y(r, j), axis=r)

    z = te.compute((m, n), product, name="z")
    return _declared(z, _multiply, f"gemm_{m}x{n}x{k}")


def _multiply(a: tir.Buffer, b: tir.Buffer, c: tir.Buffer, add: bool) -> tir.Stmt:
    """Return the statement c = a @ b, or c += a @ b."""
    (m, k), (_, n) = a.shape, b.shape
    ib = tir.ir_builder.create()
    x, y, z = ib.buffer_ptr(a), ib.buffer_ptr(b), ib.buffer_ptr(c)
    tile = ib.allocate(c.dtype, (m, n), name="tile", scope="local")
    with _each(ib, c.shape) as (i, j):
        tile[i, j] = z[i, j] if add else tir.const(0, c.dtype)
    with ib.for_range(0, k, name="k") as r, _each(ib, c.shape) as (i, j):
        tile[i, j] = tile[i, j] + x[i, r] * y[r, j]
    with _each(ib, c.shape) as (i, j):
        z[i, j] = tile[i, j]
    return ib.get()


@cache  # a schedule knows intrinsics by name: two products must share the same one
def dot4_intrin(n: int = 16, a: str = "uint8", b: str = "int8") -> tensor.TensorIntrin:
    """Declare an intrinsic for z[j] = sum(x[k] * y[j, k], k): n dot products of four bytes.

    x is a[4], y is b[n, 4] and z is int32[n]. On a CPU that has an instruction for these types,
    such as vpdpbusd for uint8 and int8, it is used: the four bytes of x are repeated in each of the
    n lanes; the 4n bytes of y fill a vector.
    """
    x = te.placeholder((4,), a, name="x")
    y = te.placeholder((n, 4), b, name="y")
    k = te.reduce_axis((0, 4), name="k")

    def product(j: Any) -> Any:
        return te.sum(x(k).astype("int32") * y(j, k).astype("int32"), axis=k)

    z = te.compute((n,), product, name="z")
    name = next(name for name, types in tir.DOT4.items() if types == (a, b))
    return _declared(z, _dot4, f"{name}_{n}")


def _dot4(a: tir.Buffer, b: tir.Buffer, c: tir.Buffer, add: bool) -> tir.Stmt:
    """Return the statement c = b @ a, or c += b @ a."""
    ib = tir.ir_builder.create()
    x, y, z = ib.buffer_ptr(a), ib.buffer_ptr(b), ib.buffer_ptr(c)
    with _each(ib, c.shape) as (j,):
        start = z[j] if add else tir.const(0, "int32")
        z[j] = tir.dot4(start, [x[k] for k in range(4)], [y[j, k] for k in range(4)])
    return ib.get()


def _declared(
    z: te.Tensor,
    update: Callable[[tir.Buffer, tir.Buffer, tir.Buffer, bool], tir.Stmt],
    name: str,
) -> tensor.TensorIntrin:
    """Declare the intrinsic for z of two operands; update(a, b, c, add) computes or adds to c."""

    def statements(
        ins: Sequence[tir.Buffer], outs: Sequence[tir.Buffer]
    ) -> tuple[tir.Stmt, tir.Stmt, tir.Stmt]:
        (a, b), (c,) = ins, outs
        ib = tir.ir_builder.create()
        out = ib.buffer_ptr(c)
        with _each(ib, c.shape) as at:
            out[at] = tir.const(0, c.dtype)
        return update(a, b, c, False), ib.get(), update(a, b, c, True)

    return te.decl_tensor_intrin(z.op, statements, name=name)


@contextmanager
def _each(ib: tir.IRBuilder, shape: Sequence[tir.Index]) -> Generator[tuple[tir.Index, ...]]:
    """Open the loops over the elements of a tile: the last is vectorized, the other unrolled."""
    names, kinds = ("i", "j")[-len(shape) :], ("unrolled", "vectorized")[-len(shape) :]
    with ExitStack() as loops:
        yield tuple(
            loops.enter_context(ib.for_range(0, n, name=name, kind=kind))
            for n, name, kind in zip(shape, names, kinds, strict=True)
        )
