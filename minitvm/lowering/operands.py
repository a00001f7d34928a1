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
    values: dict[tir.Var, tir.Index] = {}
    layouts: dict[tir.Buffer, _Layout] = {b: _Layout(b, v, what) for b, v in operands.items()}
    # a call that gets the address of a buffer relies on its layout
    pointed_buffers = {e.first.buffer for e in tir.walk(body) if isinstance(e, tir.Pointer)}
    for b, layout in layouts.items():
        layout.learn(values, b in pointed_buffers)
    # id of a new load -> (that load, kept so that its id stays unique; the layout it came from)
    origins: dict[int, tuple[tir.Load, _Layout]] = {}

    def on_expr(e: Any) -> Any:
        if isinstance(e, tir.Load) and e.buffer in layouts:
            layout = layouts[e.buffer]
            new = tir.Load(layout.view.buffer, layout.view.place(e.indices), e.dtype)
            origins[id(new)] = new, layout
            return new
        if isinstance(e, tir.View) and id(e.first) in origins:
            _, layout = origins[id(e.first)]
            shape = layout.declared.shape
            return tir.view_at(layout.view.buffer, e.first.indices, shape, layout.strides())
        return e

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        if isinstance(s, tir.Store) and s.buffer in layouts:
            view = layouts[s.buffer].view
            return tir.Store(view.buffer, view.place(s.indices), s.value)
        return s

    return tir.substitute(tir.rewrite(body, on_stmt, on_expr), values)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """A declared buffer and the memory that it stands for; error messages begin with `what`."""

    declared: tir.DeclaredBuffer
    view: OperandView
    what: str

    def learn(self, values: dict[tir.Var, tir.Index], pointed: bool) -> None:
        """Add the values of the variables in the declaration to `values`.

        Raises LoweringError if the memory does not have the declared layout.
        pointed: whether a call gets the buffer's address, and so relies on the declared strides.
        """
        b, memory = self.declared, self.view.buffer
        if b.scope not in ("global", memory.scope):
            why = f"{b.name} is declared in {b.scope}, {memory.name} is in {memory.scope}"
            raise LoweringError(self.what, why, f"set_scope or a cache in {b.scope!r}")
        first = self.view.distance((0,) * len(b.shape))
        if not tir.prove_equal(tir.floormod(first, b.offset_factor), 0):
            raise LoweringError(
                self.what,
                f"{b.name} begins at element {tir.text(first)} of {memory.name}, "
                f"which is not known to be a multiple of its offset_factor {b.offset_factor}",
                f"tile sizes and row lengths of {memory.name} that are multiples of "
                f"{b.offset_factor}, or a smaller offset_factor",
            )
        if b.elem_offset is not None:
            self.bind(b.elem_offset, first, values)
        if not b.strides and not pointed:
            return
        strides = self.strides()
        for n, declared, actual in zip(b.shape, tir.row_strides(b), strides, strict=True):
            if isinstance(declared, tir.Var):
                self.bind(declared, actual, values)
            elif not tir.prove_equal(declared, actual) and not tir.prove_equal(n, 1):
                raise self.mismatch(strides)

    def bind(self, v: tir.Var, n: tir.Index, values: dict[tir.Var, tir.Index]) -> None:
        """Set values[v] to `n`; raise LoweringError if it has another value already."""
        if not tir.prove_equal(values.setdefault(v, n), n):
            memory = self.view.buffer.name
            what = f"{self.what}: {v.name} of {self.declared.name}"
            why = f"it would be {tir.text(n)} in {memory}, but elsewhere {tir.text(values[v])}"
            raise LoweringError(what, why, "declare a variable for each buffer")

    def mismatch(self, strides: tuple[tir.Index, ...]) -> LoweringError:
        """Return the error for memory with other strides than those that are declared."""
        memory = self.view.buffer.name
        actual = ", ".join(map(tir.text, strides))
        declared = ", ".join(map(tir.text, tir.row_strides(self.declared)))
        return LoweringError(
            self.what,
            f"a call takes the address of {self.declared.name}, which is declared with strides "
            f"({declared}); the part of {memory} that it stands for has strides ({actual})",
            f"decl_buffer(..., strides=[te.var(), 1]); or a cache of {memory} of this size",
        )

    def strides(self) -> tuple[tir.Index, ...]:
        """Return the stride of each dimension of the declared buffer in memory, in elements.

        Raises LoweringError if the distance between neighbouring elements is not constant.
        """
        b, distance = self.declared, self.view.distance
        zeros = (0,) * len(b.shape)
        first = distance(zeros)
        strides: list[tir.Index] = []
        for d, (n, plain) in enumerate(zip(b.shape, tir.row_strides(b), strict=True)):
            step = tir.sub(distance((*zeros[:d], 1, *zeros[d + 1 :])), first)
            strides.append(plain if tir.prove_equal(n, 1) else step)
        at = tuple(
            0 if isinstance(n, int) and n <= 1 else loop_variable(f"d{d}", n)
            for d, n in enumerate(b.shape)
        )
        expected = first
        for i, stride in zip(at, strides, strict=True):
            expected = tir.add(expected, tir.mul(i, stride))
        if not tir.prove_equal(distance(at), expected):
            memory = self.view.buffer.name
            what = self.what
            why = f"the part of {memory} that {b.name} stands for has no constant strides"
            raise LoweringError(what, why, f"use another transform_layout of {memory}, or none")
        return tuple(strides)
