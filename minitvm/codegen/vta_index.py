"""Indices and conditions as numbers, in one iteration of the loops around."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from minitvm.base import BuildError
from minitvm.tir import (
    Binary,
    Compare,
    CompareOp,
    Const,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Linear,
    Not,
    Product,
    Var,
    is_index,
    text,
)

COMPARE: dict[CompareOp, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def value(e: Index, env: Mapping[Var, int]) -> int:
    """An index where the variables have the values in `env`; BuildError if it is read from data."""
    match e:
        case int():
            return e
        case Var():
            return env[e]
        case Linear(terms, const):
            return const + sum(c * value(a, env) for a, c in terms)
        case FloorDiv(a, b):
            return value(a, env) // value(b, env)
        case FloorMod(a, b):
            return value(a, env) % value(b, env)
        case Product(a, b):
            return value(a, env) * value(b, env)
        case Extremum(op, a, b):
            return (min if op == "min" else max)(value(a, env), value(b, env))
        case _:
            raise BuildError(
                f"index {text(e)}",
                "it is read from data, and instructions have fixed addresses",
                "indices made of loops alone",
            )


def holds(e: Expr, env: Mapping[Var, int]) -> bool:
    """A condition on indices; BuildError if it depends on data."""
    match e:
        case Const(truth):
            return bool(truth)
        case Not(a):
            return not holds(a, env)
        case Binary("and", a, b):
            return holds(a, env) and holds(b, env)
        case Binary("or", a, b):
            return holds(a, env) or holds(b, env)
        case Compare(op, a, b) if is_index(a) and is_index(b):
            return COMPARE[op](value(a, env), value(b, env))
        case _:
            raise BuildError(
                f"condition {text(e)}",
                "it depends on data, and the accelerator has no branches",
                "conditions on indices",
            )
