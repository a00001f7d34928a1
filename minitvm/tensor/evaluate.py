"""The reference semantics of formulas: evaluate them with numpy, without schedules or loops.

Data axes become whole numpy arrays; reductions run point by point in the order of their axes. The
code is slow but simple, since tests use it to check the results of compiled programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from minitvm import tir
from minitvm.base import ArgumentError, ExprError, check_unmasked

from . import tensor
from .reducer import formulas
from .scan import body_of

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def evaluate(tensors: Sequence[tensor.Tensor], inputs: Mapping[Any, Any]) -> list[Array]:
    """Compute the value of each of `tensors`.

    inputs   maps each placeholder to an array, and each scalar variable to an int; the symbolic
             sizes follow from the shapes of the arrays

    Raises ArgumentError if an input is missing, masked or of a wrong type or shape. Raises
    ExprError if a formula reads outside a tensor.
    """
    arrays: dict[tir.Buffer, Array] = {}
    sizes: dict[tir.Var, Any] = {v: int(n) for v, n in inputs.items() if isinstance(v, tir.Var)}
    for t, array in inputs.items():
        if isinstance(t, tensor.Tensor):
            arrays[t] = _fitting(t, np.asarray(check_unmasked(f"input {t.name}", array)), sizes)
    grid = _Points(sizes, arrays, (), np.bool_(True))
    order = tensor.producers_first(t.op for t in tensors)
    inside = _inside(order)
    with np.errstate(all="ignore"):
        for op in order:
            if op not in inside:
                _compute(op, grid)
    return [arrays[t] for t in tensors]


def _fitting(t: tensor.Tensor, array: Array, sizes: dict[tir.Var, Any]) -> Array:
    """Check the type and shape of `array` for the placeholder `t`, and return the array.

    Add the values of symbolic sizes to `sizes`. Raises ArgumentError if something does not match.
    """
    if array.dtype != t.dtype.numpy or array.ndim != t.ndim:
        why = f"it is {array.dtype} with {array.ndim} dimensions, not {t.dtype} with {t.ndim}"
        raise ArgumentError(f"input {t.name}", why)
    for d, (declared, n) in enumerate(zip(t.shape, array.shape, strict=True)):
        expected = sizes.setdefault(declared, n) if isinstance(declared, tir.Var) else declared
        if isinstance(expected, int) and expected != n:
            raise ArgumentError(f"input {t.name}: dimension {d}", f"it is {n}, not {expected}")
    return array


def _inside(ops: Sequence[tensor.Operation]) -> set[tensor.Operation]:
    """Return the states of all scans in `ops`, and the operations that scans compute row by row."""
    scans = [op for op in ops if isinstance(op, tensor.ScanOp)]
    states = {t.op for scan in scans for t in scan.states}
    return states | {part for scan in scans for part in body_of(scan)}


# --- operations ----------------------------------------------------------------------------------


def _compute(op: tensor.Operation, here: _Points) -> None:
    """Compute the outputs of `op`, and store them in here.arrays."""
    if isinstance(op, tensor.PlaceholderOp):
        if tensor.tensor_of(op, 0) not in here.arrays:
            raise ArgumentError(f"input {op.name}", "no value is given")
        return
    if isinstance(op, tensor.ExternOp):
        _extern(op, here)
        return
    if isinstance(op, tensor.ScanOp):
        _scan(op, here)
        return
    for need in op.needs:
        if int(here.index(need)) < 0:
            what = f"compute {op.name}: {tir.text(need + 1)} = {int(here.index(need)) + 1}"
            why = "the formula reads elements that do not exist"
            raise ArgumentError(what, why, "larger arrays")
    shape = tuple(int(here.index(n)) for n in op.shape)
    try:
        points = [np.arange(n) for n in shape]
    except (MemoryError, ValueError) as e:
        raise ArgumentError(f"compute {op.name} of shape {shape}", str(e), "smaller arrays") from e
    for i, v in enumerate(_values(op, here, points)):
        here.arrays[tensor.tensor_of(op, i)] = v


def _values(op: tensor.ComputeOp, here: _Points, points: list[Array]) -> list[Array]:
    """Compute the outputs of `op` on the grid `points`, given as one array per axis."""
    shape = tuple(len(p) for p in points)
    values = dict(here.values)
    for d, (a, p) in enumerate(zip(op.axis, points, strict=True)):
        values[a] = p.reshape([len(p) if e == d else 1 for e in range(len(shape))])
    grid = replace(here, values=values, shape=shape)
    outputs = (
        [grid.value(e) for e in op.body]
        if op.reduction is None
        else _fold(op.reduction, op.reduce_axis, len(op.body), grid)
    )
    kinds = [dtype.numpy for dtype in op.dtypes]
    return [np.broadcast_to(v, shape).astype(k) for v, k in zip(outputs, kinds, strict=True)]


def _scan(op: tensor.ScanOp, here: _Points) -> None:
    """Compute the outputs of a scan: copy the first rows, then compute one row after another."""
    body, arrays = body_of(op), dict(here.arrays)
    for part in body:
        shape = [int(here.index(n)) for n in part.shape]
        arrays[part.output(0)] = np.zeros(shape, part.dtypes[0].numpy)
    for init, update, state in zip(op.inits, op.updates, op.states, strict=True):
        whole, first = arrays[update], here.arrays[init]
        whole[: len(first)] = first[: len(whole)]
        arrays[state] = whole
    inside = replace(here, arrays=arrays)
    begin, count = int(here.index(op.scan_axis.start)), int(here.index(op.scan_axis.extent))
    for t in range(begin, begin + count):
        for part in body:
            whole = arrays[part.output(0)]
            rest: list[Array] = [np.arange(n) for n in whole.shape[1:]]
            whole[t : t + 1] = _values(part, inside, [np.arange(t, t + 1), *rest])[0]
    for i, update in enumerate(op.updates):
        here.arrays[tensor.tensor_of(op, i)] = arrays[update]


def _extern(op: tensor.ExternOp, here: _Points) -> None:
    """Run the statement of `op` in the interpreter, on contiguous copies of its inputs."""
    ins = [np.ascontiguousarray(here.arrays[t]) for t in op.inputs]
    shapes = [tuple(int(here.index(n)) for n in shape) for shape in op.shapes]
    outs = [np.zeros(s, t.numpy) for s, t in zip(shapes, op.dtypes, strict=True)]
    sizes = tuple(here.values)
    params = (*op.in_buffers, *op.out_buffers, *sizes)
    func = tir.PrimFunc(op.name, params, op.body, op.out_buffers)
    tir.interpret(func, *ins, *outs, *(here.values[v] for v in sizes))
    for i, a in enumerate(outs):
        here.arrays[tensor.tensor_of(op, i)] = a


def _fold(r: tensor.Reduce, axes: tuple[tensor.Axis, ...], count: int, grid: _Points) -> list[Any]:
    """Compute the reduction `r` for all data points at once, looping over the points of `axes`.

    Return the first `count` components.
    """
    dtypes = tuple(e.dtype for e in r.sources)
    step = formulas(r.reducer, dtypes)
    totals = [grid.value(e) for e in (r.init or r.reducer.identity(dtypes))]
    for point, exists in _reduce_points(axes, grid):
        at_point = replace(grid, values={**grid.values, **point}).where(exists)
        counts = np.logical_and(exists, at_point.value(r.where))
        inside = at_point.where(counts)
        terms = [inside.value(e) for e in r.sources]
        bindings = dict(zip((*step.old, *step.new), (*totals, *terms), strict=True))
        after = replace(grid, arrays={**grid.arrays, **bindings})
        totals = [
            tir.choose(counts, after.value(e), t) for e, t in zip(step.results, totals, strict=True)
        ]
    return totals[:count]


def _reduce_points(
    axes: tuple[tensor.Axis, ...], grid: _Points
) -> Iterator[tuple[dict[tensor.Axis, int], Any]]:
    """Yield (point, exists) for every point of the reduce axes; the last axis varies fastest.

    If the range of an axis differs between elements, the axis runs over the union of the ranges,
    and `exists` tells for which elements of the grid the point is in range.
    """
    firsts = [np.asarray(grid.index(a.start)) for a in axes]
    stops = [f + np.asarray(grid.index(a.extent)) for f, a in zip(firsts, axes, strict=True)]
    spans = [
        range(int(f.min()), int(s.max())) if f.size and s.size else range(0)
        for f, s in zip(firsts, stops, strict=True)
    ]
    for point in product(*spans):
        exists = np.bool_(True)
        for at, first, stop in zip(point, firsts, stops, strict=True):
            exists = np.logical_and(exists, np.logical_and(first <= at, at < stop))
        yield dict(zip(axes, point, strict=True)), exists


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """A grid of points. An expression is evaluated at all of them at once.

    values   the value of every variable: an int, or an array that broadcasts to `shape`
    arrays   the array of every tensor; for a scalar buffer, its value at each point
    active   a mask of the points whose values are used; only these must read in bounds
    """

    values: dict[tir.Var, Any]
    arrays: dict[tir.Buffer, Any]
    shape: tuple[int, ...]
    active: Any

    def where(self, cond: Any) -> _Points:
        """Return this grid with only those active points at which `cond` is also true."""
        return replace(self, active=np.logical_and(self.active, cond))

    def index(self, e: tir.Index) -> Any:
        """Evaluate an index at every point; return an int or an int64 array."""
        match e:
            case int():
                return e
            case tir.Var():
                return self._variable(e)
            case tir.Linear(terms, const):
                return const + sum(self.index(a) * c for a, c in terms)
            case tir.Product(a, b):
                return self.index(a) * self.index(b)
            case tir.FloorDiv(a, b):
                return np.floor_divide(self.index(a), self.index(b))
            case tir.FloorMod(a, b):
                return np.mod(self.index(a), self.index(b))
            case tir.Extremum(op, a, b):
                return tir.BINARY[op].meaning(self.index(a), self.index(b))
            case tir.AsIndex(value):
                return np.asarray(self.value(value)).astype(np.int64)
            case _:
                raise ExprError(tir.text(e), "it is a value, not an index")

    def _variable(self, v: tir.Var) -> Any:
        if v not in self.values:
            why = "no input has this size, and its value is not given"
            raise ArgumentError(f"variable {v.name}", why, f"inputs = {{..., {v.name}: 8}}")
        return self.values[v]

    def value(self, e: tir.Expr) -> Any:
        """Evaluate a value at every point: a scalar, or an array that broadcasts to `shape`."""
        match e:
            case tir.Const(value, dtype):
                return dtype.numpy.type(value)
            case tir.Load():
                return self._load(e)
            case tir.Binary(op, a, b):
                return tir.BINARY[op].meaning(self.value(a), self.value(b))
            case tir.Compare(op, a, b):
                return tir.COMPARE[op](self._either(a), self._either(b))
            case tir.Cast(value, dtype):
                return tir.convert(self._either(value), dtype)
            case tir.Not(a):
                return np.logical_not(self.value(a))
            case tir.Select(cond, a, b):
                return tir.choose(self.value(cond), self.value(a), self.value(b))
            case tir.IfThenElse(cond, a, b):
                c = self.value(cond)
                yes, no = self.where(c), self.where(np.logical_not(c))
                return tir.choose(c, yes.value(a), no.value(b))
            case tir.Call(_, args) if tir.is_opaque(e):
                each = np.vectorize(tir.registered(tir.callee(e)), otypes=[e.dtype.numpy])
                return each(*(self.value(a) for a in args))
            case tir.Call(name, args):
                return tir.INTRINSICS[name].meaning(*(self.value(a) for a in args))
            case _:
                raise ExprError(tir.text(e), f"a {type(e).__name__} cannot be evaluated")

    def _either(self, e: tir.Index) -> Any:
        """Evaluate an operand of Cast or Compare: `e` may be an index or a value."""
        return self.value(e) if isinstance(e, tir.Expr) and not tir.is_index(e) else self.index(e)

    def _load(self, e: tir.Load) -> Any:
        """Return the element that `e` reads at each point; inactive points get any element.

        Raises ExprError if an active point reads out of bounds.
        """
        array = self.arrays[e.buffer]
        if not e.indices:
            return array[()]
        at: list[Any] = []
        for d, (i, n) in enumerate(zip(e.indices, array.shape, strict=True)):
            k = self.index(i)
            outside = np.logical_and(self.active, np.logical_or(k < 0, k >= n))
            if np.any(np.broadcast_to(outside, np.broadcast_shapes(np.shape(outside), self.shape))):
                why = f"index {d} of {e.buffer.name} is not always in 0 .. {n - 1}"
                raise ExprError(tir.text(e), why)
            at.append(np.clip(k, 0, max(n - 1, 0)))
        if array.size == 0:  # no point is active: any value will do
            return array.dtype.type(0)
        return array[tuple(np.broadcast_arrays(*at))]
