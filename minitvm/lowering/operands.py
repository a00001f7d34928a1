"""Declared buffers become memory: statements written for an intrinsic or extern, put to use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minitvm.base import LoweringError
from minitvm.tir import (
    VIEW,
    Buffer,
    Call,
    DeclaredBuffer,
    Index,
    Load,
    Stmt,
    Store,
    Var,
    add,
    first_element,
    floormod,
    high,
    is_memory,
    mul,
    rewrite,
    row_strides,
    same,
    sub,
    substitute,
    text,
    view_at,
    walk,
)

from .flatten import offset


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The memory that a declared buffer stands for: its element `at` is buffer[place(at)]."""

    buffer: Buffer
    place: Callable[[tuple[Index, ...]], tuple[Index, ...]]

    def distance(self, at: tuple[Index, ...]) -> Index:
        """How far element `at` is from the start of the memory, in elements."""
        return offset(self.buffer, self.place(at))


def instantiate(body: Stmt, windows: Mapping[DeclaredBuffer, Window], what: str) -> Stmt:
    """`body` on the memory of `windows`; variables in strides and offsets get their values.

    Raises LoweringError where a buffer was declared in another way than its memory lies.
    """
    table: dict[Buffer, Window] = {**windows}
    whose: dict[int, tuple[Load, Window, Buffer]] = {}  # a new load, by id; what it stands for
    learned: dict[Var, Index] = {}
    pointed = _pointed(body)
    for declared, window in windows.items():
        _learn(declared, window, declared in pointed, learned, what)

    def on_expr(e: Any) -> Any:
        if isinstance(e, Load) and e.buffer in table:
            window = table[e.buffer]
            new = Load(window.buffer, window.place(e.indices), e.dtype)
            whose[id(new)] = new, window, e.buffer
            return new
        if isinstance(e, Call) and e.name == VIEW and id(first_element(e)) in whose:
            _, window, declared = whose[id(first_element(e))]
            steps = _strides(declared, window, what)
            return view_at(window.buffer, first_element(e).indices, declared.shape, steps)
        return e

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer in table:
            window = table[s.buffer]
            return Store(window.buffer, window.place(s.indices), s.value)
        return s

    return substitute(rewrite(body, on_stmt, on_expr), learned)


def _pointed(body: Stmt) -> set[Buffer]:
    """The buffers whose address is taken: the callee takes them to lie as declared."""
    calls = [e for e in walk(body) if isinstance(e, Call) and is_memory(e) and e.name != VIEW]
    return {first_element(e).buffer for e in calls}


def _learn(
    b: DeclaredBuffer, w: Window, pointed: bool, learned: dict[Var, Index], what: str
) -> None:
    """Values for the variables in how `b` is declared; LoweringError if its memory differs."""
    if b.scope not in ("global", w.buffer.scope):
        raise LoweringError(
            what,
            f"{b.name} is declared in {b.scope}, {w.buffer.name} is in {w.buffer.scope}",
            f"set_scope or a cache in {b.scope!r}",
        )
    first = w.distance((0,) * len(b.shape))
    if not same(floormod(first, b.offset_factor), 0):
        raise LoweringError(
            what,
            f"{b.name} begins at element {text(first)} of {w.buffer.name}, "
            f"which may be no multiple of offset_factor={b.offset_factor}",
            "sizes that are multiples of it",
        )
    if b.elem_offset is not None:
        _bind(b.elem_offset, first, learned, b, w, what)
    if not b.strides and not pointed:
        return
    actual, wanted = _strides(b, w, what), row_strides(b)
    for n, want, have in zip(b.shape, wanted, actual, strict=True):
        if isinstance(want, Var):
            _bind(want, have, learned, b, w, what)
        elif not same(want, have) and not same(n, 1):
            _refuse(b, w, actual, what)


def _bind(
    v: Var, n: Index, learned: dict[Var, Index], b: DeclaredBuffer, w: Window, what: str
) -> None:
    if not same(learned.setdefault(v, n), n):
        raise LoweringError(
            f"{what}: {v.name} of {b.name}",
            f"it would be both {text(learned[v])} and {text(n)} (in {w.buffer.name})",
            "a variable for each buffer",
        )


def _refuse(b: DeclaredBuffer, w: Window, actual: tuple[Index, ...], what: str) -> None:
    lies = ", ".join(map(text, actual))
    told = ", ".join(map(text, row_strides(b)))
    raise LoweringError(
        what,
        f"{b.name} is declared with strides ({told}), "
        f"its part of {w.buffer.name} has ({lies}), and a pointer to it is passed on",
        f"decl_buffer(..., strides=[te.var(), 1]); or a cache of {w.buffer.name} as small as it",
    )


def _strides(b: Buffer, w: Window, what: str) -> tuple[Index, ...]:
    """How far apart neighbours along each dimension lie in memory."""
    zeros = (0,) * len(b.shape)
    first = w.distance(zeros)
    found: list[Index] = []
    for d, (n, plain) in enumerate(zip(b.shape, row_strides(b), strict=True)):
        step = sub(w.distance((*zeros[:d], 1, *zeros[d + 1 :])), first)
        found.append(plain if same(n, 1) else step)
    at = tuple(_counter(d, n) for d, n in enumerate(b.shape))
    there = first
    for i, step in zip(at, found, strict=True):
        there = add(there, mul(i, step))
    if not same(w.distance(at), there):
        raise LoweringError(
            what,
            f"the part of {w.buffer.name} that {b.name} stands for does not lie in even strides",
            "another transform_layout, or none",
        )
    return tuple(found)


def _counter(d: int, n: Index) -> Index:
    """A variable over 0 .. n - 1."""
    last = sub(n, 1)
    if isinstance(last, int) and last <= 0:
        return 0
    return Var(f"d{d}", 0, high(last), None if isinstance(last, int) else last)
