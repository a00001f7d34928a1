"""OPERATORS: how each operator of torch becomes nodes. A new one is one entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ..onnx import Place, Value
from . import elements, linear, shapes, windows

Function: TypeAlias = Callable[..., Value | tuple[Value, ...]]  # of a Place and the arguments


def _named(op: str) -> Function:
    """Return a function that applies the operator of graphs called `op` to one value."""

    def apply(at: Place, x: Value) -> Value:
        return at.make(op, x)

    return apply


def _pair(op: str) -> Function:
    """Return a function that applies the operator of graphs called `op` to two operands."""

    def apply(at: Place, a: elements.Operand, b: elements.Operand) -> Value:
        return elements.pair(at, op, a, b)

    return apply


def _item(at: Place, parts: tuple[Value, ...], k: int) -> Value:
    """Return one of several results."""
    if k >= len(parts):
        raise at.refusal(f"result {k} is not supported")
    return parts[k]


SAME = {  # torch's name -> the operator of graphs
    **{name: name for name in ("abs", "erf", "exp", "log", "relu", "rsqrt", "sigmoid", "silu")},
    **{"neg": "negative", "sqrt": "sqrt", "tanh": "tanh"},
}
PAIRS = {  # the same, for operators that broadcast two operands
    **{"eq": "equal", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less"},
    **{"maximum": "maximum", "minimum": "minimum", "mul": "multiply"},
}
COPIES = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy")
REDUCTIONS = {"amax": "max", "amin": "min", "mean": "mean", "prod": "prod", "sum": "sum"}
OPERATORS: dict[str, Function] = {
    **{name: _named(op) for name, op in SAME.items()},
    **{name: _pair(op) for name, op in PAIRS.items()},
    **{name: partial(linear.reduced, op=op) for name, op in REDUCTIONS.items()},
    **dict.fromkeys(COPIES, elements.identity),
    "_log_softmax": partial(linear.softmax, op="log_softmax"),
    "_native_batch_norm_legit_no_training": linear.batch_norm,
    "_softmax": linear.softmax,
    "_to_copy": elements.cast,
    "_unsafe_view": shapes.view,
    "adaptive_avg_pool1d": windows.adaptive_avg_pool,
    "adaptive_avg_pool2d": windows.adaptive_avg_pool,
    "adaptive_max_pool2d": windows.adaptive_max_pool,
    "add": elements.add,
    "addmm": linear.addmm,
    "avg_pool1d": windows.avg_pool,
    "avg_pool2d": windows.avg_pool,
    "avg_pool3d": windows.avg_pool,
    "baddbmm": linear.addmm,
    "bitwise_and": partial(elements.logical, op="and"),
    "bitwise_not": elements.logical_not,
    "bitwise_or": partial(elements.logical, op="or"),
    "bmm": linear.matmul,
    "cat": shapes.cat,
    "clamp": elements.clamp,
    "constant_pad_nd": shapes.pad,
    "conv1d": windows.conv,
    "conv2d": windows.conv,
    "conv3d": windows.conv,
    "conv_transpose1d": windows.conv_transpose,
    "conv_transpose2d": windows.conv_transpose,
    "convolution": windows.convolution,
    "div": elements.divide,
    "elu": elements.elu,
    "embedding": shapes.embedding,
    "expand": shapes.expand,
    "expm1": elements.expm1,
    "flip": shapes.flip,
    "gelu": elements.gelu,
    "getitem": _item,
    "group_norm": linear.group_norm,
    "hardsigmoid": elements.hard_sigmoid,
    "hardswish": elements.hard_swish,
    "hardtanh": elements.hardtanh,
    "index": shapes.index,
    "index_copy": shapes.index_copy,
    "index_select": shapes.take,
    "instance_norm": linear.instance_norm,
    "layer_norm": linear.layer_norm,
    "leaky_relu": elements.leaky_relu,
    "linalg_vector_norm": linear.vector_norm,
    "linear": linear.linear,
    "log_softmax": partial(linear.softmax, op="log_softmax"),
    "logical_and": partial(elements.logical, op="and"),
    "logical_not": elements.logical_not,
    "logical_or": partial(elements.logical, op="or"),
    "matmul": linear.matmul,
    "max_pool1d": windows.max_pool,
    "max_pool2d": windows.max_pool,
    "max_pool3d": windows.max_pool,
    "mish": elements.mish,
    "mm": linear.matmul,
    "ne": elements.not_equal,
    "permute": shapes.permute,
    "pow": elements.power,
    "prelu": elements.prelu,
    "reciprocal": elements.reciprocal,
    "repeat": shapes.repeat,
    "reshape": shapes.view,
    "rms_norm": linear.rms_norm,
    "rsub": elements.reverse_subtract,
    "scaled_dot_product_attention": linear.attention,
    "select": shapes.select,
    "slice": shapes.slice_,
    "softmax": linear.softmax,
    "softplus": elements.softplus,
    "split": shapes.split,
    "split_with_sizes": shapes.split,
    "squeeze": shapes.squeeze,
    "sub": elements.subtract,
    "transpose": shapes.transpose,
    "unbind": shapes.unbind,
    "unsqueeze": shapes.unsqueeze,
    "var": linear.variance,
    "var_mean": linear.variance_and_mean,
    "view": shapes.view,
    "where": elements.where,
}
