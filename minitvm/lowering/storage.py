"""A pass that reuses memory once its contents are no longer needed."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minitvm import tir

Sharers: TypeAlias = dict[tir.Buffer, tir.Buffer]

OWN = ("local", tir.amx.SCOPE)  # no memory is shared: the target's compiler allocates registers


def storage_rewrite(s: tir.Stmt) -> tir.Stmt:
    """Let buffers share memory if their lifetimes do not overlap, or if one is updated in place.

        B = allocate((8,), ...)                B = allocate((8,), ...)
        for i in range(8): B[i] = A[i] + 1     for i in range(8): B[i] = A[i] + 1
        C = allocate((8,), ...)          ->    for i in range(8): B[i] = B[i] * 2
        for i in range(8): C[i] = B[i] * 2     for i in range(8): D[i] = B[i] - 1
        for i in range(8): D[i] = C[i] - 1

    Only buffers of the same scope, type and constant size share memory; never across a parallel
    loop (each thread needs its own copy), and never in "local" memory.
    """
    rewriter = _Sharing()
    for part in reversed(list(tir.every(s))):  # inner first, to avoid deep recursion
        rewriter.used(part, {})
    return rewriter.stmt(s, (), frozenset(), {})


def _key(b: tir.Buffer) -> tuple[object, ...] | None:
    """Return what two buffers must have in common to share memory; None if `b` cannot share any."""
    n = tir.elements(b)
    return (b.scope, b.dtype, n) if isinstance(n, int) and b.scope not in OWN else None


@dataclass(frozen=True, slots=True, eq=False)
class _Sharing:
    """A rewrite of a program, from outer to inner statements. Its methods take these arguments:

    free   the enclosing allocations that may be reused, outermost first
    later  the buffers used after the statement, or by another iteration of an enclosing loop
    to     for each replaced buffer, the buffer whose memory it shares

    The field `known` is a cache of the buffers that each statement uses.
    """

    known: dict[tir.Stmt, frozenset[tir.Buffer]] = field(
        default_factory=dict[tir.Stmt, frozenset[tir.Buffer]]
    )

    def used(self, s: tir.Stmt, to: Sharers) -> frozenset[tir.Buffer]:
        """Return the buffers that `s` reads or writes, after the replacements `to`."""
        buffers = self.known.get(s)
        if buffers is None:
            exprs = [e for e in tir.children(s) if isinstance(e, tir.Expr)]
            loaded = [n.buffer for e in exprs for n in tir.walk(e) if isinstance(n, tir.Load)]
            stored = [s.buffer] if isinstance(s, tir.Store) else []
            below = [self.used(part, {}) for part in tir.inner(s)]
            buffers = self.known[s] = frozenset([*loaded, *stored]).union(*below)
        return frozenset(to.get(b, b) for b in buffers) if to else buffers

    def stmt(
        self, s: tir.Stmt, free: tuple[tir.Buffer, ...], later: frozenset[tir.Buffer], to: Sharers
    ) -> tir.Stmt:
        """Return `s` rewritten; nested allocations and sequences are visited without recursion."""
        # enclosing statements, each with its new parts except the last
        chain: list[tuple[tir.Allocate | tir.Seq, list[tir.Stmt]]] = []
        while isinstance(s, tir.Allocate) or (isinstance(s, tir.Seq) and s.body):
            if isinstance(s, tir.Seq):
                *parts, last = _joined(s.body)
                chain.append((s, self.first(parts, last, free, later, to)))
                s = last
                continue
            b = to.get(s.buffer, s.buffer)
            old = self.sharer(s, b, free, later, to)
            if old is not None:
                to = {**to, s.buffer: old}
            else:
                chain.append((s if b is s.buffer else tir.Allocate(b, s.body), []))
                free, later = (*free, b), later - {b}  # it is not visible outside
            s = s.body
        new = self.one(s, free, later, to)
        for link, first in reversed(chain):
            if isinstance(link, tir.Allocate):
                new = link if new is link.body else tir.Allocate(link.buffer, new)
            else:
                parts = (*first, new)
                unchanged = len(parts) == len(link.body) and all(
                    map(operator.is_, parts, link.body)
                )
                new = link if unchanged else tir.seq(*parts)
        return new

    def first(
        self,
        parts: list[tir.Stmt],
        last: tir.Stmt,
        free: tuple[tir.Buffer, ...],
        later: frozenset[tir.Buffer],
        to: Sharers,
    ) -> list[tir.Stmt]:
        """Return `parts` rewritten; the memory of a buffer is not reused while later parts use it.

        `last` is the part that follows `parts`. It is not rewritten.
        """
        after = [later]
        for part in reversed([*parts[1:], last] if parts else []):
            after.append(after[-1] | self.used(part, to))
        after.reverse()
        return [self.stmt(p, free, a, to) for p, a in zip(parts, after[:-1], strict=True)]

    def one(
        self, s: tir.Stmt, free: tuple[tir.Buffer, ...], later: frozenset[tir.Buffer], to: Sharers
    ) -> tir.Stmt:
        """Return the single statement `s`, such as a loop, a branch or a store, rewritten."""

        def renamed(e: Any) -> Any:
            return e if isinstance(e, int) or not to else tir.rebuffer(e, to)

        match s:
            case tir.For(body=body, kind=kind):
                live = later | self.used(body, to)
                known = () if kind in ("parallel", "bind") else free
                return tir.map_children(s, lambda c: self.stmt(c, known, live, to), renamed)
            case tir.If() | tir.Pragma():
                return tir.map_children(s, lambda c: self.stmt(c, free, later, to), renamed)
            case _:
                return tir.rebuffer(s, to) if to else s

    def sharer(
        self,
        s: tir.Allocate,
        b: tir.Buffer,
        free: tuple[tir.Buffer, ...],
        later: frozenset[tir.Buffer],
        to: Sharers,
    ) -> tir.Buffer | None:
        """Return an existing buffer that can replace `b`, the buffer of `s`; None if none can."""
        key, used = _key(b), self.used(s.body, to)
        for old in free if key is not None else ():
            if _key(old) != key or (old in later and old is not b):
                continue
            if old is b or old not in used or self.in_place(old, b, s.body, to):
                return old
        return None

    def in_place(self, old: tir.Buffer, new: tir.Buffer, body: tir.Stmt, to: Sharers) -> bool:
        """Return whether `new`, allocated around `body`, may overwrite `old` in place.

        Only the first statement of `body` may use `old`, and it must store each element of `new`
        over the element of `old` that it reads.
        """
        while isinstance(body, tir.Allocate | tir.Pragma):
            body = body.body
        first, *rest = body.body if isinstance(body, tir.Seq) else (body,)
        if any(old in self.used(r, to) for r in rest):
            return False
        return _uses_up(old, new, tir.rebuffer(first, to))


def _joined(parts: tuple[tir.Stmt, ...]) -> tuple[tir.Stmt, ...]:
    """Move the parts after an allocation into it, if one of them allocates an equal buffer.

    Equal means the same scope, type and size. The later buffer can then share the earlier memory.
    """
    for n, part in enumerate(parts):
        rest = parts[n + 1 :]
        if not isinstance(part, tir.Allocate) or (key := _key(part.buffer)) is None:
            continue
        if any(isinstance(r, tir.Allocate) and _key(r.buffer) == key for r in rest):
            return (*parts[:n], tir.Allocate(part.buffer, tir.seq(part.body, *rest)))
    return parts


# --- in place ------------------------------------------------------------------------------------


def _uses_up(old: tir.Buffer, new: tir.Buffer, first: tir.Stmt) -> bool:
    """Return whether `first` can store `new` in the memory of `old`: new[i] = f(old[i]).

    A single store must read `old`, at the index that it writes, and write each index once. No
    other statement of `first` may access `old` or `new`.
    """
    stores = [n for n in tir.walk(first) if isinstance(n, tir.Store)]
    new_stores = [n for n in stores if n.buffer is new]
    loads = [n for n in tir.walk(first) if isinstance(n, tir.Load) and n.buffer is old]
    if len(new_stores) != 1 or any(n.buffer is old for n in stores):
        return False
    store = new_stores[0]
    reads = [n for n in tir.walk(store.value) if isinstance(n, tir.Load) and n.buffer is old]
    return (
        len(reads) == len(loads)
        and not any(isinstance(n, tir.Load) and n.buffer is new for n in tir.walk(first))
        and all(tir.prove_equal(n.indices[0], store.indices[0]) for n in reads)
        and _each_once(store.indices[0], _loops_to(first, store))
    )


def _loops_to(s: tir.Stmt, target: tir.Store) -> list[tir.For]:
    """Return the loops of `s` around `target`."""
    loops: list[tir.For] = []
    while s is not target:
        if isinstance(s, tir.For):
            loops.append(s)
        containing = [c for c in tir.inner(s) if any(n is target for n in tir.walk(c))]
        s = containing[0]
    return loops


def _each_once(i: tir.Index, loops: list[tir.For]) -> bool:
    """Return whether `i` has a different value in each iteration of `loops` and in each lane.

    True for i*8 + j with j in 0..7. False for i*4 + j: 1*4 + 0 equals 0*4 + 4.
    """
    terms, _ = tir.split_terms(i)
    sizes: dict[int, tir.Index] = {id(loop.var): loop.extent for loop in loops}
    steps: list[tuple[int, int]] = []
    for a, c in terms:
        n = a.lanes if isinstance(a, tir.Lane) else sizes.pop(id(a), None)
        if n is None and isinstance(a, tir.Var):
            continue  # the variable of a loop around both statements
        if not isinstance(n, int):
            return False
        steps.append((abs(c), n))
    reach = 0
    for c, n in sorted(steps):
        if c <= reach:
            return False
        reach += c * (n - 1)
    return not sizes
