"""Replace the declared buffers in statements of intrinsics and extern ops by actual buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minitvm import tir
from minitvm.base import LoweringError

from .flatten import offset
from .regions import loop_variable


@dataclass(frozen=True, slots=True, eq=False)
class OperandView:
    """The memory that a declared buffer stands for.

    Element `at` of the declared buffer is buffer[place(at)].
    """

    buffer: tir.Buffer
    place: Callable[[tuple[tir.Index, ...]], tuple[tir.Index, ...]]

    def distance(self, at: tuple[tir.Index, ...]) -> tir.Index:
        """Return the distance of element `at` from the start of `buffer`, in elements."""
        return offset(self.buffer, self.place(at))


def instantiate(
    body: tir.Stmt, operands: Mapping[tir.DeclaredBuffer, OperandView], what: str
) -> tir.Stmt:
    """Return `body` with each declared buffer replaced by the memory that it stands for.

    The variables in the declared strides and offsets get their values. Raises a LoweringError that
    begins with `what` if the layout of the memory differs from a buffer's declaration.
    """
    table: dict[tir.Buffer, OperandView] = {**operands}
    # by id: a new load, its memory, and the declared buffer it replaces
    whose: dict[int, tuple[tir.Load, OperandView, tir.Buffer]] = {}
    learned: dict[tir.Var, tir.Index] = {}
    pointed = _pointed(body)
    for declared, operand in operands.items():
        _learn(declared, operand, declared in pointed, learned, what)

    def on_expr(e: Any) -> Any:
        if isinstance(e, tir.Load) and e.buffer in table:
            operand = table[e.buffer]
            new = tir.Load(operand.buffer, operand.place(e.indices), e.dtype)
            whose[id(new)] = new, operand, e.buffer
            return new
        if isinstance(e, tir.View) and id(e.first) in whose:
            _, operand, declared = whose[id(e.first)]
            steps = _strides(declared, operand, what)
            return tir.view_at(operand.buffer, e.first.indices, declared.shape, steps)
        return e

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Store) and s.buffer in table:
            operand = table[s.buffer]
            return tir.Store(operand.buffer, operand.place(s.indices), s.value)
        return s

    return tir.substitute(tir.rewrite(body, on_stmt, on_expr), learned)


def _pointed(body: tir.Stmt) -> set[tir.Buffer]:
    """Return the buffers whose address `body` passes to a call; the call relies on their layout."""
    return {e.first.buffer for e in tir.walk(body) if isinstance(e, tir.Pointer)}


def _learn(
    b: tir.DeclaredBuffer,
    w: OperandView,
    pointed: bool,
    learned: dict[tir.Var, tir.Index],
    what: str,
) -> None:
    """Add the values of the variables in the declaration of `b` to `learned`.

    Raises LoweringError if the memory `w` does not have the declared layout.
    """
    if b.scope not in ("global", w.buffer.scope):
        raise LoweringError(
            what,
            f"{b.name} is declared in {b.scope}, {w.buffer.name} is in {w.buffer.scope}",
            f"set_scope or a cache in {b.scope!r}",
        )
    first = w.distance((0,) * len(b.shape))
    if not tir.prove_equal(tir.floormod(first, b.offset_factor), 0):
        raise LoweringError(
            what,
            f"{b.name} begins at element {tir.text(first)} of {w.buffer.name}, "
            f"which is not known to be a multiple of its offset_factor {b.offset_factor}",
            f"tile sizes and row lengths of {w.buffer.name} that are multiples of "
            f"{b.offset_factor}, or a smaller offset_factor",
        )
    if b.elem_offset is not None:
        _bind(b.elem_offset, first, learned, b, w, what)
    if not b.strides and not pointed:
        return
    actual, declared = _strides(b, w, what), tir.row_strides(b)
    for n, want, have in zip(b.shape, declared, actual, strict=True):
        if isinstance(want, tir.Var):
            _bind(want, have, learned, b, w, what)
        elif not tir.prove_equal(want, have) and not tir.prove_equal(n, 1):
            _refuse(b, w, actual, what)


def _bind(
    v: tir.Var,
    n: tir.Index,
    learned: dict[tir.Var, tir.Index],
    b: tir.DeclaredBuffer,
    w: OperandView,
    what: str,
) -> None:
    if not tir.prove_equal(learned.setdefault(v, n), n):
        raise LoweringError(
            f"{what}: {v.name} of {b.name}",
            f"it would be {tir.text(n)} in {w.buffer.name}, but elsewhere {tir.text(learned[v])}",
            "declare a variable for each buffer",
        )


def _refuse(
    b: tir.DeclaredBuffer, w: OperandView, actual: tuple[tir.Index, ...], what: str
) -> None:
    lies = ", ".join(map(tir.text, actual))
    declared = ", ".join(map(tir.text, tir.row_strides(b)))
    raise LoweringError(
        what,
        f"a call takes the address of {b.name}, which is declared with strides ({declared}); the "
        f"part of {w.buffer.name} that it stands for has strides ({lies})",
        f"decl_buffer(..., strides=[te.var(), 1]); or a cache of {w.buffer.name} of this size",
    )


def _strides(b: tir.Buffer, w: OperandView, what: str) -> tuple[tir.Index, ...]:
    """Return the stride of each dimension of `b` in the memory `w`, in elements.

    Raises LoweringError if the distance between neighbouring elements is not constant.
    """
    zeros = (0,) * len(b.shape)
    first = w.distance(zeros)
    strides: list[tir.Index] = []
    for d, (n, plain) in enumerate(zip(b.shape, tir.row_strides(b), strict=True)):
        step = tir.sub(w.distance((*zeros[:d], 1, *zeros[d + 1 :])), first)
        strides.append(plain if tir.prove_equal(n, 1) else step)
    at = tuple(
        0 if isinstance(n, int) and n <= 1 else loop_variable(f"d{d}", n)
        for d, n in enumerate(b.shape)
    )
    there = first
    for i, step in zip(at, strides, strict=True):
        there = tir.add(there, tir.mul(i, step))
    if not tir.prove_equal(w.distance(at), there):
        raise LoweringError(
            what,
            f"the part of {w.buffer.name} that {b.name} stands for has no constant strides",
            f"use another transform_layout of {w.buffer.name}, or none",
        )
    return tuple(strides)
