"""The operations on values: what they mean for numpy scalars and arrays, and how they are written.

Integers wrap around, and no operation raises. Call these functions under
`np.errstate(all="ignore")`, since numpy warns where C does not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import BOOL, INT8, INT32, UINT8, DType, holds_floats

Kinds: TypeAlias = tuple[str, ...]  # values of DType.kind
BOOLS: Kinds = ("bool",)
FLOATS: Kinds = ("float",)
INTEGERS: Kinds = ("int", "uint")
NUMBERS: Kinds = (*FLOATS, *INTEGERS)


@dataclass(frozen=True, slots=True)
class Operator:
    """The description of a binary operator.

    on         the kinds of types that its operands, which have one type, may have
    sign       how it is printed between its operands; "" for a function, such as min(a, b)
    strength   how tightly it binds; a larger number binds tighter
    ufunc      the name of numpy's function for which an expression builds this operator, or ""
    """

    meaning: Callable[[Any, Any], Any]
    on: Kinds
    sign: str = ""
    strength: int = 9
    ufunc: str = ""


def _truncdiv(a: Any, b: Any) -> Any:
    """Return a / b for integers, rounded towards zero; division by 0 gives 0."""
    inexact = (a % b != 0) & ((a < 0) != (b < 0))
    return a // b + inexact.astype(a.dtype)


# Division by zero gives 0. A shift by at least the width gives 0, or -1 for a negative `a >> b`.
# Both sides of `and` and `or` are computed: a load on the right is not guarded. Minimum and maximum
# are NaN if an operand is NaN; of 0.0 and -0.0, they may give either.
BINARY: dict[str, Operator] = {
    "add": Operator(lambda a, b: a + b, NUMBERS, "+", 6, "add"),
    "sub": Operator(lambda a, b: a - b, NUMBERS, "-", 6, "subtract"),
    "mul": Operator(lambda a, b: a * b, NUMBERS, "*", 7, "multiply"),
    "div": Operator(lambda a, b: a / b, FLOATS, "/", 7, "divide"),
    "floordiv": Operator(lambda a, b: a // b, INTEGERS, "//", 7, "floor_divide"),
    "floormod": Operator(lambda a, b: a % b, INTEGERS, "%", 7, "remainder"),
    "truncdiv": Operator(_truncdiv, INTEGERS),
    "truncmod": Operator(np.fmod, INTEGERS),
    "min": Operator(np.minimum, NUMBERS),
    "max": Operator(np.maximum, NUMBERS),
    "pow": Operator(lambda a, b: a**b, FLOATS, "**", 8, "power"),
    "and": Operator(np.logical_and, BOOLS, "and", 1),
    "or": Operator(np.logical_or, BOOLS, "or", 0),
    "bitand": Operator(lambda a, b: a & b, INTEGERS, "&", 4, "bitwise_and"),
    "bitor": Operator(lambda a, b: a | b, INTEGERS, "|", 2, "bitwise_or"),
    "bitxor": Operator(lambda a, b: a ^ b, INTEGERS, "^", 3, "bitwise_xor"),
    "shl": Operator(lambda a, b: a << b, INTEGERS, "<<", 5, "left_shift"),
    "shr": Operator(lambda a, b: a >> b, INTEGERS, ">>", 5, "right_shift"),
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def _elementwise(f: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return a function that applies `f` to each element of an array and keeps its dtype."""
    vectorized = np.vectorize(f, otypes=[np.float64])
    return lambda x: vectorized(x).astype(np.asarray(x).dtype)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _clz(x: Any) -> Any:
    """Return the number of leading zero bits of each integer in `x`."""
    bits = x.dtype.itemsize * 8
    pattern = x.astype(f"uint{bits}")
    return np.sum([pattern >> n == 0 for n in range(bits)], axis=0, dtype=np.int32)


def _dot4(acc: Any, *factors: Any) -> Any:
    """Return acc + a0*b0 + a1*b1 + a2*b2 + a3*b3 in int32, with wrap-around.

    factors   a0, a1, a2, a3, b0, b1, b2, b3
    """
    for a, b in zip(factors[:4], factors[4:], strict=True):
        acc = acc + np.multiply(a, b, dtype=np.int32)
    return acc


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """The description of an intrinsic function.

    args      the number of operands
    meaning   the same function on numpy arrays
    on        the DType.kind values that the operands may have; all must have the same type
    gives     the type of the result; None if it is the type of the first operand
    takes     the type of each operand, if the types are fixed; otherwise ()
    """

    args: int
    meaning: Callable[..., Any]
    on: Kinds = FLOATS
    gives: DType | None = None
    takes: tuple[DType, ...] = ()


DOT4: dict[str, tuple[DType, DType]] = {  # what one lane of a CPU's instruction does; its bytes
    "dot4": (UINT8, INT8),
    "sdot4": (INT8, INT8),
    "udot4": (UINT8, UINT8),
}


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
    "asin": Intrinsic(1, np.arcsin),
    "acos": Intrinsic(1, np.arccos),
    "atan2": Intrinsic(2, np.arctan2),
    "log1p": Intrinsic(1, np.log1p),
    "hypot": Intrinsic(2, np.hypot),
    "copysign": Intrinsic(2, np.copysign),
    "sinh": Intrinsic(1, np.sinh),
    "cosh": Intrinsic(1, np.cosh),
    "tanh": Intrinsic(1, np.tanh),
    "sigmoid": Intrinsic(1, _sigmoid),
    "erf": Intrinsic(1, _elementwise(math.erf)),
    "floor": Intrinsic(1, np.floor),
    "ceil": Intrinsic(1, np.ceil),
    "trunc": Intrinsic(1, np.trunc),
    "round": Intrinsic(1, np.round),  # halves to even
    "abs": Intrinsic(1, np.abs, on=NUMBERS),
    "clz": Intrinsic(1, _clz, on=INTEGERS, gives=INT32),
    "fmod": Intrinsic(2, np.fmod),
    "isnan": Intrinsic(1, np.isnan, gives=BOOL),
    "isfinite": Intrinsic(1, np.isfinite, gives=BOOL),
    "isinf": Intrinsic(1, np.isinf, gives=BOOL),
    **{n: Intrinsic(9, _dot4, takes=(INT32, *[a] * 4, *[b] * 4)) for n, (a, b) in DOT4.items()},
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
    if not (holds_floats(a) and to.is_integer):
        return a.astype(to.numpy)[()]
    whole = np.trunc(np.where(np.isnan(a), 0, a)).astype(np.float64)
    below, above = whole < float(to.low), whole >= float(to.high) + 1.0
    in_range = np.where(below | above, 0.0, whole).astype(to.numpy)
    least, most = np.array([to.low, to.high], to.numpy)
    return np.where(below, least, np.where(above, most, in_range))[()]
