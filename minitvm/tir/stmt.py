"""The statements of the loop IR. `Stmt` is a closed union: type checkers find missing cases."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from minitvm.base import node

from .nodes import Buffer, Expr, Index, Var

LoopKind: TypeAlias = Literal["serial", "parallel", "vectorize", "unroll", "bind"]


@node
class For:
    """Run `body` for var = 0 .. extent-1.

    thread   the hardware index to which a loop of kind "bind" is bound, such as "threadIdx.x"
    """

    var: Var
    extent: Index
    body: Stmt
    kind: LoopKind = "serial"
    thread: str = ""


@node
class Store:
    """Store `value` at buffer[indices].

    There is one index per dimension; after the pass `flatten`, there is a single element offset.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    value: Expr


@node
class If:
    """Run `body` if `cond` is true, else `orelse`. A vector condition selects lanes one by one.

    likely   whether `cond` is a guard that fails only in the last iterations of some loop
    """

    cond: Expr
    body: Stmt
    orelse: Stmt | None = None
    likely: bool = False


@node
class Seq:
    """Run the statements of `body` one after another."""

    body: tuple[Stmt, ...]


@node
class Allocate:
    """Allocate memory for `buffer`, initially undefined, while `body` runs."""

    buffer: Buffer
    body: Stmt


@node
class Evaluate:
    """Compute `value` for its side effect, such as a barrier or a DMA; discard the result."""

    value: Expr


@node
class Pragma:
    """Annotate `body` with `key` = `value`. Passes that know the key use it; others preserve it."""

    key: str
    value: Any
    body: Stmt


Stmt: TypeAlias = For | Store | If | Seq | Allocate | Evaluate | Pragma


def seq(*parts: Stmt | None) -> Stmt:
    """Join the parts into one statement: flatten sequences, and drop parts that are None."""
    flat: list[Stmt] = []
    for part in parts:
        if isinstance(part, Seq):
            flat.extend(part.body)
        elif part is not None:
            flat.append(part)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


NOTHING = Seq(())
