"""The public API for formulas and schedules, with the same names as TVM's `te`."""

from typing import Any as _Any

from minitvm.tensor import (
    Axis,
    ComputeOp,
    ExternOp,
    PlaceholderOp,
    Reduce,
    Tensor,
    TensorIntrin,
    comm_reducer,
    compute,
    decl_tensor_intrin,
    extern,
    max,
    max_value,
    min,
    min_value,
    placeholder,
    prod,
    reduce_axis,
    scan,
    scan_state,
    size_var,
    sum,
    var,
)
from minitvm.tir import (
    abs,
    acos,
    all,
    any,
    asin,
    atan,
    atan2,
    ceil,
    clz,
    const,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    floor,
    fmod,
    hardware_intrinsic,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)

from .math import floordiv, floormod
from .notation import define
from .schedule import Schedule, create_schedule
from .stage import StageView
from .thread import ThreadAxis, thread_axis
from .unsupported import missing

decl_tensor_intrinsic = decl_tensor_intrin  # as on the slides

__all__ = [
    "Axis", "ComputeOp", "ExternOp", "PlaceholderOp", "Reduce", "Schedule", "StageView", "Tensor",
    "TensorIntrin", "ThreadAxis", "abs", "acos", "all", "any", "asin", "atan", "atan2", "ceil",
    "clz", "comm_reducer", "compute", "const", "copysign", "cos", "cosh", "create_schedule",
    "decl_tensor_intrin", "decl_tensor_intrinsic", "define", "erf", "exp", "exp2", "extern",
    "floor", "floordiv", "floormod", "fmod", "hardware_intrinsic", "hypot", "if_then_else",
    "indexdiv", "indexmod", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "max",
    "max_value", "min", "min_value", "placeholder", "power", "prod", "reduce_axis", "round",
    "rsqrt", "scan", "scan_state", "sigmoid", "sin", "sinh", "size_var", "sqrt", "sum", "tan",
    "tanh", "thread_axis", "trunc", "truncdiv", "truncmod", "var",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Raise NameMissingError for an unknown name; for a name of TVM, suggest a replacement."""
    raise missing(name, __all__)
