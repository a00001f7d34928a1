"""Expressions as operands of numpy: arithmetic and comparisons work, other functions raise."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.base import ExprError

from .numeric import BINARY, INTRINSICS

OPERATORS = {  # numpy's name -> our operator; np.float32(2) * A[i] calls multiply
    **{each.ufunc: op for op, each in BINARY.items() if each.ufunc},
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "negative": "neg",
    "invert": "not",
    "absolute": "abs",
}
FUNCTIONS = {f"te.{name}": each.meaning for name, each in INTRINSICS.items()}
INSTEAD = {  # numpy's name -> what to write
    **{f.__name__: name for name, f in FUNCTIONS.items() if isinstance(f, np.ufunc)},
    "maximum": "te.max(a, b)",
    "minimum": "te.min(a, b)",
    "logical_and": "te.all(a, b)",
    "logical_or": "te.any(a, b)",
    "logical_not": "~a",
    "rint": "te.round",
    "fabs": "te.abs",
    "square": "x * x",
    "reciprocal": "1 / x",
    "matmul": "te.sum over a te.reduce_axis, or topi.matmul of tensors",
}
FOLDS = {"add": "te.sum", "multiply": "te.prod", "maximum": "te.max", "minimum": "te.min"}


def operator_of(name: str, method: str, options: bool) -> str:
    """Return the operator on expressions that corresponds to the numpy function `name`.

    method    the ufunc method that numpy calls: "__call__", "reduce", ...
    options   whether keyword arguments such as out= or where= are given

    Raises ExprError, which suggests a replacement, if no operator corresponds to the call.
    """
    if method == "reduce":
        fix = f"{FOLDS.get(name, 'te.sum')}(x, axis=k) with k = te.reduce_axis((0, K))"
        why = "an expression has no value yet"
        raise ExprError(f"numpy.{name}.reduce of an expression", why, fix)
    if method != "__call__" or name not in OPERATORS or options:
        fix = INSTEAD.get(name, "the operators and the functions of te")
        raise ExprError(f"numpy.{name} of an expression", "an expression has no value yet", fix)
    return OPERATORS[name]


class NotANumber:
    """A base class that raises ExprError where Python or numpy needs a number, bool or array."""

    __slots__ = ()

    def __bool__(self) -> bool:
        what = "an expression has no truth value while the program is being built"
        fix = "te.if_then_else(cond, a, b), te.all(...), te.any(...) or tir.Not(...)"
        raise ExprError(what, "`if`, `and`, `or`, `not` and chained comparisons need one", fix)

    def __index__(self) -> int:
        raise ExprError(
            "expected a Python number, found an expression",
            "an expression has no value while the program is being built; range, int, float and "
            "the indices of lists and numpy arrays need one",
            "a te.placeholder for data, read as A[i, j]; te.sum over a te.reduce_axis for a loop",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ExprError(
            "expected a numpy array, found an expression",
            "an expression has no value while the program is being built, and an axis cannot index "
            "a numpy array",
            "a te.placeholder for data, read as A[i, j]; te.exp, te.if_then_else, ... for numpy's "
            "functions",
        )
