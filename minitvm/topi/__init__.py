"""Operators of neural networks, and `schedule`, which schedules a network without search."""

from typing import Any as _Any

from minitvm.base import name_missing as _name_missing

from . import dispatch, nn
from .conv import conv2d
from .conv_nd import conv1d, conv2d_transpose, conv3d
from .depthwise import depthwise_conv2d
from .elementwise import (
    abs,
    add,
    cast,
    clip,
    divide,
    equal,
    erf,
    exp,
    gelu,
    greater,
    greater_equal,
    leaky_relu,
    less,
    less_equal,
    log,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    subtract,
    tanh,
    where,
)
from .flops import flops  # pyright: ignore[reportUnusedImport]
from .formulas import (
    Formula,  # pyright: ignore[reportUnusedImport]  what formulas and best_formula return
    best_formula,
    formulas,
)
from .layout_transform import layout_transform
from .linear import batch_matmul, dense, matmul
from .norm import argmax, argmin, batch_norm, layer_norm, log_softmax, softmax
from .options import Options  # pyright: ignore[reportUnusedImport]  what choose(options) takes
from .pool import avg_pool2d, global_avg_pool2d, max_pool2d
from .reduction import max, mean, min, prod, sum
from .schedule import schedule
from .shape import concatenate, pad, reshape, strided_slice, take, transpose
from .tensor_intrin import gemm_intrin
from .winograd import WINOGRAD, conv2d_winograd  # pyright: ignore[reportUnusedImport]

__all__ = [
    "abs", "add", "argmax", "argmin", "avg_pool2d", "batch_matmul", "batch_norm",
    "best_formula", "cast", "clip", "concatenate", "conv1d", "conv2d", "conv2d_transpose",
    "conv2d_winograd", "conv3d", "dense",
    "depthwise_conv2d", "dispatch", "divide", "equal", "erf", "exp", "formulas", "gelu",
    "gemm_intrin", "global_avg_pool2d", "greater", "greater_equal", "layer_norm",
    "layout_transform", "leaky_relu", "less", "less_equal", "log",
    "log_softmax", "matmul", "max", "max_pool2d", "maximum", "mean", "min", "minimum", "multiply",
    "negative", "nn", "not_equal", "pad", "power", "prod", "relu", "reshape", "rsqrt", "schedule",
    "sigmoid", "silu", "softmax", "sqrt", "strided_slice", "subtract", "sum", "take", "tanh",
    "transpose", "where",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Raise AttributeError for the unknown operator `name`, suggesting one with a similar name."""
    raise _name_missing("topi", name, __all__)
