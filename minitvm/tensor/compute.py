"""The functions that define formulas: placeholder, compute, reduce_axis and the reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import DType, ExprError, as_tuple, check_flag, raise_first
from minitvm.base import dtype as dtype_of

from . import checks
from .bounds import clip_reads
from .reducer import MAX, MIN, PROD, SUM, Reducer, recorded
from .tensor import Axis, ComputeOp, PlaceholderOp, Reduce, Tensor, axis, parts, tensor_of


def var(name: str = "n", dtype: str = "int32") -> tir.Var:
    """Make a symbolic size or scalar that may be negative. Each call gives it a value."""
    checks.check_size_var("var", name, dtype)
    return tir.Var(name)


def size_var(name: str = "n", dtype: str = "int32") -> tir.Var:
    """Make a symbolic size that the compiler may assume to be >= 0."""
    checks.check_size_var("size_var", name, dtype)
    return tir.Var(name, 0)


def placeholder(
    shape: Any, dtype: str = "float32", name: str = "placeholder", constant: bool = False
) -> Tensor:
    """Make an input tensor of the given shape (ints or symbolic sizes).

    constant: whether its contents are the same in every call, such as the weights of a network.
    Stages that depend only on constants are computed once, before the calls: `Function.bind`.
    """
    kind, what = dtype_of(dtype), f"placeholder {checks.known_name('placeholder', name)}"
    size = checks.dimensions(shape, what)
    if check_flag(f"{what}: constant", constant) and not all(isinstance(n, int) for n in size):
        raise ExprError(what, "a constant cannot have symbolic sizes", "sizes that are integers")
    return tensor_of(PlaceholderOp(name, size, (kind,), constant=constant), 0)


def reduce_axis(dom: Any, *names: str, name: str = "rv") -> Axis:
    """Make an axis to reduce over: reduce_axis((lo, hi)) takes the values lo .. hi-1.

    Inside the lambda of a te.compute, lo and hi may depend on its axes, such as (0, i + 1), and on
    inputs, such as (P[i], P[i + 1]); the axis is then empty for elements with hi < lo.

    names: as in TVM, the name may also be the second argument: reduce_axis((0, K), "k").
    """
    return axis(*checks.range_of(dom, names, name), "reduce")


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Define the tensor of `shape` whose element at i, j, ... is fcompute(i, j, ...).

    There is one axis per dimension, named after fcompute's arguments. fcompute returns one
    expression, or a tuple of them: compute then returns a tuple of tensors of the same shape.
    tag and attrs are stored in the operation, for use by schedulers.
    Raises ExprError if the formula is invalid: wrong number of arguments, a reduction inside a
    larger expression, an axis that is not in scope, a read that may be out of bounds.
    """
    what = f"compute {checks.known_name('compute', name)}"
    raise_first(ExprError, what, checks.about_attrs(attrs))
    dims = checks.dimensions(shape, what)
    names = checks.argument_names(fcompute, len(dims), name)
    axes = tuple(axis(n, 0, size, "data") for n, size in zip(names, dims, strict=True))
    result = fcompute(*axes)
    results = as_tuple(result)
    raise_first(ExprError, what, checks.about_results(results))
    body = tuple(map(_body, results))
    first = body[0]
    several = isinstance(result, tuple | list)
    if len(body) == 1 and isinstance(first, Reduce) and len(first.sources) > 1:
        several = True  # a reduction of tuples: one output for each component
        body = tuple(
            replace(first, value_index=n, dtype=e.dtype) for n, e in enumerate(first.sources)
        )
    reduced = first.axes if isinstance(first, Reduce) else ()
    op = ComputeOp(name, axes, reduced, body, tag, attrs=dict(attrs or {}))
    for e in parts(op):
        tir.check_size(e, what)
    raise_first(ExprError, what, checks.about_formula(op))
    raise_first(ExprError, what, checks.about_limits(op))
    op = clip_reads(op)
    outputs = tuple(tensor_of(op, i) for i in range(len(body)))
    return outputs if several else outputs[0]


def _body(e: Any) -> tir.Expr:
    """Convert the result of a formula's lambda to an expression that is not nested too deeply."""
    if isinstance(e, Reduce):
        return replace(e, sources=tuple(map(tir.shallow, e.sources)), where=tir.shallow(e.where))
    return tir.shallow(tir.value(tir.operand(e)))


# --- reductions ----------------------------------------------------------------------------------


def reduce(reducer: Reducer, expr: Any, axis: Any, where: Any = None, init: Any = None) -> Reduce:
    """Return the reduction of `expr`, an expression or a tuple of them, by `reducer` over `axis`.

    axis    a reduce axis, or a list of them
    where   a condition; only points at which it is true are reduced
    init    the start value, instead of the identity of the reducer; a tuple for a tuple `expr`
    """
    axes = checks.fold_axes(reducer.name, axis)
    sources = tuple(tir.value(tir.operand(e)) for e in as_tuple(expr))
    inits = () if init is None else as_tuple(init)
    raise_first(ExprError, f"te.{reducer.name}", checks.about_sources(sources, inits))
    cond = tir.TRUE if where is None else tir.all_of(where)
    starts = tuple(
        tir.cast_to(tir.value(e, s.dtype), s.dtype) for e, s in zip(inits, sources, strict=False)
    )
    known = recorded(reducer, tuple(s.dtype for s in sources))
    return Reduce(known, sources, axes, cond, starts, 0, sources[0].dtype)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Reduce]:
    """Define a reduction such as te.sum: fcombine(x, y) combines two values into one.

    fidentity(dtype) returns the neutral value. When tuples are reduced, such as (index, value)
    for an argmax, x, y and the results of both functions are tuples, and fidentity takes one dtype
    per component. fcombine must be associative and commutative, because values are combined in any
    order. The result is a function that is used like te.sum: r(expr or tuple, axis, where=, init=).
    """
    checks.known_name("comm_reducer", name)
    for f in (fcombine, fidentity):
        checks.known_function(f"comm_reducer {name}", f, "comm_reducer(fcombine, fidentity)")

    def combine(old: tuple[tir.Expr, ...], new: tuple[tir.Expr, ...]) -> tuple[tir.Expr, ...]:
        combined = fcombine(old[0], new[0]) if len(old) == 1 else fcombine(old, new)
        values = checks.one_each(combined, len(old), f"{name}: fcombine")
        return tuple(tir.cast_to(tir.value(e), x.dtype) for e, x in zip(values, old, strict=True))

    def identity(types: tuple[DType, ...]) -> tuple[tir.Expr, ...]:
        values = checks.one_each(fidentity(*types), len(types), f"{name}: fidentity")
        return tuple(tir.cast_to(tir.value(e), t) for e, t in zip(values, types, strict=True))

    reducer = Reducer(name, combine, identity)

    def fold(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
        return reduce(reducer, expr, axis, where, init)

    return fold


def min_value(dtype: str) -> tir.Const:
    """Return the smallest value of type `dtype` as a literal; -inf for float types."""
    kind = dtype_of(dtype)
    return tir.Const(kind.low, kind)


def max_value(dtype: str) -> tir.Const:
    """Return the largest value of type `dtype` as a literal; inf for float types."""
    kind = dtype_of(dtype)
    return tir.Const(kind.high, kind)


def sum(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
    """Sum `expr` over `axis`, a reduce axis or a list of them; see `reduce` for where and init."""
    return reduce(SUM, expr, axis, where, init)


def prod(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
    """Multiply the values of `expr` over `axis`, a reduce axis or a list of them."""
    return reduce(PROD, expr, axis, where, init)


def max(a: Any, b: Any = None, where: Any = None, init: Any = None, axis: Any = None) -> Any:
    """Return the largest value over reduce axes, max(expr, axis), or of two values, max(a, b)."""
    return _extreme(MAX, "max", a, b, axis, where, init)


def min(a: Any, b: Any = None, where: Any = None, init: Any = None, axis: Any = None) -> Any:
    """Return the smallest value over reduce axes, min(expr, axis), or of two values, min(a, b)."""
    return _extreme(MIN, "min", a, b, axis, where, init)


def _extreme(
    reducer: Reducer, op: tir.BinaryOp, a: Any, b: Any, axis: Any, where: Any, init: Any
) -> Any:
    if axis is not None:
        return reduce(reducer, a, axis, where, init)
    if b is None:
        fix = f"te.{op}(a, b), or te.{op}(expr, axis=k)"
        raise ExprError(f"te.{op} of one value", "there is nothing to compare it with", fix)
    is_axes = isinstance(b, tuple | list) or (isinstance(b, Axis) and b.kind == "reduce")
    return reduce(reducer, a, b, where, init) if is_axes else tir.binary(op, a, b)
