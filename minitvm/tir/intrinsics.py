"""The intrinsic functions a formula may call: one literal table, and their meaning in numpy."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.base import BOOL, ExprError

from .nodes import Call, Expr
from .value import unify, value


def _elementwise(f: Callable[[float], float]) -> Callable[[Any], Any]:
    """`f` over arrays, keeping their dtype (numpy has no erf of its own)."""
    over = np.vectorize(f, otypes=[np.float64])
    return lambda x: over(x).astype(np.asarray(x).dtype)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """`args` operands of one float type; `meaning` on numpy arrays; bool result if `test`."""

    args: int
    meaning: Callable[..., Any]
    test: bool = False


INTRINSICS: dict[str, Intrinsic] = {
    "exp": Intrinsic(1, np.exp),
    "exp2": Intrinsic(1, np.exp2),
    "log": Intrinsic(1, np.log),
    "log2": Intrinsic(1, np.log2),
    "log10": Intrinsic(1, np.log10),
    "sqrt": Intrinsic(1, np.sqrt),
    "rsqrt": Intrinsic(1, _rsqrt),
    "sin": Intrinsic(1, np.sin),
    "cos": Intrinsic(1, np.cos),
    "tan": Intrinsic(1, np.tan),
    "atan": Intrinsic(1, np.arctan),
    "sinh": Intrinsic(1, np.sinh),
    "cosh": Intrinsic(1, np.cosh),
    "tanh": Intrinsic(1, np.tanh),
    "sigmoid": Intrinsic(1, _sigmoid),
    "erf": Intrinsic(1, _elementwise(math.erf)),
    "floor": Intrinsic(1, np.floor),
    "ceil": Intrinsic(1, np.ceil),
    "trunc": Intrinsic(1, np.trunc),
    "round": Intrinsic(1, np.round),  # halves to even
    "abs": Intrinsic(1, np.abs),
    "fmod": Intrinsic(2, np.fmod),
    "isnan": Intrinsic(1, np.isnan, test=True),
    "isfinite": Intrinsic(1, np.isfinite, test=True),
    "isinf": Intrinsic(1, np.isinf, test=True),
}


def intrinsic(name: str, *args: Any) -> Call:
    """`name(*args)`, e.g. intrinsic("exp", A[i]). Operands must be floats (abs: any number)."""
    known = INTRINSICS.get(name)
    if known is None:
        raise ExprError(f"{name}(...)", "no such intrinsic", f"one of {', '.join(INTRINSICS)}")
    if len(args) != known.args:
        raise ExprError(f"{name}(...)", f"takes {known.args} arguments, {len(args)} given")
    values: tuple[Expr, ...] = unify(*args) if known.args == 2 else (value(args[0]),)
    kind = values[0].dtype
    if not kind.is_float and not (name == "abs" and kind.is_integer):
        raise ExprError(f"{name} of {kind}", "it takes floats", "x.astype('float32') first")
    return Call(name, values, BOOL if known.test else kind)
