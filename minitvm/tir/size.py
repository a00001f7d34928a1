"""Depth and size of expressions, measured without recursion, and limits on both."""

from __future__ import annotations

from typing import Any

from minitvm.base import DType, ExprError

from .nodes import Binary, BinaryOp, Call, Expr
from .walk import Node, children, map_inside

CHAINS = ("add", "sub", "mul", "and", "or")  # operators that may be regrouped

DEEPEST = 150  # nested operations; parsers and recursion limits allow little more
GROUP = 64  # terms per group where a sum has too many
LARGEST = 20_000  # operations; shared parts count each time they occur
CALL = 20  # operations that exp or tanh becomes
FOLD = "te.sum(..., axis=k) with k = te.reduce_axis((0, K)) instead of a loop in Python"


def measure(e: Node) -> tuple[int, int]:
    """Return (depth, size) of a node: nested operations, and operations when written out.

    Shared parts are visited once: x = x * x, repeated, has a size of 2**n but n nodes.
    """
    known: dict[int, tuple[int, int]] = {}
    stack: list[Node] = [e]
    while stack:
        n = stack[-1]
        inside = children(n)
        todo = [c for c in inside if id(c) not in known]
        if todo:
            stack += todo
            continue
        stack.pop()
        parts = [known[id(c)] for c in inside]
        own = CALL if isinstance(n, Call) else 1
        known[id(n)] = 1 + max((d for d, _ in parts), default=-1), own + sum(s for _, s in parts)
    return known[id(e)]


def shallow(e: Expr) -> Expr:
    """Sum up the terms of long sums in groups, so that `e` is not nested too deeply.

    a1 + a2 + ... + a169 nests 168 operations; (a1 + ... + a64) + (a65 + ... + a128) + (...) nests
    65. Products, `and` and `or` likewise. An expression that is not too deep stays as it is.
    """
    depth, size = measure(e)
    return _grouped(e, 0) if depth > DEEPEST and size <= LARGEST else e


def _grouped(e: Any, depth: int) -> Any:
    if depth > DEEPEST // 2:  # too deep for other reasons: check_size says so
        return e
    if not isinstance(e, Binary) or e.op not in CHAINS:
        return map_inside(e, lambda x: _grouped(x, depth + 1))
    op = "add" if e.op == "sub" else e.op
    terms: list[tuple[bool, Expr]] = []
    terms += [(sign, _grouped(x, depth + 1)) for sign, x in _terms(e, op)]
    while len(terms) > 1:
        groups = [terms[k : k + GROUP] for k in range(0, len(terms), GROUP)]
        terms = [(g[0][0], _folded(g, op, e.dtype)) for g in groups]
    return terms[0][1]


def _terms(e: Expr, op: str) -> list[tuple[bool, Expr]]:
    """Return the signed terms of `e`, from left to right: a - b + c -> +a, -b, +c."""
    found: list[tuple[bool, Expr]] = []
    waiting = [(True, e)]
    while waiting:
        plus, x = waiting.pop()
        if isinstance(x, Binary) and (x.op == op or (x.op, op) == ("sub", "add")):
            waiting += [(plus == (x.op != "sub"), x.b), (plus, x.a)]
        else:
            found.append((plus, x))
    return found


def _folded(terms: list[tuple[bool, Expr]], op: BinaryOp, type_: DType) -> Expr:
    """Sum the terms from left to right, relative to the sign of the first: -a + b -> a - b."""
    plus, total = terms[0]
    for sign, x in terms[1:]:
        total = Binary(op if sign == plus else "sub", total, x, type_)
    return total


def check_depth(n: Node, what: str) -> None:
    """Raise ExprError if `n`, part of `what`, is nested too deeply to be compiled."""
    _not_deeper(measure(n)[0], what)


def _not_deeper(depth: int, what: str) -> None:
    if depth > DEEPEST:
        why = f"it nests {depth} operations, and at most {DEEPEST} can be compiled"
        raise ExprError(what, why, f"{FOLD}; or several te.compute")


def check_size(e: Expr, what: str) -> None:
    """Raise ExprError if `e`, part of `what`, is too deep or too large to be compiled."""
    depth, size = measure(e)
    _not_deeper(depth, what)
    if size > LARGEST:
        why = f"it has {size} operations written out, and at most {LARGEST} can be compiled"
        raise ExprError(what, why, f"{FOLD}; or a te.compute for the parts used repeatedly")
