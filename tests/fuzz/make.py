"""Draw random programs: a few compute operations that read each other in many ways."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

from minitvm import tir
from minitvm.base import DTYPES, as_tuple
from minitvm.tensor import (
    MAX,
    MIN,
    PROD,
    SUM,
    Axis,
    ComputeOp,
    Operation,
    Reducer,
    Tensor,
    compute,
    extern,
    parts,
    placeholder,
    producers_first,
    reduce,
    reduce_axis,
    size_var,
)
from minitvm.testing import pick

from .program import RandomProgram
from .values import (
    Bits,
    Drawn,
    Rng,
    chance,
    changed,
    chosen,
    combined,
    condition,
    converted,
    kept,
    literal,
    logical,
    number,
)

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 10, 13, 16, 17) * 2 + (33, 64)
DATA_POINTS, ALL_POINTS = 400, 1200  # of one stage
INPUT_POINTS = 20_000
INPUTS = ("float32",) * 6 + ("float64",) * 4 + ("int32",) * 4 + ("int8",) * 3 + (
    "uint8", "uint8", "int16", "int64", "bool",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    tensor: Tensor
    bits: Bits


@dataclass(slots=True, eq=False)
class _ProgramMaker:
    """A program under construction: its tensors so far, and methods that draw the next formula."""

    rng: Rng
    known: list[_Known] = field(default_factory=list[_Known])
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    sizes: dict[tir.Var, int] = field(default_factory=dict[tir.Var, int])
    longest: int = 1

    # shapes and indices

    def extent(self) -> tir.Index:
        """Draw the extent of an axis; rarely 0, sometimes symbolic."""
        if self.sizes and chance(self.rng, 0.5):
            return pick(self.rng, list(self.sizes))
        return 0 if chance(self.rng, 0.006) else int(pick(self.rng, EXTENTS))

    def points(self, n: tir.Index) -> int:
        return n if isinstance(n, int) else self.sizes[cast("tir.Var", n)]

    def shape(self) -> tuple[tir.Index, ...]:
        """Draw a new shape, or return the shape of an existing tensor."""
        rank = int(self.rng.choice(4, p=(0.06, 0.3, 0.42, 0.22)))
        dims = [self.extent() for _ in range(rank)]
        if self.known and chance(self.rng, 0.4):
            dims = list(pick(self.rng, self.known).tensor.shape)
        while math.prod(map(self.points, dims)) > DATA_POINTS:
            dims.pop(int(self.rng.integers(len(dims))))
        return tuple(dims)

    def position(self, axes: list[Axis]) -> tir.Index:
        """Draw an index expression over `axes`, such as i, n-1-i, 2*i+1, i+k, i//2, i%3, i*n+j."""
        rng = self.rng
        if not axes or chance(rng, 0.06):
            return int(rng.integers(0, 4))
        a, b = pick(rng, axes), pick(rng, axes)
        c, q = int(rng.integers(0, 3)), int(rng.integers(2, 6))
        n = b.extent if isinstance(b.extent, int) else 4
        back = a.start + a.extent - 1 - (a - a.start)
        forms: list[Any] = [
            a, a, a, a, a, a + c, back, a * q + c, a + b, a * 2 + b, a + b * 2, a - b,
            a // q, a % q, a * n + b, (a * n + b) // q, (a * n + b) % q, a - c,
            tir.minimum(a, q), tir.maximum(a, b), (a + c) // q * 2 + b, a * b,
        ]  # fmt: skip
        return pick(rng, forms)

    def read(self, axes: list[Axis]) -> Drawn:
        """Draw an element of an existing tensor, or of a new input."""
        if not self.known or chance(self.rng, 0.35 / (1 + len(self.inputs) // 3)):
            return self.read_new(axes)
        made = [k for k in self.known if k.tensor not in self.inputs]
        source = pick(self.rng, made[-2:] if made and chance(self.rng, 0.7) else self.known)
        return self.read_known(source, axes)

    def read_new(self, axes: list[Axis]) -> Drawn:
        """Draw an element of a new input whose shape fits the indices."""
        rng = self.rng
        if chance(rng, 0.5):
            order = rng.permutation(len(axes))[: int(rng.integers(1, 5))]
            places: list[tir.Index] = [axes[int(n)] for n in order]
        else:
            rank = int(rng.choice(4, p=(0.05, 0.45, 0.35, 0.15)))
            places = [self.position(axes) for _ in range(rank)]
        dtype = DTYPES[pick(rng, INPUTS)]
        shape = tuple(self._extent_for(p) for p in places)
        while math.prod(map(self.points, shape)) > INPUT_POINTS:
            largest = max(range(len(shape)), key=[self.points(n) for n in shape].__getitem__)
            places[largest] = tir.floormod(places[largest], 4)
            shape = tuple(self._extent_for(p) for p in places)
        n = len(self.inputs)
        constant = n % 3 == 1 and all(isinstance(size, int) for size in shape)
        t = placeholder(shape, dtype, f"A{n}", constant)
        self.inputs.append(t)
        source = _Known(t, (2, 2) if dtype.is_float else None)
        self.known.append(source)
        return self._fitted(source, places)

    def _extent_for(self, i: tir.Index) -> tir.Index:
        """Draw an extent for a dimension with the index `i`, usually just large enough for `i`."""
        if isinstance(i, Axis) and not isinstance(i.extent, int) and i.kind == "data":
            return i.extent
        top = tir.upper_bound(i)
        if isinstance(top, float):
            return self.extent()
        slack = int(self.rng.integers(0, 4)) if chance(self.rng, 0.1) else 0
        return max(0, int(top) + 1) + slack

    def read_known(self, source: _Known, axes: list[Axis]) -> Drawn:
        """Draw an element of the tensor `source`, indexed by plain axes or other expressions."""
        rng, rank = self.rng, source.tensor.ndim
        order = range(len(axes)) if chance(rng, 0.5) else rng.permutation(len(axes))
        straight = [axes[int(n)] for n in order][:rank]
        places: list[tir.Index] = [*straight]
        if len(places) < rank or chance(rng, 0.6):
            places = [self.position(axes) for _ in range(rank)]
        tables = [k for k in self.known if k.tensor.dtype.is_integer]
        if rank and tables and chance(rng, 0.07):
            table = pick(rng, tables)
            found = self._fitted(table, [self.position(axes) for _ in table.tensor.shape])
            places[int(rng.integers(rank))] = tir.index(found.e)
        return self._fitted(source, places)

    def _fitted(self, source: _Known, places: list[tir.Index]) -> Drawn:
        """Return source[places]; wrap, clip or guard the indices that may be out of bounds."""
        rng, t = self.rng, source.tensor
        conds: list[tir.Expr] = []
        at: list[tir.Index] = []
        for i, n in zip(places, t.shape, strict=True):
            inside = tir.compare("<=", 0, i) is tir.TRUE and tir.compare("<", i, n) is tir.TRUE
            from_data = any(isinstance(e, tir.AsIndex) for e in tir.walk(i))
            if inside or (from_data and not (isinstance(n, int) and n == 0)):
                at.append(i)
            elif isinstance(n, int) and n > 0 and chance(rng, 0.5):
                at.append(
                    tir.floormod(i, n)
                    if chance(rng, 0.6)
                    else tir.maximum(0, tir.minimum(i, n - 1))
                )
            else:
                at.append(i)
                conds += [tir.compare("<=", 0, i), tir.compare("<", i, n)]
        e: tir.Expr = tir.load(t, *at)
        if conds:
            e = tir.if_then_else(tir.all_of(*conds), e, literal(rng, t.dtype).e)
        return Drawn(e, source.bits)

    # formulas

    def leaf(self, axes: list[Axis]) -> Drawn:
        roll = self.rng.random()
        if roll < 0.8 or not axes:
            return self.read(axes)
        if roll < 0.9:
            return literal(self.rng, DTYPES[pick(self.rng, INPUTS)])
        dtype = DTYPES[pick(self.rng, ("int32", "int8", "float32", "int64"))]
        e = tir.cast_to(self.position(axes), dtype)
        return Drawn(e, (12, 0) if dtype.is_float else None)

    def formula(self, axes: list[Axis], depth: int) -> Drawn:
        """Draw an expression at most `depth` operators deep."""
        rng, roll = self.rng, self.rng.random()
        if depth == 0 or roll < 0.1:
            return self.leaf(axes)
        if roll < 0.3:
            return changed(rng, self.formula(axes, depth - 1))
        a, b = self.formula(axes, depth - 1), self.leaf(axes)
        if roll < 0.8:
            return combined(rng, a, b)
        cond = self.condition(axes)
        return cond if roll < 0.85 else chosen(rng, cond, a, b)

    def condition(self, axes: list[Axis]) -> Drawn:
        """Draw a condition on indices, on data, or on both."""
        rng = self.rng
        sign = pick(rng, ("<", ">=", "==", "!="))
        made = Drawn(tir.compare(sign, self.position(axes), int(rng.integers(0, 9))))
        if chance(rng, 0.4):
            made = condition(rng, self.leaf(axes), self.leaf(axes)) or made
        return logical(rng, made, self.condition(axes)) if chance(rng, 0.2) else made

    # stages

    def stage(self, name: str) -> list[Tensor]:
        """Draw a compute operation and return its outputs."""
        shape = self.shape()
        made: list[Drawn] = []
        fold = chance(self.rng, 0.4)
        over = self._reduce_axes(shape) if fold else []

        def body(*i: Axis) -> Any:
            if over:
                return self._reduction(list(i), over, made)
            count = 2 if chance(self.rng, 0.08) else 1
            for _ in range(count):
                made.append(self.formula(list(i), int(self.rng.integers(1, 4))))
            return tuple(v.e for v in made) if count > 1 else made[0].e

        found = compute(shape, body, name=name)
        tensors: list[Tensor] = list(as_tuple(found))
        self.known += [_Known(t, v.bits) for t, v in zip(tensors, made, strict=True)]
        return tensors

    def extern_stage(self, name: str) -> list[Tensor]:
        """Draw an extern operation that reverses the rows of an existing tensor."""
        rows = [k for k in self.known if k.tensor.ndim]
        if not rows:
            return self.stage(name)
        source: _Known = pick(self.rng, rows)
        kind = "parallel" if chance(self.rng, 0.5) else "serial"
        made = extern(
            source.tensor.shape,
            [source.tensor],
            lambda ins, outs: _reversed_rows(ins[0], outs[0], kind),
            name=name,
        )
        self.known.append(_Known(made, source.bits))
        return [made]

    def _reduce_axes(self, shape: tuple[tir.Index, ...]) -> list[Axis]:
        """Draw one or two reduce axes; some do not start at 0, and a few are empty."""
        most = ALL_POINTS // max(1, math.prod(map(self.points, shape)))
        axes: list[Axis] = []
        for name in ("k", "r")[: 1 + chance(self.rng, 0.4)]:
            n, first = self.extent(), int(self.rng.integers(0, 4)) * chance(self.rng, 0.3)
            if self.points(n) > most:
                n = max(1, min(most, int(pick(self.rng, EXTENTS))))
            most //= max(1, self.points(n))
            axes.append(reduce_axis((first, n + first), name))
        return axes

    def _reduction(self, axes: list[Axis], over: list[Axis], made: list[Drawn]) -> Any:
        """Draw a reduction over the axes `over`, return it, and append its values to `made`."""
        rng = self.rng
        count = math.prod(self.points(a.extent) for a in over)
        self.longest = max(self.longest, count)
        source = number(self.formula([*axes, *over], int(rng.integers(0, 3))))
        where = self.condition([*axes, *over]).e if chance(rng, 0.2) else None
        if source.exact and chance(rng, 0.12):
            at = converted(Drawn(tir.cast_to(over[0], "int32")), DTYPES["int32"])
            made += [source, at]
            return reduce(ARGMAX, (source.e, at.e), over, where)
        kind: Reducer = pick(rng, (SUM, SUM, SUM, MAX, MIN, PROD))
        start = None
        if chance(rng, 0.15):
            first = converted(number(self.leaf(axes)), source.dtype)
            start = first if first.dtype is source.dtype and first.exact else None
        made.append(Drawn(source.e, _folded(kind, source, start, count)))
        return reduce(kind, source.e, over, where, None if start is None else start.e)


def _reversed_rows(a: tir.Buffer, b: tir.Buffer, kind: str) -> tir.Stmt:
    """Return the statement b[i, ...] = a[n - 1 - i, ...]."""
    ib = tir.ir_builder.create()
    with ExitStack() as loops:
        at = [
            loops.enter_context(ib.for_range(0, n, f"e{d}", kind=kind if d == 0 else "serial"))
            for d, n in enumerate(a.shape)
        ]
        row = a.shape[0] - 1 - at[0]
        ib.buffer_ptr(b)[tuple(at)] = ib.buffer_ptr(a)[(row, *at[1:])]
    return ib.get()


def _folded(kind: Reducer, source: Drawn, start: Drawn | None, count: int) -> Bits:
    """Return the Drawn.bits of a float reduction; None if the reduction may round."""
    if source.bits is None or kind is PROD or (start is not None and start.bits is None):
        return None
    i, f = source.bits
    j, g = (0, 0) if start is None or start.bits is None else start.bits
    grown = math.ceil(math.log2(count + 1)) + 1 if kind is SUM else 0
    return kept((max(i, j) + grown, max(f, g)), source.dtype)


def _later(old: tuple[tir.Expr, ...], new: tuple[tir.Expr, ...]) -> tuple[tir.Expr, ...]:
    """Return the (value, index) pair with the larger value or, if equal, the smaller index."""
    better = tir.any_of(
        new[0] > old[0], tir.all_of(tir.compare("==", new[0], old[0]), new[1] < old[1])
    )
    return tuple(tir.Select(better, n, o, o.dtype) for o, n in zip(old, new, strict=True))


ARGMAX = Reducer(
    "argmax", _later, lambda t: (tir.const(t[0].low, t[0]), tir.const(t[1].high, t[1]))
)


def random_program(rng: Rng) -> RandomProgram:
    """Draw a program of one to four stages over a few inputs."""
    maker = _ProgramMaker(rng)
    if chance(rng, 0.1):
        for name in ("n", "m")[: 1 + chance(rng, 0.3)]:
            maker.sizes[size_var(name)] = 0 if chance(rng, 0.06) else int(pick(rng, EXTENTS))
    last: list[Tensor] = []
    for n in range(int(rng.choice(4, p=(0.3, 0.35, 0.22, 0.13))) + 1):
        last = maker.extern_stage(f"S{n}") if chance(rng, 0.05) else maker.stage(f"S{n}")
    ops = [last[0].op]
    if chance(rng, 0.15):
        ops.append(pick(rng, [k.tensor.op for k in maker.known if k.tensor not in maker.inputs]))
    outputs = tuple(op.output(i) for op in dict.fromkeys(ops) for i in range(len(op.dtypes)))
    needed = producers_first(ops)
    bits = {k.tensor: k.bits for k in maker.known}
    exact = tuple(not t.dtype.is_float or bits[t] is not None for t in outputs)
    inputs = tuple(t for t in maker.inputs if t.op in needed)
    narrow = any("float32" in op.dtypes or _uses_float32(op) for op in needed)
    epsilon = 2.0**-24 if narrow else 2.0**-53
    return RandomProgram(inputs, outputs, maker.sizes, exact, maker.longest, epsilon)


def _uses_float32(op: Operation) -> bool:
    nodes = (n for e in parts(op) for n in tir.walk(e)) if isinstance(op, ComputeOp) else ()
    return any(isinstance(n, tir.Expr) and n.dtype == "float32" for n in nodes)
