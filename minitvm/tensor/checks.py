"""Checks of the arguments of te.compute, of its axes and of reductions.

Functions named about_... yield (why, fix) for each fault that they find.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from minitvm import tir
from minitvm.base import BOOL, ExprError, Reason, as_tuple, dtype, raise_first

from . import tensor


def known_name(what: str, name: Any) -> str:
    """Return `name`; raise ExprError if it is not a string. `what` begins the message."""
    if not isinstance(name, str):
        raise ExprError(f"{what}: name={reprlib.repr(name)}", "a name is a string", 'name="C"')
    return name


def check_size_var(what: str, name: Any, kind: Any) -> None:
    """Raise ExprError if `name` is not a string or `kind` is neither int32 nor int64."""
    known_name(what, name)
    if dtype(kind) not in ("int32", "int64"):
        raise ExprError(f"var({name!r}, {kind!r})", "a size is an int32 or int64", 'dtype="int32"')


def known_function(what: str, f: Any, fix: str) -> None:
    """Raise ExprError if `f` is not callable. `what` begins the message, and `fix` ends it."""
    if not callable(f):
        raise ExprError(f"{what}: {f!r}", "not a function", fix)


def dimensions(shape: Any, what: str) -> tuple[tir.Index, ...]:
    """Return `shape` as a tuple of indices; whole floats are accepted, such as 16.0 for N / 4."""
    return tuple(_dimension(n, f"{what}: dimension {d}") for d, n in enumerate(as_tuple(shape)))


def _dimension(n: Any, what: str) -> tir.Index:
    try:
        size = tir.index(int(n) if isinstance(n, float) and n.is_integer() else n)
    except ExprError as e:
        raise ExprError(f"{what} is {n!r}", "sizes are integers") from e
    if tir.upper_bound(size) < 0:
        raise ExprError(f"{what} is {tir.text(size)}", "sizes are not negative")
    return size


def range_of(dom: Any, names: Sequence[Any], name: Any) -> tuple[str, tir.Index, tir.Index]:
    """Return (name, start, extent) for the call reduce_axis(dom, *names, name=name).

    Raises ExprError if `dom` is not a pair (lo, hi) with lo <= hi.
    """
    try:
        (first, stop), (name,) = dom, names or (name,)
    except (TypeError, ValueError):
        arguments = (tir.text(n) if isinstance(n, tir.Expr) else repr(n) for n in (dom, *names))
        what, fix = f"reduce_axis({', '.join(arguments)})", 'reduce_axis((0, K), name="k")'
        raise ExprError(what, "it takes one pair (lo, hi)", fix) from None
    name, lo, hi = known_name("reduce_axis", name), tir.index(first), tir.index(stop)
    extent = tir.sub(hi, lo)
    if tir.upper_bound(extent) < 0:
        what = f"reduce_axis(({tir.text(lo)}, {tir.text(hi)}))"
        raise ExprError(what, "its end is before its start", f"({tir.text(hi)}, {tir.text(lo)})")
    return name, lo, extent


def argument_names(f: Callable[..., Any], count: int, name: str) -> list[str]:
    """Return the parameter names of `f`, one for each of `count` axes of the compute `name`.

    A parameter *i gives i0, i1, ... Raises ExprError if `f` does not take one axis per dimension.
    """
    what = f"compute {name}"
    known_function(what, f, "lambda i: ...")
    try:
        spec = inspect.getfullargspec(f)
    except TypeError:  # functions written in C, such as max, do not tell their parameters
        why = "its arguments cannot be inspected"
        raise ExprError(f"{what}: {f!r}", why, "lambda i: ...") from None
    plain = [a for a in spec.args if a != "self"]
    if spec.kwonlyargs or spec.defaults:
        why = "the arguments of a formula are axes, which have no defaults"
        names = ", ".join(spec.kwonlyargs) or "defaults"
        raise ExprError(f"{what}: {names}", why, "close over the value instead")
    if (spec.varargs is None and len(plain) != count) or len(plain) > count:
        raise ExprError(
            f"{what}: the formula takes {len(plain)} axes, the shape has {count}",
            "one axis per dimension",
            f"lambda {', '.join('ijklmnop'[:count])}: ...",
        )
    return plain + [f"{spec.varargs}{i}" for i in range(count - len(plain))]


def about_attrs(attrs: Any) -> Iterator[Reason]:
    """Yield a reason if `attrs` is not a mapping, or lists a constant that is not an input."""
    if not isinstance(attrs, Mapping | None):
        yield f"attrs={reprlib.repr(attrs)}: not a mapping", 'attrs={"key": value}'
        return
    for t in as_tuple(attrs[tensor.LAYOUT_FREE]) if attrs and tensor.LAYOUT_FREE in attrs else ():
        fits = isinstance(t, tensor.Tensor) and isinstance(t.op, tensor.PlaceholderOp)
        if not fits or not all(isinstance(n, int) for n in t.shape):
            why = f"{tensor.LAYOUT_FREE}: {reprlib.repr(t)} is not an input with constant sizes"
            yield why, f'attrs={{"{tensor.LAYOUT_FREE}": [W]}} with W = te.placeholder((64, 64))'


def about_results(results: Sequence[Any]) -> Iterator[Reason]:
    """Yield a reason if a formula returns nothing, or results that cannot be computed together."""
    if not results or any(e is None for e in results):
        yield "the formula returns nothing", "return an expression"
    reductions = [e for e in results if isinstance(e, tensor.Reduce)]
    mixed = reductions and len(reductions) < len(results)
    if mixed or any(e.axes is not reductions[0].axes for e in reductions):
        yield (
            "outputs of different kinds: all outputs of one compute are parts of the same "
            "reduction, or none is",
            "one te.compute for each",
        )


def about_formula(op: tensor.ComputeOp) -> Iterator[Reason]:
    """Yield the faults of a formula: huge indices, nested reductions, axes not in scope."""
    axes = {id(a) for a in (*op.axis, *op.reduce_axis)}
    for n in (n for e in tensor.parts(op) for n in tir.walk(e)):
        if tir.overflows(n):
            reach = f"computing it may reach {tir.largest_sum(n)}, and indices have 64 bits"
            fix = "x.astype('float64') before multiplying, if it is a value"
            yield f"the index {tir.text(n)}: {reach}", fix
        if isinstance(n, tensor.Reduce):
            why = "a reduction is the whole body of a compute"
            yield (
                f"a reduction inside a larger expression: {why}",
                "give the reduction a compute of its own and read it in a second one",
            )
        if isinstance(n, tensor.Axis) and id(n) not in axes:
            why = f"axis {n.name!r} is not in scope: it "
            if n.kind != "reduce":
                yield why + "belongs to another compute", "use the arguments of this lambda"
            fix = f"add {n.name} to the axis list: te.sum(..., axis=[..., {n.name}])"
            yield why + "is a reduce axis that no reduction here runs over", fix


def about_limits(op: tensor.ComputeOp) -> Iterator[Reason]:
    """Yield a reason if a reduce range depends on a reduce axis or on a computed tensor."""
    axes = {id(a) for a in op.axis}
    for n in (n for e in tensor.variable_reduce_ranges(op) for n in tir.walk(e)):
        if isinstance(n, tensor.Axis) and id(n) not in axes:
            yield (
                f"the range of a reduce axis depends on {n.name!r}: it must be known for each "
                "element before the reduction starts",
                "use only the arguments of this lambda; or a fixed range, and where=...",
            )
        source = getattr(n.buffer, "op", None) if isinstance(n, tir.Load) else None
        if isinstance(n, tir.Load) and not isinstance(source, tensor.PlaceholderOp):
            yield (
                f"the range of a reduce axis depends on {tir.text(n)}: {n.buffer.name} is "
                "computed, and only inputs are known before the loops run",
                f"make {n.buffer.name} a te.placeholder, and compute it in a program of its own",
            )


def about_sources(sources: Sequence[tir.Expr], starts: Sequence[Any]) -> Iterator[Reason]:
    """Yield a reason if a reduction has no sources, bool sources, or a wrong number of `starts`."""
    if not sources:
        yield "there is nothing to reduce", "an expression"
    if any(e.dtype is BOOL for e in sources):
        yield "values of type bool cannot be reduced", "x.astype('int32') first"
    if starts and len(starts) != len(sources):
        yield f"init has {len(starts)} values, but {len(sources)} are reduced", "one for each"


def fold_axes(name: str, axis: Any) -> tuple[tensor.Axis, ...]:
    """Return the argument `axis` of te.sum or another reduction as a tuple of reduce axes.

    Raises ExprError if it has no axes, or an axis of another kind.
    """
    axes = () if axis is None else as_tuple(axis)
    raise_first(ExprError, f"te.{name}", _about_axes(name, axes))
    return axes


def _about_axes(name: str, axes: Sequence[Any]) -> Iterator[Reason]:
    """Yield a reason if there are no axes, one is not a reduce axis, or one is given twice."""
    if not axes:
        fix = f"k = te.reduce_axis((0, K)), then te.{name}(..., axis=k)"
        yield "there is no axis to reduce over", fix
    for a in axes:
        if not isinstance(a, tensor.Axis) or a.kind != "reduce":
            yield f"{a!r} is not a reduce axis", "te.reduce_axis((0, K))"
    if len({id(a) for a in axes}) < len(axes):
        yield ("the same axis is given twice",)


def one_each(returned: Any, count: int, what: str) -> tuple[Any, ...]:
    """Return the result of a user's fcombine or fidentity as a tuple of `count` values.

    Raises ExprError if it has another number of values.
    """
    values = as_tuple(returned)
    if len(values) != count:
        why = f"it returns {len(values)} value(s), but {count} are reduced"
        raise ExprError(f"comm_reducer {what}", why, "return a tuple with one value for each")
    return values
