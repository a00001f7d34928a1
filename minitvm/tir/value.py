"""Constructors of typed values. They convert their operands to a common dtype."""

from __future__ import annotations

import functools
import math
import operator
import reprlib
from collections.abc import Callable
from numbers import Real
from typing import Any, cast

import numpy as np

from minitvm.base import BOOL, FLOAT32, INT32, INT64, UINT64, DType, ExprError, dtype, promote

from .index import (
    add,
    as_index,
    floordiv,
    floormod,
    is_index,
    lower_bound,
    maximum,
    minimum,
    mul,
    nonneg,
    sub,
    upper_bound,
)
from .nodes import (
    FALSE,
    INF,
    TRUE,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    IfThenElse,
    Index,
    Load,
    Not,
    Select,
)
from .numeric import BINARY, COMPARE

INDEX_OPS: dict[str, Callable[[Index, Index], Index]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "floordiv": floordiv,
    "floormod": floormod,
    "min": minimum,
    "max": maximum,
}
NUMPY_FLOATS: tuple[type[Any], ...] = (np.floating,)  # np.float64 is a float, too


def operand(x: Any) -> Expr | int | float:
    """Convert an operand of a formula to an expression, an int (an index) or a float (a literal).

    Raises ExprError for anything that is not an expression, axis, tensor element or number.
    """
    if isinstance(x, Expr | float) or type(x) is int:
        return x
    if isinstance(x, bool | np.bool_):
        return TRUE if x else FALSE
    if isinstance(x, NUMPY_FLOATS):
        return Const(float(x), dtype(x.dtype.name))
    if hasattr(x, "__expr__"):
        return x.__expr__()
    if isinstance(x, np.ndarray):
        return _scalar(cast("np.ndarray[Any, Any]", x))
    try:
        return operator.index(x)
    except TypeError:
        why = "only expressions, axes, tensor elements and numbers can be combined"
        fix = "index a tensor, A[i, j], before using it" if hasattr(x, "shape") else ""
        raise ExprError(f"{type(x).__name__} in a formula", why, fix) from None


def _scalar(a: np.ndarray[Any, Any]) -> Expr | int | float:
    """Return the element of a 0-d array, which numpy makes from a scalar; else raise ExprError."""
    if a.ndim:
        why = "data is passed when the compiled function is called"
        fix = 'A = te.placeholder(a.shape, "float32"), and A[i, j] in the formula'
        raise ExprError("a numpy array in a formula", why, fix)
    return operand(a[()])


def const(value: float | bool, type_: str | None = None) -> Const:
    """Return `value` as a literal of type `type_`, by default float32, int32 or bool.

    Raises ExprError if the type cannot represent the value.
    """
    if type_ is None:
        type_ = BOOL if isinstance(value, bool) else FLOAT32 if isinstance(value, float) else INT32
    kind = dtype(type_)
    if not isinstance(value, Real | np.bool_):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"const({reprlib.repr(value)})", "not a number")
    if kind.is_integer and not kind.low <= value <= kind.high:
        shown = reprlib.repr(value) if isinstance(value, int) else value
        raise ExprError(f"const({shown}, {kind})", f"{kind} holds {kind.low} .. {kind.high}")
    if kind.is_integer and value != int(value):
        raise ExprError(f"const({value}, {kind})", "not an integer", f"const({int(value)}, {kind})")
    number = {"bool": bool, "float": float}.get(kind.kind, int)
    try:
        return Const(number(value), kind)
    except OverflowError:
        what = f"const({reprlib.repr(value)}, {kind})"
        raise ExprError(what, "too large for a float", 'float("inf")') from None


def value(x: Any, like: DType | None = None) -> Expr:
    """Convert `x` to a typed value.

    A literal gets the type `like` if that type can represent it, else float32 or int32.
    """
    e = operand(x)
    if isinstance(e, float):
        return const(e, like if like is not None and like.is_float else FLOAT32)
    if isinstance(e, int):
        fits = like is not None and like is not BOOL and like.low <= e <= like.high
        return const(e, like if fits and like is not None else INT32)
    return Cast(e, _type_of_index(e, like)) if is_index(e) else e


def _type_of_index(e: Expr, like: DType | None) -> DType:
    """Return the type of the index `e` as a value, in an operation with a value of type `like`.

    It is `like` if that is a float type, or an integer type of at least 32 bits that represents all
    values of `e`; else a wider type. It is int32 if `like` is None. Raises ExprError if the values
    of `e` do not fit.
    """
    if like is not None and like.is_float:
        return like
    if like is not None and like.bits >= INT32.bits and _holds(like, e):
        return like
    to = INT32 if like is None else promote(INT32, like)
    if _holds(to, e):
        return to
    what = f"an index in {lower_bound(e)} .. {upper_bound(e)} as a value of type {to}"
    why = f"the range of {to} is {to.low} .. {to.high}"
    raise ExprError(what, why, f"x.astype('int64'), or x.astype('{to}') if it should wrap")


def _holds(kind: DType, e: Index) -> bool:
    """Return whether `kind` can represent all values of `e`; unknown bounds are assumed to fit."""
    lo, hi = lower_bound(e), upper_bound(e)
    above = lo >= kind.low or (lo == -INF and kind.kind == "int")
    return above and (hi == INF or hi <= kind.high)


def cast_to(x: Any, type_: str) -> Expr:
    """Convert `x` to `type_`; return the same object if it already has that type."""
    to = dtype(type_)
    e = operand(x)
    if isinstance(e, int | float):
        whole = to.is_integer and isinstance(e, float) and math.isfinite(e)
        return const(int(e) if whole else e, to)
    if isinstance(e, Const) and to.is_float:
        return Const(float(e.dtype.numpy.type(e.value)), to)  # float32(0.1) is not float64(0.1)
    if not is_index(e) and e.dtype is to:
        return e
    return Cast(e, to)


def index(x: Any) -> Index:
    """Convert `x`, an int, an index or a typed integer, to an index; else raise ExprError."""
    e = operand(x)
    if isinstance(e, int) or (isinstance(e, Expr) and is_index(e)):
        _fits(e)
        return e
    if isinstance(e, Expr) and e.dtype.is_integer:
        return index_of_value(e)
    kind = e.dtype if isinstance(e, Expr) else type(e).__name__
    raise ExprError(f"an index of type {kind}", "indices are integers", "x.astype('int32')")


def _fits(*operands: Expr | float) -> None:
    """Raise ExprError if one of `operands` is an int of more than 64 bits."""
    for e in operands:
        if type(e) is int and not -(2**63) <= e < 2**63:
            raise ExprError(f"the index {reprlib.repr(e)}", "indices have 64 bits", "a float")


def index_of_value(e: Expr) -> Index:
    """Convert the typed integer `e` to an index. Its range follows from its type or its arms.

    A uint64 from 2**63 on wraps, as indices are int64.
    """
    wide = e.dtype.bits >= INT32.bits
    if isinstance(e, Cast) and wide and is_index(e.value) and _holds(e.dtype, e.value):
        return e.value
    if isinstance(e, Const):
        return (int(e.value) + 2**63) % 2**64 - 2**63
    wrapped = Cast(e, INT64) if e.dtype is UINT64 else e
    if isinstance(e, Select | IfThenElse):
        a, b = index_of_value(e.a), index_of_value(e.b)
        lo, hi = min(lower_bound(a), lower_bound(b)), max(upper_bound(a), upper_bound(b))
        return as_index(wrapped, lo, hi)
    return as_index(wrapped, wrapped.dtype.low, wrapped.dtype.high)


def unify(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Return both operands, converted to their common type."""
    a, b = operand(a), operand(b)
    va = value(a, b.dtype if isinstance(b, Expr) else FLOAT32 if isinstance(b, float) else None)
    vb = value(b, va.dtype)
    to = promote(va.dtype, vb.dtype)
    return cast_to(va, to), cast_to(vb, to)


def binary(op: BinaryOp, a: Any, b: Any) -> Expr | int:
    """Return a op b: an index if both operands are indices, else a value of their common type."""
    a, b = operand(a), operand(b)
    if is_index(a) and is_index(b):
        _fits(a, b)
        if op in INDEX_OPS:
            return INDEX_OPS[op](cast("Index", a), cast("Index", b))
        if op == "div":
            raise ExprError("/ on integers", "it does not say how to round", "//, or cast first")
    x, y = unify(a, b)
    to = x.dtype
    if to is BOOL:
        raise ExprError(f"{op} on bool", "not a number", "x.astype('int32'), te.all or te.any")
    if to.kind not in BINARY[op].on:
        floats, integers = ("floats", "cast first, or // and %"), ("integers", "te.floor(a / b)")
        kinds, fix = integers if to.is_float else floats
        raise ExprError(f"{op} on {to}", f"it is defined on {kinds}", fix)
    return Binary(op, x, y, to)


def compare(op: CompareOp, a: Any, b: Any) -> Expr:
    """Return the comparison a op b, or TRUE or FALSE if the ranges of two indices decide it."""
    a, b = operand(a), operand(b)
    if not (is_index(a) and is_index(b)):
        x, y = unify(a, b)
        return Compare(op, x, y)
    _fits(a, b)
    i, j = cast("Index", a), cast("Index", b)
    if op in (">", ">="):
        return compare("<" if op == ">" else "<=", j, i)
    gap = sub(j, i)
    if op in ("<", "<="):
        need = 1 if op == "<" else 0
        if nonneg(sub(gap, need)):
            return TRUE
        return FALSE if nonneg(sub(need - 1, gap)) else Compare(op, i, j)
    if isinstance(gap, int):
        return TRUE if (gap == 0) == (op == "==") else FALSE
    if nonneg(sub(gap, 1)) or nonneg(sub(-1, gap)):
        return FALSE if op == "==" else TRUE
    return Compare(op, i, j)


def _bools(name: str, conds: tuple[Any, ...]) -> list[Expr]:
    values = [value(c) for c in conds]
    for c in values:
        if c.dtype is not BOOL:
            raise ExprError(f"{name} of a {c.dtype}", "it takes conditions", "compare: x > 0")
    return values


def all_of(*conds: Any) -> Expr:
    """Build the condition that all of `conds` are true; TRUE without any `conds`."""
    condition: Expr = TRUE
    for c in _bools("all", conds):
        if c is FALSE:
            return FALSE
        if c is not TRUE:
            condition = c if condition is TRUE else Binary("and", condition, c, BOOL)
    return condition


def any_of(*conds: Any) -> Expr:
    """Build the condition that at least one of `conds` is true; FALSE without any `conds`."""
    condition: Expr = FALSE
    for c in _bools("any", conds):
        if c is TRUE:
            return TRUE
        if c is not FALSE:
            condition = c if condition is FALSE else Binary("or", condition, c, BOOL)
    return condition


def negate(cond: Any) -> Expr:
    """Return the logical negation of the condition `cond`."""
    (c,) = _bools("not", (cond,))
    if isinstance(c, Not):
        return c.a
    return Not(c) if c is not TRUE and c is not FALSE else (FALSE if c is TRUE else TRUE)


def _arms(name: str, cond: Any, a: Any, b: Any) -> tuple[Expr, Expr, Expr]:
    """Return the operands of the choice `name`, with both arms converted to their common type."""
    (c,) = _bools(name, (cond,))
    return c, *unify(a, b)


def select(cond: Any, a: Any, b: Any) -> Expr:
    """Return `a` where `cond` is true, else `b`. Both may be computed, so this guards no load."""
    c, x, y = _arms("select", cond, a, b)
    return x if c is TRUE else y if c is FALSE else Select(c, x, y, x.dtype)


Select.converted = staticmethod(functools.partial(_arms, "select"))


def if_then_else(cond: Any, a: Any, b: Any) -> Expr:
    """Return `a` if `cond` is true, else `b`. The other is not computed, so this guards loads."""
    c, x, y = _arms("if_then_else", cond, a, b)
    return x if c is TRUE else y if c is FALSE else IfThenElse(c, x, y, x.dtype)


def load(buffer: Any, *indices: Any) -> Load:
    """Return the load of buffer[indices]."""
    return Load(buffer, tuple(index(i) for i in indices), buffer.dtype)


def _negative(x: Any) -> Any:
    if is_index(x):
        return mul(x, -1)
    e = value(x)
    return binary("mul", e, -1.0) if e.dtype.is_float else binary("sub", 0, e)


def operate(op: str, a: Any, b: Any) -> Any:
    """Build the expression for a Python operator; the operator methods of Expr call this.

    op   "add", "<", ...; for a unary operator such as "neg", `b` is ignored
    """
    if op in COMPARE:
        return compare(cast("CompareOp", op), a, b)
    match op:
        case "bitand" | "bitor":
            x, y = unify(a, b)
            if x.dtype is BOOL:
                return all_of(x, y) if op == "bitand" else any_of(x, y)
            return binary(op, x, y)
        case "neg":
            return _negative(a)
        case "not":
            return negate(a)
        case "astype":
            return cast_to(a, b)
        case "abs":
            e = value(a)
            if e.dtype is BOOL:
                raise ExprError("abs of bool", "it is defined on numbers")
            return Call("abs", (e,), e.dtype)
        case _:
            return binary(cast("BinaryOp", op), a, b)


Expr.operate = staticmethod(operate)
