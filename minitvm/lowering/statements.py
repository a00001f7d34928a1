"""Traverse statements without visiting their expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from minitvm import tir
from minitvm.base import LoweringError

Element: TypeAlias = tuple[tir.Buffer, tuple[tir.Index, ...]]


def stores(s: tir.Stmt) -> bool:
    """Return whether there is a store or a call in `s`."""
    return any(isinstance(part, tir.Store | tir.Evaluate) for part in tir.every(s))


def peeled(s: tir.Stmt) -> tuple[list[tir.For], tir.Stmt]:
    """Return the perfectly nested loops that `s` begins with, outermost first, and their body."""
    loops: list[tir.For] = []
    while isinstance(s, tir.For):
        loops.append(s)
        s = s.body
    return loops, s


def redirect(
    s: tir.Stmt, moved: Callable[[tir.Buffer, tuple[tir.Index, ...]], Element | None]
) -> tir.Stmt:
    """Redirect each access in `s` to the buffer and indices that moved(buffer, indices) returns.

    If it returns None, the access does not change.
    """

    def on_expr(e: Any) -> Any:
        if isinstance(e, tir.Load) and (new := moved(e.buffer, e.indices)) is not None:
            return tir.Load(*new, e.dtype)
        return e

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Store) and (new := moved(s.buffer, s.indices)) is not None:
            return tir.Store(*new, s.value)
        return s

    return tir.rewrite(s, on_stmt, on_expr)


def stacked(b: tir.Buffer, n: tir.Index) -> tir.Buffer:
    """Return a buffer for `n` copies of `b`, one after the other."""
    strides = (tir.elements(b), *b.strides) if b.strides else ()
    return replace(b, shape=(n, *b.shape), strides=strides)


def use_copy(s: tir.Stmt, stacks: Mapping[tir.Buffer, tir.Buffer], n: tir.Index) -> tir.Stmt:
    """Redirect accesses to each buffer b in `stacks` to the copy number `n` of b in stacks[b]."""

    def moved(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> Element | None:
        if b not in stacks:
            return None
        if len(indices) != 1:
            what = f"copies of {b.name!r}"
            raise LoweringError(what, "its accesses have no flat offsets", "run flatten first")
        return stacks[b], (tir.add(indices[0], tir.mul(n, tir.elements(b))),)

    return redirect(s, moved)


def replace_marked(s: tir.Stmt, key: str, f: Callable[[tir.Stmt], tir.Stmt]) -> tir.Stmt:
    """Replace every statement inside a pragma `key` by f(statement).

    Statements inside a pragma "skip_" + `key` are removed, and so are marked statements without
    stores and calls.
    """
    skipped = f"skip_{key}"

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Pragma(name, _, body) if name == key:
                return f(body) if stores(body) else tir.NOTHING
            case tir.Pragma(name) if name == skipped:
                return tir.NOTHING
            case _:
                return s

    return tir.rewrite(s, on_stmt)
