"""Convolutions that the accelerator computes: on bytes in its blocks, with shifts for scales.

    sums = conv2d(q, w, out_dtype="int32")           p = vta_pack(q, blocks=(1, 16))
    y = requantise(sums, bias, .5 ** shift)    ->    c = vta_conv2d(p, packed w, bias, shift=shift)
                                                     y = vta_unpack(c)

A convolution reads the blocks that an earlier one writes; only what the CPU writes is packed. The
accelerator rounds halves up, by a bias of half a step; the CPU rounds them to even.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from minitvm import accel, vta
from minitvm.base import ScheduleError

from ..node import Node
from ..operators import call, reference
from .fold import add_param
from .layout import settled
from .meanings import Params, Scaling, Sums

MOST_SHIFT = 15  # all designs of VTA agree on shifts up to this one
SIMULATIONS = 20  # tilings that are simulated for each layer


def offloaded(
    sums: Sums, to: Scaling, params: Params, name: str, blocks: dict[Node, Node]
) -> Node | str:
    """Return quantised sums that the current accelerator computes, or why it cannot.

    blocks   images -> the same images in the accelerator's blocks; grows
    """
    env, conv, residual = vta.get_env(), sums.node, sums.residual
    for reason in _obstacles(sums, to, env):
        return reason
    data, weight = conv.inputs
    shift = _shift(sums, to.scale)
    bias = vta.pack_bias(sums.bias + (1 << shift >> 1), env)
    operands = [
        _packed(data, env, blocks),
        add_param(params, f"{weight.name}.blocks", vta.pack_weight(params[weight.name], env)),
        add_param(params, f"{weight.name}.bias", bias),
    ]
    attrs = {"stride": _strides(conv)[0], "padding": _edges(conv)[0], "shift": shift}
    if residual is not None:
        operands.append(_packed(residual.node, env, blocks))
        attrs["residual_shift"] = _shift(sums, residual.scale)
    new = call(
        "vta_conv2d", *operands, name=conv.name or name, **attrs, **to.limits(sums.low, sums.high)
    )
    try:
        tiling_of(new, env.config)
    except ScheduleError as e:
        return str(e)
    images = call("vta_unpack", new, name=new.name)
    if env.BLOCK_IN == env.BLOCK_OUT:
        blocks[images] = new
    return images


def _obstacles(sums: Sums, to: Scaling, env: vta.Environment) -> Iterator[str]:
    """Yield why the accelerator cannot compute a convolution and its quantisation."""
    if sums.node.op != "conv2d":
        yield f"the accelerator computes convolutions, not {sums.node.op}"
        return
    conv, attrs, residual = sums.node, settled(sums.node), sums.residual
    data, weight = (x.type for x in conv.inputs)
    n, ic, *_ = data.shape
    for size, block, what in (
        (n, env.BATCH, "images"),
        (ic, env.BLOCK_IN, "input channels"),
        (weight.shape[0], env.BLOCK_OUT, "output channels"),
    ):
        if size % block:
            yield f"{size} {what} are not whole blocks of {block}"
    if (
        attrs["layout"] != "NCHW"
        or attrs["groups"] > 1
        or set(reference.sizes(attrs["dilation"], 2)) != {1}
    ):
        yield "it has groups, a dilation or another layout"
    if len({*weight.shape[2:]}) > 1 or len({*_strides(conv)}) > 1 or len({*_edges(conv)}) > 1:
        yield "its kernel, strides or padding are not square"
    zeros = (attrs["pad_value"], to.zero, int(residual.zero) if residual else 0)
    types = [data, *([residual.node.type] if residual else [])]
    if any(zeros) or {to.dtype, *(str(t.dtype) for t in types)} != {"int8"}:
        yield "its tensors are not int8 with zero point 0"
    steps = [to.scale] if residual is None else [to.scale, residual.scale]
    shifts = [_shift(sums, step) for step in steps]
    if np.ptp(sums.scale) > 0 or not all(0 <= shift <= MOST_SHIFT for shift in shifts):
        yield f"the quotients of its scales are not powers of two from 1 to {1 << MOST_SHIFT}"


def _shift(sums: Sums, step: Any) -> int:
    """Return the logarithm of `step` in steps of the sums; -1 if it is not a power of two."""
    fraction, exponent = math.frexp(float(step) / float(sums.scale[0]))
    return exponent - 1 if fraction == 0.5 else -1


def _strides(conv: Node) -> tuple[int, ...]:
    return tuple(reference.sizes(conv.attrs.get("strides", 1)))


def _edges(conv: Node) -> tuple[int, ...]:
    """Return the padding of a convolution on the four sides."""
    _, _, rows, columns = reference.edges(conv.attrs.get("padding", 0))
    return (*rows, *columns)


def _packed(x: Node, env: vta.Environment, blocks: dict[Node, Node]) -> Node:
    """Return images in blocks: those that the accelerator has written, or packed ones."""
    if x not in blocks:
        blocks[x] = call("vta_pack", x, name=x.name, blocks=(env.BATCH, env.BLOCK_IN))
    return blocks[x]


# --- tilings -------------------------------------------------------------------------------------


def tiling_of(conv: Node, config: accel.Config) -> vta.Tiling:
    """Return a fast tiling of a node vta_conv2d; ScheduleError if no tile fits into memory."""
    data, weight, *_ = (x.type.shape for x in conv.inputs)
    layer = vta.Convolution(
        size=(data[2], data[3]),
        channels=(data[1] * data[-1], weight[0] * weight[-2]),
        kernel=weight[2],
        stride=conv.attrs["stride"],
        pad=conv.attrs["padding"],
        bias=True,
        residual=len(conv.inputs) > 3,
        residual_dtype="int8",
        residual_shift=min(conv.attrs.get("residual_shift", 0), 1),  # as fast as other shifts
    )
    return _fastest(layer, config)


@lru_cache(maxsize=1000)
def _fastest(layer: vta.Convolution, config: accel.Config) -> vta.Tiling:
    """Return the fastest of some tilings with two virtual threads or, if none fits, with one."""
    try:
        return vta.best_tiling(layer, config, 2, SIMULATIONS).tiling
    except ScheduleError:
        return vta.best_tiling(layer, config, 1, SIMULATIONS).tiling
