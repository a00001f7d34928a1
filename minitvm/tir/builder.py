"""Build loop IR in Python, statement by statement:

ib = tir.ir_builder.create()
a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
with ib.for_range(0, 8, name="i") as i:
    b[i] = a[i] + 1.0
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, get_args

from minitvm.base import ExprError, as_tuple, check_text
from minitvm.base import dtype as dtype_of

from .buffer import element, store
from .index import add, sub, upper_bound
from .nodes import Buffer, Expr, Index, Load, Var
from .stmt import Allocate, Evaluate, For, If, LoopKind, Pragma, Stmt, seq
from .value import all_of, index

KINDS: dict[str, LoopKind] = {"vectorized": "vectorize", "unrolled": "unroll"}  # TVM's names


def create() -> IRBuilder:
    """Return an empty builder."""
    return IRBuilder()


class BufferPointer:
    """A buffer that is read and written by subscripts: p[i, j] = p[i, j] + 1."""

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder, self.buffer = builder, buffer

    def __getitem__(self, at: Any) -> Load:
        return element(self.buffer, at)

    def __setitem__(self, at: Any, what: Any) -> None:
        self._builder.emit(store(self.buffer, at, what))

    @property
    def dtype(self) -> str:
        """Return the type of the buffer's elements."""
        return self.buffer.dtype


class IRBuilder:
    """Collects statements; those written inside a `with` block become the body of that block."""

    def __init__(self) -> None:
        self._open: list[list[Stmt]] = [[]]
        self._wrap: list[list[tuple[int, Callable[[Stmt], Stmt]]]] = [[]]

    def emit(self, what: Stmt | Expr) -> None:
        """Append a statement, or an expression that is computed for its side effect."""
        self._open[-1].append(Evaluate(what) if isinstance(what, Expr) else what)

    def get(self) -> Stmt:
        """Return all statements so far as one statement; raise ExprError inside a `with` block."""
        if len(self._open) != 1:
            raise ExprError("ib.get()", "a `with` block is still open", "call it after the block")
        return self._closed(self._open[0], self._wrap[0])

    # --- memory ---

    def buffer_ptr(self, buffer: Buffer) -> BufferPointer:
        """Return an object whose subscripts load from `buffer` and store to it."""
        return BufferPointer(self, buffer)

    def allocate(
        self, dtype: str, shape: Any, name: str = "buf", scope: str = "global"
    ) -> BufferPointer:
        """Allocate a buffer for the rest of the current block; return its BufferPointer."""
        buffer = Buffer(name, tuple(index(n) for n in as_tuple(shape)), dtype_of(dtype), scope)
        self._rest(lambda body: Allocate(buffer, body))
        return BufferPointer(self, buffer)

    def pointer(self, buffer: Buffer) -> BufferPointer:
        """Return buffer_ptr(buffer); TVM has both names."""
        return self.buffer_ptr(buffer)

    # --- control ---

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str = "int32", kind: str = "serial"
    ) -> Generator[Index]:
        """Open a loop and yield its counter, which runs from begin to end - 1."""
        del dtype  # indices are integers that never wrap
        check_text("for_range: name", name, 'name="i"')
        way = KINDS.get(check_text("for_range: kind", kind, 'kind="parallel"'), kind)
        if way not in get_args(LoopKind) or way == "bind":
            known = "serial, parallel, vectorized, unrolled"
            raise ExprError(f"for_range({name}, kind={kind!r})", "no such loop", f"one of {known}")
        first, extent = index(begin), sub(index(end), index(begin))
        last = sub(extent, 1)
        var = Var(name, 0, upper_bound(last), None if isinstance(last, int) else last)
        with self._block() as body:
            yield add(var, first)
        self.emit(For(var, extent, body(), way))  # type: ignore[arg-type]  # a LoopKind, as checked

    @contextmanager
    def if_scope(self, cond: Any) -> Generator[None]:
        """Open a block that runs only if `cond` is true."""
        test = all_of(cond)
        with self._block() as body:
            yield
        self.emit(If(test, body()))

    @contextmanager
    def else_scope(self) -> Generator[None]:
        """Open a block that runs only if the condition of the preceding if_scope is false."""
        before = self._open[-1][-1] if self._open[-1] else None
        if not isinstance(before, If) or before.orelse is not None:
            raise ExprError("ib.else_scope()", "there is no if_scope before it")
        with self._block() as body:
            yield
        self._open[-1][-1] = If(before.cond, before.body, body())

    def scope_attr(self, node: Any, key: str, value: Any) -> None:
        """Attach the pragma `key` = `value` to the rest of the block; `node` is ignored (TVM)."""
        del node
        self._rest(lambda body: Pragma(key, value, body))

    # --- blocks ---

    def _rest(self, wrap: Callable[[Stmt], Stmt]) -> None:
        """When this block closes, replace its statements from here on by wrap(statements)."""
        self._wrap[-1].append((len(self._open[-1]), wrap))

    @contextmanager
    def _block(self) -> Generator[Callable[[], Stmt]]:
        """Open a block and yield a function that returns its body once it is closed."""
        stmts: list[Stmt] = []
        wraps: list[tuple[int, Callable[[Stmt], Stmt]]] = []
        self._open.append(stmts)
        self._wrap.append(wraps)
        try:
            yield lambda: self._closed(stmts, wraps)
        finally:
            self._open.pop()
            self._wrap.pop()

    @staticmethod
    def _closed(parts: list[Stmt], wraps: list[tuple[int, Callable[[Stmt], Stmt]]]) -> Stmt:
        stmts = list(parts)
        for at, wrap in reversed(wraps):
            stmts[at:] = [wrap(seq(*stmts[at:]))]
        return seq(*stmts)
