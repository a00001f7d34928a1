"""Statements without the expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minitvm import tir


def inner(s: tir.Stmt) -> tuple[tir.Stmt, ...]:
    """The statements directly inside `s`."""
    match s:
        case tir.For(body=body) | tir.Allocate(_, body) | tir.Pragma(_, _, body):
            return (body,)
        case tir.If(_, body, orelse):
            return (body,) if orelse is None else (body, orelse)
        case tir.Seq(parts):
            return parts
        case tir.Store() | tir.Evaluate():
            return ()


def every(s: tir.Stmt) -> Iterator[tir.Stmt]:
    """`s` and every statement in it, outer ones before inner ones."""
    waiting = [s]
    while waiting:
        s = waiting.pop()
        yield s
        waiting += reversed(inner(s))


def stores(s: tir.Stmt) -> bool:
    """Does anything happen in `s`?"""
    return any(isinstance(part, tir.Store | tir.Evaluate) for part in every(s))


def peeled(s: tir.Stmt) -> tuple[list[tir.For], tir.Stmt]:
    """The loops that `s` begins with, outermost first, and the statement inside of them."""
    loops: list[tir.For] = []
    while isinstance(s, tir.For):
        loops.append(s)
        s = s.body
    return loops, s


def replace_marked(s: tir.Stmt, key: str, f: Callable[[tir.Stmt], tir.Stmt]) -> tir.Stmt:
    """`s` with f(body) in place of what pragma `key` marks; what pragma skip_`key` marks is gone.

    So is what is marked and does nothing.
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
