"""The tensor intrinsic of the matrix unit, for machines of any size."""

from __future__ import annotations

from typing import Any

from minitvm import accel, tensor, tir
from minitvm.base import dtype


def gemm(
    config: accel.Config,
    *,
    name: str = "gemm",
    update: str = "vta.gemm",
    reset: str = "vta.fill_zero",
    skip: bool = False,
) -> tensor.TensorIntrin:
    """Return the intrinsic out[i, j] = sum over k of inp[i, k] * wgt[j, k].

    Each operand is one element of a memory of `config`. Row j of `wgt` belongs to column j of the
    result: the weights are stored transposed. The intrinsic has no body, so that each tile is reset
    by one instruction, even if the sum has a single product.
    update, reset   the names of the instructions
    skip            whether to emit no instructions
    """
    inp = tensor.placeholder((config.batch, config.block_in), "int8", name="inp")
    wgt = tensor.placeholder((config.block_out, config.block_in), "int8", name="wgt")
    k = tensor.reduce_axis((0, config.block_in), name="k")

    def product(i: Any, j: Any) -> Any:
        return tensor.sum(inp(i, k).astype("int32") * wgt(j, k).astype("int32"), axis=k)

    out = tensor.compute((config.batch, config.block_out), product, name="out")
    buffers = {
        t: _element(config, t, memory)
        for t, memory in ((inp, accel.Memory.INP), (wgt, accel.Memory.WGT), (out, accel.Memory.ACC))
    }

    def statements(
        ins: list[tir.DeclaredBuffer], outs: list[tir.DeclaredBuffer]
    ) -> tuple[None, tir.Stmt, tir.Stmt]:
        if skip:
            return None, tir.NOTHING, tir.NOTHING
        return None, instruction(reset, outs[0]), instruction(update, outs[0], *ins)

    return tensor.decl_tensor_intrin(out.op, statements, binds=buffers, name=name)


def _element(config: accel.Config, t: tensor.Tensor, memory: accel.Memory) -> tir.DeclaredBuffer:
    """Declare the buffer of one element: contiguous, and aligned to whole elements."""
    rows, columns = config.element_shape(memory)
    scope = f"local.{memory.name.lower()}_buffer"
    return tir.decl_buffer(
        (rows, columns),
        str(t.dtype),
        name=t.name,
        scope=scope,
        strides=[columns, 1],
        offset_factor=rows * columns,
    )


def instruction(name: str, *buffers: tir.Buffer) -> tir.Stmt:
    """Return an instruction on whole buffers, such as vta.gemm(out, inp, wgt)."""
    views = tuple(tir.view(b) for b in buffers)
    return tir.Evaluate(tir.Call(name, views, dtype("int32")))
