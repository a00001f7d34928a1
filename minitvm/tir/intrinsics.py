"""The intrinsic functions that a formula may call, with their meaning in numpy."""

import math
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import BOOL, INT8, INT32, UINT8, DType, ExprError

from .nodes import Call, Expr
from .value import unify, value


def _elementwise(f: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return a function that applies `f` to each element of an array and keeps its dtype."""
    over = np.vectorize(f, otypes=[np.float64])
    return lambda x: over(x).astype(np.asarray(x).dtype)


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


Kinds: TypeAlias = tuple[str, ...]  # values of DType.kind
FLOATS: Kinds = ("float",)
INTEGERS: Kinds = ("int", "uint")


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
    "abs": Intrinsic(1, np.abs, on=(*FLOATS, *INTEGERS)),
    "clz": Intrinsic(1, _clz, on=INTEGERS, gives=INT32),
    "fmod": Intrinsic(2, np.fmod),
    "isnan": Intrinsic(1, np.isnan, gives=BOOL),
    "isfinite": Intrinsic(1, np.isfinite, gives=BOOL),
    "isinf": Intrinsic(1, np.isinf, gives=BOOL),
    **{n: Intrinsic(9, _dot4, takes=(INT32, *[a] * 4, *[b] * 4)) for n, (a, b) in DOT4.items()},
}


def intrinsic(name: str, *args: Any) -> Call:
    """Return the call `name(*args)`, e.g. intrinsic("exp", A[i])."""
    known = INTRINSICS.get(name)
    if known is None:
        raise ExprError(f"{name}(...)", "no such intrinsic", f"one of {', '.join(INTRINSICS)}")
    if len(args) != known.args:
        raise ExprError(f"{name}(...)", f"takes {known.args} arguments, {len(args)} given")
    if known.takes:
        return _typed(name, known, args)
    values: tuple[Expr, ...] = unify(*args) if known.args == 2 else (value(args[0]),)
    kind = values[0].dtype
    if kind.kind not in known.on:
        what, to = ("floats", "float32") if "float" in known.on else ("integers", "int32")
        raise ExprError(f"{name} of {kind}", f"it takes {what}", f"x.astype('{to}') first")
    return Call(name, values, known.gives or kind)


def _typed(name: str, known: Intrinsic, args: tuple[Any, ...]) -> Call:
    """Return a call of an intrinsic with fixed operand types; convert literals to these types."""
    values = tuple(value(a, t) for a, t in zip(args, known.takes, strict=True))
    for n, (v, t) in enumerate(zip(values, known.takes, strict=True)):
        if v.dtype is not t:
            fix = f"x.astype({str(t)!r}) if its values fit"
            raise ExprError(f"{name}: operand {n} is {v.dtype}", f"it must be {t}", fix)
    return Call(name, values, known.takes[0])


def dot4(acc: Any, a: Sequence[Any], b: Sequence[Any]) -> Call:
    """Return acc + a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3], an int32 that wraps.

    `acc` is an int32, `a` a list of four uint8 or int8, `b` a list of four int8; both may be lists
    of uint8. In a vectorized loop it is compiled to one instruction if the CPU has it and the four
    numbers of each operand are adjacent in memory: vpdpbusd for uint8 and int8 (Intel,
    "Architecture Instruction Set Extensions", 2018, AVX512_VNNI); on ARM also sdot and udot for
    equal types ("A-profile Architecture Reference Manual", FEAT_DotProd and FEAT_I8MM).
    """
    for given in (a, b):
        if not isinstance(given, list | tuple):
            what = f"dot4(acc, a, b): {reprlib.repr(given)}"
            raise ExprError(what, "not a list of four numbers", "[x[k] for k in range(4)]")
    if len(a) != 4 or len(b) != 4:
        raise ExprError("dot4(acc, a, b)", f"a has {len(a)} numbers and b {len(b)}, not four each")
    types = [{x.dtype for x in four if isinstance(x, Expr)} for four in (a, b)]
    name = next((n for n, kinds in DOT4.items() if types == [{kind} for kind in kinds]), "dot4")
    return intrinsic(name, acc, *a, *b)
