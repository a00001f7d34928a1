"""Print the IR as Python-like text. The text is stable enough to diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard, assert_never

from minitvm.base import BOOL, FLOAT32, INT32

from . import nodes
from .call import UNITS
from .index import (
    floordiv,
    floormod,
    free_of_lane,
    is_index,
    linear,
    prove_equal,
    row_strides,
    split_terms,
)
from .numeric import BINARY
from .stmt import Allocate, Evaluate, For, If, Pragma, Seq, Stmt, Store
from .value import INDEX_OPS
from .walk import in_order

COMPARE, ATOM = 2, 9  # binding strengths; a larger one binds tighter


class Printer:
    """Prints the parts of one function, with a unique name for each variable and buffer."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.used: set[str] = set()

    def name(self, x: nodes.Var | nodes.Buffer) -> str:
        """Return the printed name of `x`: with "_" for ".", and a number if the name is taken."""
        name = self.names.get(id(x))
        if name is None:
            base = name = x.name.replace(".", "_") or "v"
            n = 1
            while name in self.used:
                name = f"{base}_{n}"
                n += 1
            self.names[id(x)] = name
            self.used.add(name)
        return name

    # --- expressions: (text, binding strength) ---

    def expr(self, e: nodes.Index, tight: int = 0) -> str:
        """Return `e` as a string, in parentheses if its operator binds less tightly than `tight`.

        tight   a binding strength: 6 for +, 7 for *, ... (see BINARY)
        """
        text, strength = self._expr(e)
        return f"({text})" if strength < tight else text

    def _expr(self, e: Any) -> tuple[str, int]:
        """Print an expression; return its text and how strongly it binds."""
        match e:
            case int():
                return str(e), ATOM if e >= 0 else 6
            case nodes.Var():
                return self.name(e), ATOM
            case nodes.Lane(lanes):
                return f"lane({lanes})", ATOM
            case nodes.Linear():
                return self._linear(e)
            case nodes.Product(a, b):
                return f"{self.expr(a, 7)}*{self.expr(b, 8)}", 7
            case nodes.FloorDiv(a, b) | nodes.FloorMod(a, b):
                sign = "//" if isinstance(e, nodes.FloorDiv) else "%"
                return f"{self.expr(a, 7)} {sign} {self.expr(b, 8)}", 7
            case nodes.Extremum(op, a, b):
                return f"{op}({self.expr(a)}, {self.expr(b)})", ATOM
            case nodes.AsIndex(value):
                return self._expr(value)
            case _:
                return self._value(e)

    def _linear(self, e: nodes.Linear) -> tuple[str, int]:
        """Print a sum; return its text and how strongly it binds."""
        terms = sorted(e.terms, key=lambda t: t[1] < 0)  # n - i, not -i + n
        const_first = e.const > 0 > terms[0][1]  # 7 - i, not -i + 7
        text = str(e.const) if const_first else ""
        for a, c in terms:
            size = abs(c)
            part = self.expr(a, 7) + (f"*{size}" if size != 1 else "")
            if text:
                text += f" + {part}" if c > 0 else f" - {part}"
            elif c > 0:
                text = part
            else:  # -i // 4 would be (-i) // 4
                text = f"-{part}" if isinstance(a, nodes.Var) else f"-({part})"
        if e.const and not const_first:
            text += f" + {e.const}" if e.const > 0 else f" - {-e.const}"
        plain = len(terms) == 1 and e.const == 0
        return text, 7 if plain and terms[0][1] > 0 else 6

    def _value(self, e: nodes.Expr) -> tuple[str, int]:
        match e:
            case nodes.Const(value, dtype):
                if dtype in (FLOAT32, INT32, BOOL):
                    return repr(value), ATOM if not value < 0 else 6
                return f"{dtype}({value!r})", ATOM
            case nodes.Cast(value, dtype):
                if _is_bare(e):
                    return self._expr(value)
                part = self._as_value if _is_bare(value) else self.expr
                return f"{dtype}({part(value)})", ATOM
            case nodes.Binary(op, a, b):
                first = self._as_value if op in INDEX_OPS and _reads_as_index(a, b) else self.expr
                sign, strength = BINARY[op].sign, BINARY[op].strength
                if not sign:
                    return f"{op}({first(a)}, {self.expr(b)})", ATOM
                if op == "pow":  # groups to the right
                    return f"{self.expr(a, strength + 1)} {sign} {self.expr(b, strength)}", strength
                return f"{first(a, strength)} {sign} {self.expr(b, strength + 1)}", strength
            case nodes.Compare(op, a, b):
                first = self._as_value if _reads_as_index(a, b) else self.expr
                return f"{first(a, COMPARE + 1)} {op} {self.expr(b, COMPARE + 1)}", COMPARE
            case nodes.Not(a):
                return f"not {self.expr(a, COMPARE)}", 1
            case nodes.Select(cond, a, b):
                return f"select({self.expr(cond)}, {self.expr(a)}, {self.expr(b)})", ATOM
            case nodes.IfThenElse(cond, a, b):
                return f"{self.expr(a, 1)} if {self.expr(cond, 1)} else {self.expr(b)}", -1
            case nodes.Call(name, args):
                part = self.operand if name.startswith(UNITS) else self.expr
                return f"{name}({', '.join(map(part, args))})", ATOM
            case nodes.Load(buffer, indices):
                return self.element(buffer, indices), ATOM
            case nodes.Pointer(first, mode, offset):
                offset_text = "" if prove_equal(offset, 0) else f", {self.expr(offset)}"
                return f"access_ptr.{mode}({self.expr(first)}{offset_text})", ATOM
            case nodes.View(first, shape, strides):
                return f"view({', '.join(map(self.expr, (first, *shape, *strides)))})", ATOM
            case _:  # nodes of other packages print themselves
                return repr(e), ATOM

    def _as_value(self, e: nodes.Index, _: int = 0) -> str:
        """Return the index `e` printed as a typed value: int32(i), where `expr` prints i."""
        return f"int32({self.expr(e)})"

    def element(self, buffer: nodes.Buffer, indices: tuple[nodes.Index, ...]) -> str:
        """Print the element `buffer[indices]`; a vector index prints as a slice, A[i : i + 8]."""
        return f"{self.name(buffer)}[{', '.join(self._subscript(i) for i in indices) or '()'}]"

    def operand(self, e: nodes.Expr) -> str:
        """Print an operand of an accelerator instruction, such as a unit or the view A[k][0:8]."""
        match e:
            case nodes.Call(name, ()):
                return name
            case nodes.View(nodes.Load(b)) if (box := _box(e)) is not None:
                parts = [
                    (prove_equal(i, 0) and prove_equal(n, whole), self._span(i, n))
                    for i, n, whole in zip(*box, b.shape, strict=True)
                ]
                while parts and parts[-1][0]:
                    parts.pop()
                return self.name(b) + "".join(f"[{part}]" for _, part in parts)
            case _:
                return self.expr(e)

    def _span(self, i: nodes.Index, n: nodes.Index) -> str:
        """Print the `n` indices that begin at `i`: a single index i, or a range i:i+8."""
        first = self.expr(i).replace(" ", "")
        return first if prove_equal(n, 1) else f"{first}:{self.expr(i + n)}".replace(" ", "")

    def _subscript(self, i: nodes.Index) -> str:
        terms, const = split_terms(i)
        lane_terms = [(a, c) for a, c in terms if isinstance(a, nodes.Lane)]
        if len(lane_terms) != 1 or lane_terms[0][1] < 1:
            return self.expr(i)
        (a, stride) = lane_terms[0]
        base = linear((t for t in terms if t[0] is not lane_terms[0][0]), const)
        if not free_of_lane(base):
            return self.expr(i)
        stop = self.expr(base + a.lanes * stride)
        return f"{self.expr(base)} : {stop}" + (f" : {stride}" if stride > 1 else "")

    # --- statements ---

    def lines(self, s: Stmt, depth: int = 0) -> Iterator[str]:
        """Yield the printed lines of `s`, indented by `depth` levels of two spaces."""
        for part in in_order(s):
            yield from self._statement(part, depth)

    def _statement(self, s: Stmt, depth: int) -> Iterator[str]:
        tab = "  " * depth
        match s:
            case For(var, extent, body, kind, thread):
                n = self.expr(extent) + (f", {thread!r}" if thread else "")
                range_ = "range" if kind == "serial" else kind
                yield f"{tab}for {self.name(var)} in {range_}({n}):"
                yield from self.lines(body, depth + 1)
            case Store(buffer, indices, value):
                yield f"{tab}{self.element(buffer, indices)} = {self.expr(value)}"
            case If(cond, body, orelse, likely):
                test = self.expr(cond)
                yield f"{tab}if likely({test}):" if likely else f"{tab}if {test}:"
                yield from self.lines(body, depth + 1)
                if orelse is not None:
                    yield f"{tab}else:"
                    yield from self.lines(orelse, depth + 1)
            case Seq():
                yield f"{tab}pass"
            case Allocate(buffer):
                yield f"{tab}{self.name(buffer)} = {self.allocation(buffer)}"
            case Evaluate(value):
                yield f"{tab}{self.expr(value)}"
            case Pragma(key, value, body):
                yield f"{tab}# pragma {key} = {value!r}"
                yield from self.lines(body, depth)
            case _:
                assert_never(s)

    def allocation(self, b: nodes.Buffer) -> str:
        """Print the allocation of a buffer: allocate((4, 16), "float32", "local")."""
        strides = f", strides={self.sizes(b.strides)}" if b.strides else ""
        return f'allocate({self.sizes(b.shape)}, "{b.dtype}", "{b.scope}"{strides})'

    def sizes(self, sizes: tuple[nodes.Index, ...]) -> str:
        """Print sizes as a tuple: (4, 16)."""
        return f"({', '.join(self.expr(n) for n in sizes)}{',' if len(sizes) == 1 else ''})"

    def parameter(self, p: nodes.Buffer | nodes.Var) -> str:
        """Print a parameter with its type: A: float32[1024, 1024]."""
        if isinstance(p, nodes.Var):
            return f"{self.name(p)}: {p.dtype}"
        return f"{self.name(p)}: {p.dtype}[{', '.join(self.expr(n) for n in p.shape)}]"


def _is_bare(e: nodes.Index) -> TypeGuard[nodes.Cast]:
    """Return whether `e` is an index cast to int32. Such a cast is not printed."""
    return isinstance(e, nodes.Cast) and e.dtype is INT32 and is_index(e.value)


def _reads_as_index(a: nodes.Index, b: nodes.Index) -> bool:
    """Return whether `a op b` on int32 values would be printed like an operation on indices.

    Then one operand is printed with its cast, int32(i), to keep the two apart.
    """
    both_plain = all(_is_bare(e) or isinstance(e, nodes.Const) for e in (a, b))
    return both_plain and (_is_bare(a) or _is_bare(b))


def _box(e: nodes.View) -> tuple[list[nodes.Index], list[nodes.Index]] | None:
    """Return (first indices, extents) of the box of the buffer that a view covers.

    view(A[k*16], 8, 1) of A[128, 16] covers the box A[k, 0:8]: ([k, 0], [1, 8]). Return None if the
    view is not a box, because its strides do not match dimensions of the buffer.
    """
    at, steps = e.first, row_strides(e.first.buffer)
    dims = [(n, step) for n, step in zip(e.shape, e.strides, strict=True) if not prove_equal(n, 1)]
    extents: list[nodes.Index] = []
    for whole, step in zip(at.buffer.shape, steps, strict=True):
        matches = bool(dims) and not prove_equal(whole, 1) and prove_equal(dims[0][1], step)
        extents.append(dims.pop(0)[0] if matches else 1)
    if dims:
        return None
    if len(at.indices) == len(steps):
        return list(at.indices), extents
    return _starts(at.indices[0], steps), extents


def _starts(flat: nodes.Index, steps: tuple[nodes.Index, ...]) -> list[nodes.Index]:
    """Split an element offset into one index per dimension; `steps` are the strides.

    Division splits it exactly. An offset that contains max or min is split term by term instead.
    """
    starts: list[nodes.Index] = []
    terms, const = split_terms(flat)
    exact = not any(isinstance(a, nodes.Extremum) for a, _ in terms)
    for step in steps:
        if exact or not isinstance(step, int):
            start = floordiv(flat, step)
            flat = floormod(flat, step)
        else:  # the multiples of its stride
            start = linear([(a, c // step) for a, c in terms if c % step == 0], int(const / step))
            terms, const = [(a, c) for a, c in terms if c % step], const - int(const / step) * step
        starts.append(start)
    return starts


def text(n: nodes.Index | Stmt) -> str:
    """Return `n` as Python-like text, one statement per line, without a trailing newline."""
    p = Printer()
    return p.expr(n) if isinstance(n, int | nodes.Expr) else "\n".join(p.lines(n))
