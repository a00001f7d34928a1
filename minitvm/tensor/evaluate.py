"""What formulas mean: their values in numpy, with no schedule and no loop IR in between.

Data axes are whole numpy grids, reductions are folded point by point in the order of their axes.
Slow and simple on purpose: everything the compiler makes is compared with this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import ArgumentError, ExprError
from minitvm.tir import (
    BINARY,
    COMPARE,
    INTRINSICS,
    AsIndex,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Index,
    Linear,
    Load,
    Not,
    PrimFunc,
    Product,
    Var,
    Where,
    callee,
    choose,
    convert,
    interpret,
    is_index,
    is_opaque,
    registered,
    text,
)

from .tensor import (
    Axis,
    ExternOp,
    Operation,
    PlaceholderOp,
    Reduce,
    Tensor,
    tensor_of,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def evaluate(tensors: Sequence[Tensor], inputs: Mapping[Any, Any]) -> list[Array]:
    """The value of each of `tensors`.

    inputs   placeholder -> array, and scalar variable -> int; symbolic sizes are learned from the
             shapes of the arrays

    Raises ArgumentError where an input is missing or does not fit, ExprError where a formula reads
    outside a tensor.
    """
    arrays: dict[Buffer, Array] = {}
    sizes: dict[Var, Any] = {v: int(n) for v, n in inputs.items() if isinstance(v, Var)}
    for t, array in inputs.items():
        if isinstance(t, Tensor):
            arrays[t] = _fitting(t, np.asarray(array), sizes)
    here = Grid(sizes, arrays, (), np.bool_(True))
    with np.errstate(all="ignore"):
        for op in _in_order([t.op for t in tensors]):
            _compute(op, here)
    return [arrays[t] for t in tensors]


def _fitting(t: Tensor, array: Array, sizes: dict[Var, Any]) -> Array:
    """`array`, if it is a value of the placeholder `t`; learns the symbolic sizes of its shape."""
    if array.dtype != t.dtype.numpy or array.ndim != t.ndim:
        raise ArgumentError(
            f"input {t.name}",
            f"is {array.dtype} of {array.ndim} dimensions, not {t.dtype} of {t.ndim}",
        )
    for d, (declared, n) in enumerate(zip(t.shape, array.shape, strict=True)):
        wanted = sizes.setdefault(declared, n) if isinstance(declared, Var) else declared
        if isinstance(wanted, int) and wanted != n:
            raise ArgumentError(f"input {t.name}: dimension {d}", f"is {n}, not {wanted}")
    return array


def _in_order(ops: Sequence[Operation]) -> list[Operation]:
    """The operations and all they read, producers first."""
    done: dict[int, Operation] = {}

    def visit(op: Operation) -> None:
        if id(op) in done:
            return
        if not isinstance(op, PlaceholderOp):
            for t in op.input_tensors:
                visit(t.op)
        done[id(op)] = op

    for op in ops:
        visit(op)
    return list(done.values())


# --- operations ----------------------------------------------------------------------------------


def _compute(op: Operation, here: Grid) -> None:
    """Put the value of every output of `op` into here.arrays."""
    if isinstance(op, PlaceholderOp):
        if tensor_of(op, 0) not in here.arrays:
            raise ArgumentError(f"input {op.name}", "no value is given for it")
        return
    if isinstance(op, ExternOp):
        _extern(op, here)
        return
    shape = tuple(int(here.index(n)) for n in op.shape)
    values = dict(here.values)
    for d, (a, n) in enumerate(zip(op.axis, shape, strict=True)):
        values[a] = np.arange(n).reshape([n if e == d else 1 for e in range(len(shape))])
    grid = replace(here, values=values, shape=shape)
    made = (
        [grid.value(e) for e in op.body]
        if op.reduction is None
        else _fold(op.reduction, op.reduce_axis, len(op.body), grid)
    )
    for i, (v, dtype) in enumerate(zip(made, op.dtypes, strict=True)):
        here.arrays[tensor_of(op, i)] = np.broadcast_to(v, shape).astype(dtype.numpy)


def _extern(op: ExternOp, here: Grid) -> None:
    """Run the statement of `op` in the interpreter, on copies without gaps."""
    ins = [np.ascontiguousarray(here.arrays[t]) for t in op.inputs]
    shapes = [tuple(int(here.index(n)) for n in shape) for shape in op.shapes]
    outs = [np.zeros(s, t.numpy) for s, t in zip(shapes, op.dtypes, strict=True)]
    sizes = tuple(here.values)
    params = (*op.in_buffers, *op.out_buffers, *sizes)
    func = PrimFunc(op.name, params, op.body, op.out_buffers)
    interpret(func, *ins, *outs, *(here.values[v] for v in sizes))
    for i, a in enumerate(outs):
        here.arrays[tensor_of(op, i)] = a


def _fold(r: Reduce, axes: tuple[Axis, ...], count: int, grid: Grid) -> list[Any]:
    """The reduction over the whole data grid: one numpy operation for each point of `axes`."""
    dtypes = tuple(e.dtype for e in r.sources)
    old = [Buffer(f"old{i}", (), t) for i, t in enumerate(dtypes)]
    new = [Buffer(f"new{i}", (), t) for i, t in enumerate(dtypes)]
    combined = r.reducer.combine(
        tuple(Load(b, (), b.dtype) for b in old), tuple(Load(b, (), b.dtype) for b in new)
    )
    totals = [grid.value(e) for e in (r.init or r.reducer.identity(dtypes))]
    for point in _points(axes, grid):
        here = replace(grid, values={**grid.values, **point})
        counts = here.value(r.where)
        inside = here.where(counts)
        terms = [inside.value(e) for e in r.sources]
        both = dict(zip((*old, *new), (*totals, *terms), strict=True))
        step = replace(grid, arrays={**grid.arrays, **both})
        totals = [choose(counts, step.value(e), t) for e, t in zip(combined, totals, strict=True)]
    return totals[:count]


def _points(axes: tuple[Axis, ...], grid: Grid) -> Iterator[dict[Axis, int]]:
    """Every point of the reduce axes, the last one running fastest."""
    spans: list[range] = []
    for a in axes:
        first = int(grid.index(a.start))
        spans.append(range(first, first + int(grid.index(a.extent))))
    for point in product(*spans):
        yield dict(zip(axes, point, strict=True))


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where expressions are evaluated: all points of a grid at once.

    values   of every variable: an int, or an array that broadcasts to `shape`
    arrays   of every tensor; of a scalar buffer, its value at each point
    active   the points at which the value matters: others may read outside a tensor
    """

    values: dict[Var, Any]
    arrays: dict[Buffer, Any]
    shape: tuple[int, ...]
    active: Any

    def where(self, cond: Any) -> Grid:
        """The same grid, with only the points active at which `cond` holds too."""
        return replace(self, active=np.logical_and(self.active, cond))

    def index(self, e: Index) -> Any:
        """An index at every point: an int or an int64 array."""
        match e:
            case int():
                return e
            case Var():
                return self._variable(e)
            case Linear(terms, const):
                return const + sum(self.index(a) * c for a, c in terms)
            case Product(a, b):
                return self.index(a) * self.index(b)
            case FloorDiv(a, b):
                return np.floor_divide(self.index(a), self.index(b))
            case FloorMod(a, b):
                return np.mod(self.index(a), self.index(b))
            case Extremum(op, a, b):
                return BINARY[op](self.index(a), self.index(b))
            case AsIndex(value):
                return np.asarray(self.value(value)).astype(np.int64)
            case _:
                raise ExprError(text(e), "a value stands where an index belongs")

    def _variable(self, v: Var) -> Any:
        if v not in self.values:
            raise ArgumentError(f"variable {v.name}", "no input has this size, and none gives it")
        return self.values[v]

    def value(self, e: Expr) -> Any:
        """A value at every point: a numpy scalar or an array that broadcasts to `shape`."""
        match e:
            case Const(value, dtype):
                return dtype.numpy.type(value)
            case Load():
                return self._load(e)
            case Binary(op, a, b):
                return BINARY[op](self.value(a), self.value(b))
            case Compare(op, a, b):
                return COMPARE[op](self._either(a), self._either(b))
            case Cast(value, dtype):
                return convert(self._either(value), dtype)
            case Not(a):
                return np.logical_not(self.value(a))
            case Where(cond, a, b):
                return choose(self.value(cond), self.value(a), self.value(b))
            case IfThenElse(cond, a, b):
                c = self.value(cond)
                yes, no = self.where(c), self.where(np.logical_not(c))
                return choose(c, yes.value(a), no.value(b))
            case Call(_, args) if is_opaque(e):
                each = np.vectorize(registered(callee(e)), otypes=[e.dtype.numpy])
                return each(*(self.value(a) for a in args))
            case Call(name, args):
                return INTRINSICS[name].meaning(*(self.value(a) for a in args))
            case _:
                raise ExprError(text(e), f"{type(e).__name__} has no value of its own")

    def _either(self, e: Index) -> Any:
        """An index or a value: the operands of Cast and Compare may be both."""
        return self.value(e) if isinstance(e, Expr) and not is_index(e) else self.index(e)

    def _load(self, e: Load) -> Any:
        """The elements read; anything at points that are not active."""
        array = self.arrays[e.buffer]
        if not e.indices:
            return array[()]
        at: list[Any] = []
        for d, (i, n) in enumerate(zip(e.indices, array.shape, strict=True)):
            k = self.index(i)
            outside = np.logical_and(self.active, np.logical_or(k < 0, k >= n))
            if np.any(np.broadcast_to(outside, np.broadcast_shapes(np.shape(outside), self.shape))):
                raise ExprError(
                    text(e), f"index {d} leaves dimension {d} of {e.buffer.name}, 0 .. {n - 1}"
                )
            at.append(np.clip(k, 0, max(n - 1, 0)))
        if array.size == 0:  # no point is active: any value will do
            return array.dtype.type(0)
        return array[tuple(np.broadcast_arrays(*at))]
