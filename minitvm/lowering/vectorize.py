"""A pass that turns vectorized loops into vector statements."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tir

from .statements import Element, redirect

WIDEST = 64  # most lanes in one vector; a longer loop becomes several vectors


def vectorize(s: tir.Stmt) -> tir.Stmt:
    """Replace the variable of each vectorized loop by the vector 0, 1, ..., n-1.

        for j in vectorize(16):           C[i*64 : i*64 + 16] = A[i*64 : i*64 + 16] * 2.0
          C[i*64 + j] = A[i*64 + j]*2  ->

    A guard on the variable becomes a mask. Memory allocated inside the loop gets one copy per lane.
    The loop becomes serial instead if it contains another vectorized loop, a call that is not a
    pure function, a loop whose extent depends on the variable, or a store that writes the same
    element in all lanes.
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.For) and s.kind == "vectorize":
            return _vector(s, s.extent) if isinstance(s.extent, int) else replace(s, kind="serial")
        return s

    return tir.rewrite(s, on_stmt)


def _vector(loop: tir.For, extent: int) -> tir.Stmt:
    """Return the loop as vector statements. Vectorized loops inside it must be replaced already."""
    if not lanewise(loop.var, loop.body):
        return replace(loop, kind="serial")
    parts: list[tir.Stmt] = []
    loops, rest = divmod(extent, WIDEST)
    if loops == 1:
        parts.append(_lanes(loop, 0, WIDEST))
    elif loops:
        piece = tir.Var(f"{loop.var.name}.vector", 0, loops - 1)
        parts.append(tir.For(piece, loops, _lanes(loop, tir.mul(piece, WIDEST), WIDEST)))
    first = loops * WIDEST
    # 44 -> 32, 8, 4: vectors of 44 lanes would compile to slow stores
    for lanes in (1 << n for n in reversed(range(WIDEST.bit_length() - 1)) if rest >> n & 1):
        parts.append(_lanes(loop, first, lanes))
        first += lanes
    return tir.seq(*parts)


def _lanes(loop: tir.For, first: tir.Index, lanes: int) -> tir.Stmt:
    """Return iterations first .. first+lanes-1 as one vector statement."""
    if lanes == 1:
        return tir.substitute(loop.body, {loop.var: first})
    body = _widen(loop.body, loop.var, lanes, first)
    return tir.substitute(body, {loop.var: tir.add(tir.lane(lanes), first)})


def lanewise(var: tir.Var, body: tir.Stmt) -> bool:
    """Return whether all iterations of a loop over `var` can run at once, one per vector lane."""
    local = {id(n.buffer) for n in tir.walk(body) if isinstance(n, tir.Allocate)}
    for n in tir.walk(body):
        match n:
            case tir.Lane():  # a vector statement already
                return False
            case tir.For(extent=extent) if not tir.free_of(extent, (var,)):
                return False
            case tir.Store(buffer, (i,), _) if id(buffer) not in local and tir.free_of(i, (var,)):
                return False
            case tir.Evaluate():  # a call's effect in one lane is unknown
                return False
            case tir.Call() if tir.is_opaque(n):
                return False
            case _:
                pass
    return True


def _widen(body: tir.Stmt, var: tir.Var, lanes: int, first: tir.Index) -> tir.Stmt:
    """Give buffers allocated in `body` one copy per lane: t[i] -> t[i*lanes + lane]."""
    wide: dict[tir.Buffer, tir.Buffer] = {}
    for n in tir.every(body):
        if isinstance(n, tir.Allocate):
            b = n.buffer
            strides = (*(tir.mul(s, lanes) for s in b.strides), 1) if b.strides else ()
            wide[b] = replace(b, shape=(*b.shape, lanes), strides=strides)
    if not wide:
        return body
    lane = tir.sub(var, first)

    def moved(b: tir.Buffer, indices: tuple[tir.Index, ...]) -> Element | None:
        if b not in wide:
            return None
        return wide[b], (tir.add(tir.mul(indices[0], lanes), lane),)

    def allocated(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Allocate) and s.buffer in wide:
            return tir.Allocate(wide[s.buffer], s.body)
        return s

    return tir.rewrite(redirect(body, moved), allocated)
