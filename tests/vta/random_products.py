"""Random products of packed tensors, and schedules for them with the loops in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm import te, vta
from minitvm.vta import Tiling, top

from .random_programs import Case, Rng, chance, copied, divisor, numbers, pick, shuffled, tiled


def formula(rng: Rng, dense: bool = False) -> tuple[te.Tensor, list[te.Tensor], list[np.ndarray]]:
    """A packed dense layer or convolution with what follows it; its inputs; their numbers."""
    env = vta.get_env()
    ic, oc = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    element, block = (env.BATCH, env.BLOCK_IN), (env.BLOCK_OUT, env.BLOCK_IN)
    if dense or chance(rng, 0.3):
        n = int(rng.integers(1, 7))
        data = te.placeholder((n, ic, *element), "int8", "data")
        weight = te.placeholder((oc, ic, *block), "int8", "weight")
        total = top.dense(data, weight)
    else:
        k = [int(n) for n in rng.integers(1, 4, 2)]
        pad = [int(rng.integers(n)) for n in k]
        size = [int(n) for n in rng.integers(1, 8, 2)]
        size = [max(n, kk - 2 * p) for n, kk, p in zip(size, k, pad, strict=True)]
        data = te.placeholder((pick(rng, [1, 1, 2]), ic, *size, *element), "int8", "data")
        weight = te.placeholder((oc, ic, *k, *block), "int8", "weight")
        strides = [int(n) for n in rng.integers(1, 4, 2)]
        total = top.conv2d(data, weight, strides, pad)
    bias, residual = None, None
    if chance(rng, 0.4):
        bias = te.placeholder((oc, env.BATCH, env.BLOCK_OUT), "int32", "bias")
    if chance(rng, 0.4):
        residual = te.placeholder(total.shape, pick(rng, ["int8", "int32"]), "residual")
        if tuple(data.shape) == tuple(total.shape) and chance(rng, 0.8):
            residual = data
    low = pick(rng, [0, -128, -100])
    out = top.requantize(total, bias, residual, shift=int(rng.integers(4, 11)), low=low)
    more = residual if residual is not data else None
    inputs = [t for t in (data, weight, bias, more) if t is not None]
    limits = {"bias": 1 << 12, "residual": 100}
    arrays = [
        numbers(rng, t, -limits[t.name], limits[t.name]) if t.name in limits else numbers(rng, t)
        for t in inputs
    ]
    return out, inputs, arrays


def packed_product(rng: Rng) -> Case:
    """A product by its own schedule, in tiles of any size that divides."""
    out, inputs, arrays = formula(rng)
    b, c, *space = (int(n) for n in out.shape[:-2])
    h, w = space or (1, b)
    th, tc = divisor(rng, h), divisor(rng, c)
    tiling = Tiling(
        h=th,
        w=divisor(rng, w),
        oc=tc,
        ic=divisor(rng, int(inputs[0].shape[1])),
        oc_threads=divisor(rng, c // tc),
        h_threads=divisor(rng, h // th),
    )
    return Case(top.schedule(out, tiling), [*inputs, out], arrays)


def free_product(rng: Rng) -> Case:
    """A product with its loops in any order, and the loads of its operands in any of them."""
    out, inputs, arrays = formula(rng)
    s = te.create_schedule(out.op)
    freely(rng, s, out)
    return Case(s, [*inputs, out], arrays)


def two_products(rng: Rng) -> Case:
    """A dense layer, and another one that loads what the first has stored."""
    env = vta.get_env()
    if env.BLOCK_IN != env.BLOCK_OUT:  # what one stores the other cannot load
        return free_product(rng)
    first, inputs, arrays = formula(rng, dense=True)
    shape = (int(rng.integers(1, 4)), int(first.shape[1]), env.BLOCK_OUT, env.BLOCK_IN)
    weight = te.placeholder(shape, "int8", "weight2")
    second = top.dense(first, weight, name="dense2")
    out = te.compute(second.shape, lambda *i: second(*i) >> 9, name="shifted2")
    out = copied(out, "int8", "narrow2")
    s = te.create_schedule([first.op, out.op])
    freely(rng, s, out)
    freely(rng, s, first)
    return Case(s, [*inputs, weight, first, out], [*arrays, numbers(rng, weight)])


def freely(rng: Rng, s: te.Schedule, out: te.Tensor) -> None:
    """A schedule of a product and what follows it, up to `out`."""
    env = vta.get_env()
    product, later = stages_of(out)
    at, stored = tiled(rng, s, out)
    s[out].pragma(stored, env.dma_copy)
    if chance(rng, 0.7):
        s[out].pragma(stored, env.coproc_sync)
    for op in (*later, product):
        s[op].set_scope(env.acc_scope)
        s[op].compute_at(s[out], at)
    for op in later:
        s[op].pragma(op.axis[0], env.alu)
        for t in op.input_tensors:
            if isinstance(t.op, te.PlaceholderOp) or t.name.endswith("_wide"):
                loaded = t
                if isinstance(t.op, te.PlaceholderOp):
                    loaded = s.cache_read(t, env.acc_scope, [op])
                s[loaded].set_scope(env.acc_scope)
                s[loaded].compute_at(s[out], at)
                s[loaded].pragma(s[loaded].op.axis[0], env.dma_copy)
    loops = reordered(rng, s, product)
    for source, scope in zip(product.input_tensors, (env.inp_scope, env.wgt_scope), strict=True):
        if source.name.endswith("_padded"):
            t = source
            s[t].set_scope(scope)
        else:
            t = s.cache_read(source, scope, [product])
        place = (s[product], pick(rng, loops)) if chance(rng, 0.8) else (s[out], at)
        s[t].compute_at(*place)
        s[t].pragma(s[t].op.axis[0], env.dma_copy)


def reordered(rng: Rng, s: te.Schedule, product: Any) -> list[Any]:
    """The loops around the matrix unit, in any order."""
    *space, bi, oi = product.axis
    *reduced, ki = product.reduce_axis
    turns: list[Any] = []
    for axis in reduced:
        turns += s[product].split(axis, factor=divisor(rng, axis.extent))
    if chance(rng, 0.5):  # those over accumulators inside: most others are refused
        loops = [shuffled(rng, turns), shuffled(rng, space)]
        order = [axis for part in loops for axis in part]
    else:
        order = shuffled(rng, [*space, *turns])
    s[product].reorder(*order, bi, oi, ki)
    s[product].tensorize(bi, vta.get_env().gemm)
    return order


def stages_of(out: te.Tensor) -> tuple[Any, list[Any]]:
    """The product, and the stages between it and `out`, the last one first."""
    found: list[Any] = []
    op = out.op
    while op.tag not in (top.CONV2D, top.DENSE):
        op = next(t.op for t in op.input_tensors if isinstance(t.op, te.ComputeOp))
        found.append(op)
    return found[-1], found[:-1]
