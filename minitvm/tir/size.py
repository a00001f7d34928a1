"""Limits on the depth and size of expressions, measured without recursion."""

from __future__ import annotations

from typing import Any

from minitvm.base import DType, ExprError

from .nodes import Binary, BinaryOp, Call, Expr
from .walk import Node, children, map_inside

CHAINS = ("add", "sub", "mul", "and", "or")  # operators that may be regrouped

DEEPEST = 150  # nested operations; parsers and recursion limits allow little more
GROUP = 64  # terms per group of a sum that has too many terms
LARGEST = 20_000  # operations; shared parts count each time they occur
CALL = 20  # operations that a call, such as exp, counts as
FOLD = "te.sum(..., axis=k) with k = te.reduce_axis((0, K)) instead of a loop in Python"


def measure(e: Node) -> tuple[int, int]:
    """Return (depth, size): how deeply operations nest in `e`, and how many there are.

    `size` includes a shared node each time it is used, although it is visited once: repeating
    x = x * x n times makes n nodes of size 2**n.
    """
    known: dict[int, tuple[int, int]] = {}
    stack: list[Node] = [e]
    while stack:
        n = stack[-1]
        child_nodes = children(n)
        todo = [c for c in child_nodes if id(c) not in known]
        if todo:
            stack += todo
            continue
        stack.pop()
        parts = [known[id(c)] for c in child_nodes]
        size = CALL if isinstance(n, Call) else 1
        known[id(n)] = 1 + max((d for d, _ in parts), default=-1), size + sum(s for _, s in parts)
    return known[id(e)]


def shallow(e: Expr) -> Expr:
    """Reduce the nesting of `e` by adding the terms of long sums in groups of GROUP.

    a1 + a2 + ... + a169 nests 168 operations; (a1 + ... + a64) + (a65 + ... + a128) + (...) nests
    65. The same is done for products, `and` and `or`. Return `e` itself if it is not too deep.
    """
    depth, size = measure(e)
    return _grouped(e, 0) if depth > DEEPEST and size <= LARGEST else e


def _grouped(e: Any, depth: int) -> Any:
    """Rewrite chains of one operation, such as long sums, as balanced trees."""
    if depth > DEEPEST // 2:  # operations other than sums nest too deeply: check_size raises
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
    """Return the terms of `e` from left to right, as (is positive, term): a - b -> +a, -b.

    op   the operator that joins them; with "add", differences are split into terms too
    """
    terms: list[tuple[bool, Expr]] = []
    stack = [(True, e)]
    while stack:
        plus, x = stack.pop()
        if isinstance(x, Binary) and (x.op == op or (x.op, op) == ("sub", "add")):
            stack += [(plus == (x.op != "sub"), x.b), (plus, x.a)]
        else:
            terms.append((plus, x))
    return terms


def _folded(terms: list[tuple[bool, Expr]], op: BinaryOp, type_: DType) -> Expr:
    """Join (is positive, term) pairs by `op`, from left to right.

    The result is the sum times the sign of the first term: -a + b -> a - b.
    """
    plus, total = terms[0]
    for sign, x in terms[1:]:
        total = Binary(op if sign == plus else "sub", total, x, type_)
    return total


def check_depth(n: Node, what: str) -> None:
    """Raise ExprError if `n` is nested too deeply to compile; `what` begins the message."""
    _not_deeper(measure(n)[0], what)


def _not_deeper(depth: int, what: str) -> None:
    if depth > DEEPEST:
        why = f"it nests {depth} operations, and at most {DEEPEST} can be compiled"
        raise ExprError(what, why, f"{FOLD}; or several te.compute")


def check_size(e: Expr, what: str) -> None:
    """Raise ExprError if `e` is too deep or too large to compile; `what` begins the message."""
    depth, size = measure(e)
    _not_deeper(depth, what)
    if size > LARGEST:
        why = f"it has {size} operations written out, and at most {LARGEST} can be compiled"
        raise ExprError(what, why, f"{FOLD}; or a te.compute for the parts used repeatedly")
