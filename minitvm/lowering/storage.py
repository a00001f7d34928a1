"""Memory is used again once what it held is not needed any more."""

from __future__ import annotations

from minitvm.tir import (
    Allocate,
    Buffer,
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
    elements,
    map_children,
    rebuffer,
    same,
    seq,
    split_terms,
    walk,
)

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
    return _stmt(s, (), frozenset())


def _key(b: Buffer) -> tuple[object, ...] | None:
    """What two buffers that share must have in common; None if `b` cannot."""
    n = elements(b)
    return (b.scope, b.dtype, n) if isinstance(n, int) and b.scope not in OWN else None


def _used(s: Stmt) -> frozenset[int]:
    """The ids of the buffers that `s` reads or writes."""
    return frozenset(id(n.buffer) for n in walk(s) if isinstance(n, Load | Store))


def _stmt(s: Stmt, free: tuple[Buffer, ...], later: frozenset[int]) -> Stmt:
    """`s` rewritten from outside in.

    free   the buffers around that may be used, outermost first
    later  ids of the buffers that are read or written after `s`, or by another iteration of a
           loop around it
    """
    match s:
        case Allocate(buffer, body):
            return _allocate(s, buffer, body, free, later)
        case Seq(parts):
            return _seq(s, parts, free, later)
        case For(body=body, kind=kind):
            here = later | _used(body)
            known = () if kind in ("parallel", "bind") else free
            return map_children(s, lambda c: _stmt(c, known, here), lambda e: e)
        case If() | Pragma():
            return map_children(s, lambda c: _stmt(c, free, later), lambda e: e)
        case _:
            return s


def _seq(s: Seq, parts: tuple[Stmt, ...], free: tuple[Buffer, ...], later: frozenset[int]) -> Stmt:
    if not parts:
        return s
    parts = _joined(parts)
    after = [later]
    for part in reversed(parts[1:]):
        after.append(after[-1] | _used(part))
    after.reverse()
    new = [_stmt(p, free, a) for p, a in zip(parts, after, strict=True)]
    unchanged = len(new) == len(s.body) and all(map(_is, new, s.body))
    return s if unchanged else seq(*new)


def _is(a: object, b: object) -> bool:
    return a is b


def _allocate(
    s: Allocate, b: Buffer, body: Stmt, free: tuple[Buffer, ...], later: frozenset[int]
) -> Stmt:
    key, used = _key(b), _used(body)
    for old in free if key is not None else ():
        if _key(old) != key or (id(old) in later and old is not b):
            continue
        if old is b or id(old) not in used or _in_place(old, b, body):
            return _stmt(rebuffer(body, {b: old}), free, later)
    new = _stmt(body, (*free, b), later)
    return s if new is body else Allocate(b, new)


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


def _in_place(old: Buffer, new: Buffer, body: Stmt) -> bool:
    """May `new` overwrite `old`: does one store, new[i] = f(old[i]), use each element up?

    It must be the only one that reads `old`, each element once, and be done before anything else
    touches `new`.
    """
    while isinstance(body, Allocate | Pragma):
        body = body.body
    first, *rest = body.body if isinstance(body, Seq) else (body,)
    if any(id(old) in _used(r) for r in rest):
        return False
    stores = [n for n in walk(first) if isinstance(n, Store)]
    mine = [n for n in stores if n.buffer is new]
    loads = [n for n in walk(first) if isinstance(n, Load) and n.buffer is old]
    if len(mine) != 1 or any(n.buffer is old for n in stores):
        return False
    store = mine[0]
    inside = [n for n in walk(store.value) if isinstance(n, Load)]
    reads = [n for n in inside if n.buffer is old]
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
        inside = [c for c in _parts(s) if any(n is target for n in walk(c))]
        s = inside[0]
    return found


def _parts(s: Stmt) -> tuple[Stmt, ...]:
    match s:
        case For(body=body) | Allocate(_, body) | Pragma(_, _, body):
            return (body,)
        case If(_, body, orelse):
            return (body,) if orelse is None else (body, orelse)
        case Seq(parts):
            return parts
        case _:
            return ()


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
