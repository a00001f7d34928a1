"""Evaluate indices and conditions in one iteration of the enclosing loops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from minitvm import tir
from minitvm.base import BuildError

COMPARE: dict[tir.CompareOp, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def value(e: tir.Index, env: Mapping[tir.Var, int]) -> int:
    """Return the value of an index for the variables `env`; raise BuildError if it needs data."""
    match e:
        case int():
            return e
        case tir.Var():
            return env[e]
        case tir.Linear(terms, const):
            return const + sum(c * value(a, env) for a, c in terms)
        case tir.FloorDiv(a, b):
            return value(a, env) // value(b, env)
        case tir.FloorMod(a, b):
            return value(a, env) % value(b, env)
        case tir.Product(a, b):
            return value(a, env) * value(b, env)
        case tir.Extremum(op, a, b):
            return (min if op == "min" else max)(value(a, env), value(b, env))
        case _:
            why = "it depends on data, and instructions have fixed addresses"
            raise BuildError(f"index {tir.text(e)}", why, "indices computed from loop variables")


def holds(e: tir.Expr, env: Mapping[tir.Var, int]) -> bool:
    """Return whether a condition on indices is true; raise BuildError if it depends on data."""
    match e:
        case tir.Const(truth):
            return bool(truth)
        case tir.Not(a):
            return not holds(a, env)
        case tir.Binary("and", a, b):
            return holds(a, env) and holds(b, env)
        case tir.Binary("or", a, b):
            return holds(a, env) or holds(b, env)
        case tir.Compare(op, a, b) if tir.is_index(a) and tir.is_index(b):
            return COMPARE[op](value(a, env), value(b, env))
        case _:
            why = "it depends on data, and the accelerator has no branches"
            raise BuildError(f"condition {tir.text(e)}", why, "conditions on indices")
