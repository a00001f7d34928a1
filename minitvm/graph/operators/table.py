"""OPERATORS: all operators of graphs. A new one is one entry here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from minitvm import te, topi, vta
from minitvm.base import GraphError, name_missing

from ..node import Array, Node
from . import accelerated, attention, quantised, recurrent, reference, reference_indexing
from .operator import Axes, Fusion, Operator, frozen, type_of


def _concatenate(*tensors: te.Tensor, axis: int = 0) -> te.Tensor:
    """Join the tensors along `axis`; their other sizes must agree."""
    return topi.concatenate(tensors, axis)


def _identity(x: te.Tensor) -> te.Tensor:
    """Return x, as dropout does, too, in inference."""
    return te.compute(x.shape, x, name="T_identity", tag="elementwise")


def _broadcast_to(x: te.Tensor, shape: Sequence[int]) -> te.Tensor:
    """Repeat x along its dimensions of size 1, and along new first ones, to this shape."""
    rest = len(shape) - x.ndim
    if rest < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[rest:], strict=True)):
        raise GraphError(f"broadcast_to {list(shape)}", f"{x.name} does not broadcast to it")

    def body(*i: Any) -> Any:
        return x(*(0 if n == 1 else at for n, at in zip(x.shape, i[rest:], strict=True)))

    return te.compute(tuple(shape), body, name="T_broadcast_to", tag="injective")


def _take(
    x: te.Tensor, indices: te.Tensor, axis: int | None = None, mode: str = "clip"
) -> te.Tensor:
    """Return the elements of x at `indices` along `axis`, as topi.take does.

    In mode "index", an index below 0 counts from the end, and indices out of bounds are refused if
    they are an input of the network; others select the nearest element.
    """
    if mode == "index":
        size = math.prod(x.shape) if axis is None else x.shape[axis]
        indices = topi.where(topi.less(indices, 0), topi.add(indices, size), indices)
    return topi.take(x, indices, axis, "clip" if mode == "index" else mode)


def _pad(x: te.Tensor, pad_before: Any, pad_after: Any = None, pad_value: float = 0.0) -> te.Tensor:
    """Add elements before and after each dimension, as topi.pad does."""
    return topi.pad(x, pad_before, pad_after, pad_value)


FORMULAS: dict[str, Callable[..., te.Tensor]] = {  # where topi's function has other arguments
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "identity": _identity,
    "pad": _pad,
    "take": _take,
    "vta_conv2d": accelerated.conv2d,
    "vta_pack": accelerated.pack,
    "vta_unpack": accelerated.unpack,
}
Reference: TypeAlias = (  # of one to four inputs, and attributes
    Callable[[Any], Array]
    | Callable[[Any, Any], Array]
    | Callable[[Any, Any, Any], Array]
    | Callable[[Any, Any, Any, Any], Array]
)


def _reference(name: str) -> Reference:
    """Return the function called `name` that computes an operator in numpy."""
    places = (quantised, reference, reference_indexing, np)
    return next(getattr(place, name) for place in places if hasattr(place, name))


def _operators(fusion: Fusion, axes: Axes, *names: str, **references: Reference) -> list[Operator]:
    """Return operators, whose formulas have these names in topi.

    names        operators whose references have these names in `reference` or another module
    references   operators with their references
    """
    functions = {n: _reference(n) for n in names}
    return [
        Operator(n, FORMULAS.get(n) or getattr(topi, n), f, fusion, axes)
        for n, f in (functions | references).items()
    ]


PAIRS = (
    *("add", "divide", "equal", "greater", "greater_equal", "less", "less_equal", "maximum"),
    *("minimum", "multiply", "not_equal", "power", "subtract"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "fmod", "left_shift", "right_shift"),
)
ARCS = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
ALL = (
    *_operators(
        Fusion.ELEMENTWISE,
        "any",
        *("abs", "clip", "erf", "exp", "gelu", "leaky_relu", "log", "negative", "sqrt", "tanh"),
        *("bitwise_not", "ceil", "cos", "cosh", "floor", "isinf", "isnan", "round", "sin", "sinh"),
        *("sign", "tan"),
        **{n: getattr(np, f"arc{n[1:]}") for n in ARCS},
        cast=lambda x, dtype: x.astype(dtype),
        identity=lambda x: x,
        relu=lambda x: np.maximum(x, 0),
        rsqrt=lambda x: 1 / np.sqrt(x),
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        silu=lambda x: x / (1 + np.exp(-x)),
    ),
    *_operators(Fusion.BROADCAST, "any", "where"),
    *_operators(Fusion.BROADCAST, "any", **{n: reference.two(getattr(np, n)) for n in PAIRS}),
    *_operators(Fusion.BROADCAST, "any", "add_requantised", trunc_divide=reference.trunc_divide),
    *_operators(Fusion.BROADCAST, "any", floor_mod=reference.two(np.remainder)),
    *_operators(Fusion.BROADCAST, "axis", "batch_norm", "dequantise", "quantise", "requantise"),
    *_operators(Fusion.INJECTIVE, "axis", "concatenate", "pad", "strided_slice"),
    *_operators(Fusion.INJECTIVE, "fixed", "broadcast_to", "take", "transpose"),
    *_operators(Fusion.INJECTIVE, "fixed", reshape=lambda x, shape: x.reshape(shape)),
    *_operators(Fusion.REDUCTION, "axis", "max", "mean", "min", "prod", "sum"),
    *_operators(Fusion.ANCHOR, "images", "avg_pool2d", "conv2d", "global_avg_pool2d", "max_pool2d"),
    *_operators(Fusion.ANCHOR, "fixed", "conv2d_transpose", conv3d=reference.conv2d),
    *_operators(Fusion.ANCHOR, "fixed", "dense", "matmul", batch_matmul=reference.matmul),
    *_operators(Fusion.ANCHOR, "fixed", "dense_int8"),
    *_operators(Fusion.REDUCTION, "axis", "layer_norm", "log_softmax", "softmax"),
    *_operators(Fusion.OPAQUE, "fixed", attention=attention.attention),
    *_operators(Fusion.OPAQUE, "fixed", cached_attention=attention.cached_attention),
    *_operators(Fusion.INJECTIVE, "fixed", cache_update=attention.cache_update),
    *_operators(Fusion.OPAQUE, "fixed", gru=recurrent.gru, lstm=recurrent.lstm, rnn=recurrent.rnn),
    *_operators(Fusion.INJECTIVE, "fixed", "gather", "gather_nd", "resample"),
    *_operators(Fusion.OPAQUE, "fixed", "cumprod", "cumsum", "grid_sample", "topk"),
    *_operators(Fusion.OPAQUE, "fixed", "scatter_elements", "scatter_nd"),
    *_operators(Fusion.OPAQUE, "fixed", vta_conv2d=accelerated.convolved),
    *_operators(Fusion.INJECTIVE, "fixed", vta_pack=lambda x, blocks: vta.pack(x, *blocks)),
    *_operators(Fusion.INJECTIVE, "fixed", vta_unpack=accelerated.unpacked),
)
OPERATORS: dict[str, Operator] = {each.name: each for each in ALL}


def operator(name: str) -> Operator:
    """Return the operator called `name`; raise GraphError with similar names if it is unknown."""
    if name not in OPERATORS:
        missing = name_missing("graph", name, OPERATORS)
        raise GraphError(f"operator {name!r}", "graphs do not have it", missing.args[2])
    return OPERATORS[name]


def call(op: str, *inputs: Node, name: str = "", **attrs: Any) -> Node:
    """Return a node that applies the operator `op`; GraphError if its arguments do not fit."""
    frozen_attrs = {key: frozen(value) for key, value in attrs.items()}
    return Node(op, inputs, type_of(operator(op), inputs, frozen_attrs), frozen_attrs, name)
