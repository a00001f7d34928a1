"""Statements without the expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minitvm.tir import NOTHING, Allocate, Evaluate, For, If, Pragma, Seq, Stmt, Store, rewrite


def inner(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `s`."""
    match s:
        case For(body=body) | Allocate(_, body) | Pragma(_, _, body):
            return (body,)
        case If(_, body, orelse):
            return (body,) if orelse is None else (body, orelse)
        case Seq(parts):
            return parts
        case Store() | Evaluate():
            return ()


def every(s: Stmt) -> Iterator[Stmt]:
    """`s` and every statement in it, outer ones before inner ones."""
    waiting = [s]
    while waiting:
        s = waiting.pop()
        yield s
        waiting += reversed(inner(s))


def stores(s: Stmt) -> bool:
    """Does anything happen in `s`?"""
    return any(isinstance(part, Store | Evaluate) for part in every(s))


def peeled(s: Stmt) -> tuple[list[For], Stmt]:
    """The loops that `s` begins with, outermost first, and the statement inside of them."""
    loops: list[For] = []
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    return loops, s


def replace_marked(s: Stmt, key: str, f: Callable[[Stmt], Stmt]) -> Stmt:
    """`s` with f(body) in place of what pragma `key` marks; what pragma skip_`key` marks is gone.

    So is what is marked and does nothing.
    """
    skipped = f"skip_{key}"

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Pragma(name, _, body) if name == key:
                return f(body) if stores(body) else NOTHING
            case Pragma(name) if name == skipped:
                return NOTHING
            case _:
                return s

    return rewrite(s, on_stmt)
