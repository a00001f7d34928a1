"""The tensor intrinsic of the matrix unit, for machines of any size."""

from __future__ import annotations

from typing import Any

from minitvm.accel import Config, Memory
from minitvm.base import dtype
from minitvm.tensor import (
    Tensor,
    TensorIntrin,
    compute,
    decl_tensor_intrin,
    placeholder,
    reduce_axis,
)
from minitvm.tensor import sum as te_sum
from minitvm.tir import (
    NOTHING,
    Buffer,
    Call,
    DeclaredBuffer,
    Evaluate,
    Stmt,
    decl_buffer,
    row_strides,
    seq,
    view_at,
)


def gemm(
    config: Config,
    *,
    name: str = "gemm",
    update: str = "vta.gemm",
    reset: str = "vta.fill_zero",
    skip: bool = False,
) -> TensorIntrin:
    """out[i, j] = sum of inp[i, k] * wgt[j, k] over k, for one element of each memory.

    The first rows of `wgt` are those of the result's columns: the weights are stored transposed.
    update, reset   the instructions; skip: none at all
    """
    inp = placeholder((config.batch, config.block_in), "int8", name="inp")
    wgt = placeholder((config.block_out, config.block_in), "int8", name="wgt")
    k = reduce_axis((0, config.block_in), name="k")

    def product(i: Any, j: Any) -> Any:
        return te_sum(inp(i, k).astype("int32") * wgt(j, k).astype("int32"), axis=k)

    out = compute((config.batch, config.block_out), product, name="out")
    buffers = {
        t: _element(config, t, memory)
        for t, memory in ((inp, Memory.INP), (wgt, Memory.WGT), (out, Memory.ACC))
    }

    def statements(
        ins: list[DeclaredBuffer], outs: list[DeclaredBuffer]
    ) -> tuple[Stmt, Stmt, Stmt]:
        if skip:
            return NOTHING, NOTHING, NOTHING
        zero = instruction(reset, outs[0])
        more = instruction(update, outs[0], *ins)
        return seq(zero, more), zero, more

    return decl_tensor_intrin(out.op, statements, binds=buffers, name=name)


def _element(config: Config, t: Tensor, memory: Memory) -> DeclaredBuffer:
    """The buffer of one element of a memory: its rows without gaps, and where an element begins."""
    rows, columns = config.element_shape(memory)
    scope = f"local.{memory.name.lower()}_buffer"
    return decl_buffer(
        (rows, columns),
        str(t.dtype),
        name=t.name,
        scope=scope,
        strides=[columns, 1],
        offset_factor=rows * columns,
    )


def instruction(name: str, *buffers: Buffer) -> Stmt:
    """An instruction of the accelerator on whole buffers: vta.gemm(out, inp, wgt)."""
    views = tuple(view_at(b, (0,) * len(b.shape), b.shape, row_strides(b)) for b in buffers)
    return Evaluate(Call(name, views, dtype("int32")))
