"""The meaning of the operators on values, as functions of numpy scalars and arrays.

Integers wrap around, and no operation raises. Call these functions under
`np.errstate(all="ignore")`, since numpy warns where C does not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.base import DType


def _truncdiv(a: Any, b: Any) -> Any:
    """Return a / b for integers, rounded towards zero; division by 0 gives 0."""
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return a // b + inexact.astype(a.dtype)


# Division by zero gives 0. A shift by at least the width gives 0, or -1 for a negative `a >> b`.
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": _truncdiv,
    "truncmod": np.fmod,
    "min": np.minimum,  # NaN if an operand is NaN; the zero of 0.0 and -0.0 may be either
    "max": np.maximum,
    "pow": lambda a, b: a**b,
    "and": np.logical_and,  # both sides are computed: a load on the right is not guarded
    "or": np.logical_or,
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def choose(cond: Any, a: Any, b: Any) -> Any:
    """Return `a` in the elements where `cond` is true, and `b` in the others."""
    return np.where(cond, np.asarray(a), np.asarray(b))[()]  # [()] makes a 0-d array a scalar


def convert(x: Any, to: DType) -> Any:
    """Convert `x` (numpy scalar, array or int) to type `to`.

    Integers wrap around. A float that is converted to an integer type is truncated and then clipped
    to the range of the type; NaN becomes 0.
    """
    a = np.asarray(x)
    if a.dtype.kind != "f" or not to.is_integer:
        return a.astype(to.numpy)[()]
    whole = np.trunc(np.where(np.isnan(a), 0, a)).astype(np.float64)
    below, above = whole < float(to.low), whole >= float(to.high) + 1.0
    inside = np.where(below | above, 0.0, whole).astype(to.numpy)
    least, most = np.array([to.low, to.high], to.numpy)
    return np.where(below, least, np.where(above, most, inside))[()]
