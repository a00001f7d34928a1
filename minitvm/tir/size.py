"""How large an expression is, measured without recursion: what is deeper breaks what recurses."""

from __future__ import annotations

from minitvm.base import ExprError

from .nodes import Expr
from .walk import Node, children

DEEPEST = 150  # nested operations; parsers and recursion limits allow little more
LARGEST = 20_000  # operations, those of shared parts counted each time they occur
FOLD = "te.sum(..., axis=k) with k = te.reduce_axis((0, K)) instead of a loop in Python"


def measure(e: Node) -> tuple[int, int]:
    """(depth, size) of a node: nested operations, and all operations written out.

    Shared parts are looked at once: x = x * x, repeated, has a size of 2**n but n nodes.
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
        known[id(n)] = 1 + max((d for d, _ in parts), default=-1), 1 + sum(s for _, s in parts)
    return known[id(e)]


def check_depth(n: Node, what: str) -> None:
    """ExprError if `n`, part of `what`, is nested too deeply to be compiled."""
    depth, _ = measure(n)
    if depth > DEEPEST:
        why = f"{depth} operations are nested in it, at most {DEEPEST} can be"
        raise ExprError(what, why, f"{FOLD}; or several te.compute")


def check_size(e: Expr, what: str) -> None:
    """ExprError if `e`, part of `what`, is nested too deeply or is too large to be compiled."""
    check_depth(e, what)
    _, size = measure(e)
    if size > LARGEST:
        why = f"it has {size} operations written out, at most {LARGEST} can be handled"
        raise ExprError(what, why, f"{FOLD}; or a te.compute for the parts used repeatedly")
