"""Memory is used again once what it held is not needed any more."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minitvm.tir import (
    Allocate,
    Buffer,
    Expr,
    For,
    If,
    Index,
    Lane,
    Load,
    Pragma,
    Seq,
    Stmt,
    Store,
    Var,
    children,
    elements,
    map_children,
    rebuffer,
    same,
    seq,
    split_terms,
    walk,
)

from .statements import every, inner

Sharers: TypeAlias = dict[Buffer, Buffer]

OWN = ("local",)  # registers are shared by the machine's own allocator


def storage_rewrite(s: Stmt) -> Stmt:
    """Buffers that are not in use at the same time share memory; element by element in place.

        B = allocate((8,), ...)                B = allocate((8,), ...)
        for i in range(8): B[i] = A[i] + 1     for i in range(8): B[i] = A[i] + 1
        C = allocate((8,), ...)          ->    for i in range(8): B[i] = B[i] * 2
        for i in range(8): C[i] = B[i] * 2     for i in range(8): D[i] = B[i] - 1
        for i in range(8): D[i] = C[i] - 1

    Only buffers of one scope, type and constant size share, none across a parallel loop (each
    thread needs its own), and none in "local" memory.
    """
    sharing = _Sharing()
    for part in reversed(list(every(s))):  # inner ones first: chains are longer than Python's stack
        sharing.used(part, {})
    return sharing.stmt(s, (), frozenset(), {})


def _key(b: Buffer) -> tuple[object, ...] | None:
    """What two buffers that share must have in common; None if `b` cannot."""
    n = elements(b)
    return (b.scope, b.dtype, n) if isinstance(n, int) and b.scope not in OWN else None


@dataclass(frozen=True, slots=True, eq=False)
class _Sharing:
    """One rewrite, from outside in. Its methods take

    free   the buffers around that may be used, outermost first
    later  those that are read or written after the statement, or by another iteration of a loop
           around it
    to     buffer -> the one that it shares, for those allocated around

    known: what each statement uses, found once.
    """

    known: dict[Stmt, frozenset[Buffer]] = field(default_factory=dict[Stmt, frozenset[Buffer]])

    def used(self, s: Stmt, to: Sharers) -> frozenset[Buffer]:
        """The buffers that `s` reads or writes."""
        found = self.known.get(s)
        if found is None:
            own = [e for e in children(s) if isinstance(e, Expr)]
            loaded = [n.buffer for e in own for n in walk(e) if isinstance(n, Load)]
            stored = [s.buffer] if isinstance(s, Store) else []
            below = [self.used(part, {}) for part in inner(s)]
            found = self.known[s] = frozenset([*loaded, *stored]).union(*below)
        return frozenset(to.get(b, b) for b in found) if to else found

    def stmt(
        self, s: Stmt, free: tuple[Buffer, ...], later: frozenset[Buffer], to: Sharers
    ) -> Stmt:
        """`s` rewritten: what it allocates, and does one after another, without a call for each."""
        chain: list[tuple[Allocate | Seq, list[Stmt]]] = []  # the links, new parts but the last
        while isinstance(s, Allocate) or (isinstance(s, Seq) and s.body):
            if isinstance(s, Seq):
                *parts, last = _joined(s.body)
                chain.append((s, self.first(parts, last, free, later, to)))
                s = last
                continue
            b = to.get(s.buffer, s.buffer)
            old = self.sharer(s, b, free, later, to)
            if old is not None:
                to = {**to, s.buffer: old}
            else:
                chain.append((s if b is s.buffer else Allocate(b, s.body), []))
                free, later = (*free, b), later - {b}  # nobody outside knows it
            s = s.body
        new = self.one(s, free, later, to)
        for link, first in reversed(chain):
            if isinstance(link, Allocate):
                new = link if new is link.body else Allocate(link.buffer, new)
            else:
                parts = (*first, new)
                kept = len(parts) == len(link.body) and all(map(operator.is_, parts, link.body))
                new = link if kept else seq(*parts)
        return new

    def first(
        self,
        parts: list[Stmt],
        last: Stmt,
        free: tuple[Buffer, ...],
        later: frozenset[Buffer],
        to: Sharers,
    ) -> list[Stmt]:
        """`parts` rewritten, each with those after it, up to `last`, in mind."""
        after = [later]
        for part in reversed([*parts[1:], last] if parts else []):
            after.append(after[-1] | self.used(part, to))
        after.reverse()
        return [self.stmt(p, free, a, to) for p, a in zip(parts, after[:-1], strict=True)]

    def one(self, s: Stmt, free: tuple[Buffer, ...], later: frozenset[Buffer], to: Sharers) -> Stmt:
        """A loop, branch, store, ... rewritten."""

        def renamed(e: Any) -> Any:
            return e if isinstance(e, int) or not to else rebuffer(e, to)

        match s:
            case For(body=body, kind=kind):
                here = later | self.used(body, to)
                known = () if kind in ("parallel", "bind") else free
                return map_children(s, lambda c: self.stmt(c, known, here, to), renamed)
            case If() | Pragma():
                return map_children(s, lambda c: self.stmt(c, free, later, to), renamed)
            case _:
                return rebuffer(s, to) if to else s

    def sharer(
        self,
        s: Allocate,
        b: Buffer,
        free: tuple[Buffer, ...],
        later: frozenset[Buffer],
        to: Sharers,
    ) -> Buffer | None:
        """The buffer that is there already and may serve as `b`, the one that `s` allocates."""
        key, used = _key(b), self.used(s.body, to)
        for old in free if key is not None else ():
            if _key(old) != key or (old in later and old is not b):
                continue
            if old is b or old not in used or self.in_place(old, b, s.body, to):
                return old
        return None

    def in_place(self, old: Buffer, new: Buffer, body: Stmt, to: Sharers) -> bool:
        """May `new` overwrite `old`: is what `body` does first the last that reads `old`?"""
        while isinstance(body, Allocate | Pragma):
            body = body.body
        first, *rest = body.body if isinstance(body, Seq) else (body,)
        if any(old in self.used(r, to) for r in rest):
            return False
        return _uses_up(old, new, rebuffer(first, to))


def _joined(parts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Neighbours that allocate alike, in one allocation: the first lives on for the others."""
    for n, part in enumerate(parts):
        rest = parts[n + 1 :]
        if not isinstance(part, Allocate) or (key := _key(part.buffer)) is None:
            continue
        if any(isinstance(r, Allocate) and _key(r.buffer) == key for r in rest):
            return (*parts[:n], Allocate(part.buffer, seq(part.body, *rest)))
    return parts


# --- in place ------------------------------------------------------------------------------------


def _uses_up(old: Buffer, new: Buffer, first: Stmt) -> bool:
    """Does one store in `first`, new[i] = f(old[i]), use each element up?

    It must be the only one that reads `old`, each element once, and be done before anything else
    touches `new`.
    """
    stores = [n for n in walk(first) if isinstance(n, Store)]
    mine = [n for n in stores if n.buffer is new]
    loads = [n for n in walk(first) if isinstance(n, Load) and n.buffer is old]
    if len(mine) != 1 or any(n.buffer is old for n in stores):
        return False
    store = mine[0]
    reads = [n for n in walk(store.value) if isinstance(n, Load) and n.buffer is old]
    return (
        len(reads) == len(loads)
        and not any(isinstance(n, Load) and n.buffer is new for n in walk(first))
        and all(same(n.indices[0], store.indices[0]) for n in reads)
        and _each_once(store.indices[0], _loops_to(first, store))
    )


def _loops_to(s: Stmt, target: Store) -> list[For]:
    """The loops of `s` around `target`."""
    found: list[For] = []
    while s is not target:
        if isinstance(s, For):
            found.append(s)
        inside = [c for c in inner(s) if any(n is target for n in walk(c))]
        s = inside[0]
    return found


def _each_once(i: Index, loops: list[For]) -> bool:
    """Does `i` take another value in each iteration of `loops`, and in each lane?

    i*8 + j with j in 0..7: yes. i*4 + j: no, 1*4 + 0 is 0*4 + 4.
    """
    terms, _ = split_terms(i)
    sizes: dict[int, Index] = {id(loop.var): loop.extent for loop in loops}
    steps: list[tuple[int, int]] = []
    for a, c in terms:
        n = a.lanes if isinstance(a, Lane) else sizes.pop(id(a), None)
        if n is None and isinstance(a, Var):
            continue  # of a loop around both
        if not isinstance(n, int):
            return False
        steps.append((abs(c), n))
    reach = 0
    for c, n in sorted(steps):
        if c <= reach:
            return False
        reach += c * (n - 1)
    return not sizes
