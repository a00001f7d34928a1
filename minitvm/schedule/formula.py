"""Parse the formulas in steps: strings of index arithmetic that are not executed as Python."""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Callable
from typing import Any

from minitvm.base import ScheduleError

LONGEST = 500  # characters of a formula in a step; Python cannot parse very deep nesting
GREATEST = 2**31  # no array is longer, so no layout needs a larger integer


def parsed(source: str) -> ast.expr:
    """Parse the formula `source`; raise ScheduleError if it is invalid."""
    try:
        if len(source) <= LONGEST:
            return ast.parse(source, mode="eval").body
        why = f"it has {len(source)} characters, at most {LONGEST} are read"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        why = str(e)
    shown = reprlib.repr(source)
    raise ScheduleError(f"formula {shown} in a step", why, "a string such as 'i // 16'")


def arithmetic(n: ast.expr, env: dict[str, Any], source: str) -> Any:
    """Evaluate the parsed formula `n`; `env` gives the values of its names.

    Raises ScheduleError, quoting `source`, unless `n` consists of ints, names and + - * // %.
    """
    match n:
        case ast.Constant(value=int() as v) if type(v) is int and v < GREATEST:
            return v
        case ast.Name(id=name) if name in env:
            return env[name]
        case ast.UnaryOp(ast.USub(), a):
            return -1 * arithmetic(a, env, source)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            if isinstance(op, ast.FloorDiv | ast.Mod) and not _is_positive(right):
                raise ScheduleError(f"formula {source!r}", "a divisor is an integer >= 1")
            return _OPERATORS[type(op)](
                arithmetic(left, env, source), arithmetic(right, env, source)
            )
        case _:
            why = f"it is not made of {', '.join(env) or 'names'}, integers, + - * // and %"
            raise ScheduleError(f"formula {source!r}", why)


def _is_positive(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value >= 1


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
