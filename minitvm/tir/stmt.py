"""Statements of the loop IR: a closed union, so that `match` can be checked for missing cases."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from minitvm.base import node

from .nodes import Buffer, Expr, Index, Var

LoopKind: TypeAlias = Literal["serial", "parallel", "vectorize", "unroll", "bind"]


@node
class For:
    """Run `body` for var = 0 .. extent-1. `thread` names the hardware index of a "bind" loop."""

    var: Var
    extent: Index
    body: Stmt
    kind: LoopKind = "serial"
    thread: str = ""


@node
class Store:
    """buffer[indices] = value. One index per dimension, or one flat offset after `flatten`."""

    buffer: Buffer
    indices: tuple[Index, ...]
    value: Expr


@node
class If:
    """Run `body` if `cond` holds, else `orelse`. A vector condition acts lane by lane.

    likely: the condition is a guard that holds for all but the last iterations of some loop.
    """

    cond: Expr
    body: Stmt
    orelse: Stmt | None = None
    likely: bool = False


@node
class Seq:
    """Run `body[0]`, then `body[1]`, ..."""

    body: tuple[Stmt, ...]


@node
class Allocate:
    """Run `body` with memory for `buffer`, whose contents are undefined at first."""

    buffer: Buffer
    body: Stmt


@node
class Evaluate:
    """Compute `value` for its effect: a barrier, a DMA, ..."""

    value: Expr


@node
class Pragma:
    """Mark `body` with `key` = `value`. Passes that know the key act on it; others keep it."""

    key: str
    value: Any
    body: Stmt


Stmt: TypeAlias = For | Store | If | Seq | Allocate | Evaluate | Pragma


def seq(*parts: Stmt | None) -> Stmt:
    """Return the parts as one sequence; nested sequences are flattened, Nones dropped."""
    flat: list[Stmt] = []
    for part in parts:
        if isinstance(part, Seq):
            flat.extend(part.body)
        elif part is not None:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


NOTHING = Seq(())
