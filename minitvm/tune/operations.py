"""Arithmetic operations on data, counted by kind."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from minitvm import tir

OPERATIONS = ("mad", "add", "mul", "div", "compare", "math", "other", "int", "select")


@lru_cache(maxsize=1024)
def operations_of(value: tir.Expr) -> tuple[int, ...]:
    """Count arithmetic by kind, without that in indices: a + b*c is one "mad"."""
    counts = Counter[str]()
    _count(value, counts)
    return tuple(counts[name] for name in OPERATIONS)


def _count(e: tir.Expr, counts: Counter[str]) -> None:
    parts = [c for c in tir.children(e) if isinstance(c, tir.Expr) and not tir.is_index(c)]
    if isinstance(e, tir.Load):
        parts = []  # an index costs nothing
    kind = _kind(e)
    if kind == "add":
        product = next((c for c in parts if _kind(c) == "mul"), None)
        if product is not None:
            kind = "mad"
            parts = [c for c in parts if c is not product]
            parts += [c for c in tir.children(product) if isinstance(c, tir.Expr)]
    if kind:
        counts[kind] += 1
    for c in parts:
        _count(c, counts)


def _kind(e: tir.Expr) -> str:
    """Return the kind of the operation `e`, or "" if `e` is not an operation on data."""
    match e:
        case tir.Binary(dtype=dtype) if dtype.kind in ("int", "uint"):
            return "int"
        case tir.Binary(op="add" | "sub"):
            return "add"
        case tir.Binary(op="mul"):
            return "mul"
        case tir.Binary(op="min" | "max"):
            return "compare"
        case tir.Binary(op="and" | "or"):
            return ""
        case tir.Binary():
            return "div"
        case tir.Compare(a=a, b=b):
            return "" if tir.is_index(a) and tir.is_index(b) else "compare"
        case tir.Call():
            return "math"
        case tir.Cast():
            return "other"
        case tir.Select() | tir.IfThenElse():
            return "select"
        case _:
            return ""
