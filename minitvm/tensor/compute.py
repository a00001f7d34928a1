"""placeholder, compute, reduce_axis and the reductions: how a formula is written down, checked."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from minitvm import tir
from minitvm.base import BOOL, DType, ExprError, as_tuple, dtype

from .bounds import clip_reads
from .reducer import MAX, MIN, PROD, SUM, Reducer, recorded
from .tensor import (
    Axis,
    ComputeOp,
    PlaceholderOp,
    Reduce,
    Tensor,
    axis,
    limits,
    parts,
    tensor_of,
)


def var(name: str = "n", dtype: str = "int32") -> tir.Var:
    """A symbolic size or scalar, fixed when the compiled function is called; it may be negative."""
    known_name("var", name)
    _integer_type(name, dtype)
    return tir.Var(name)


def size_var(name: str = "n", dtype: str = "int32") -> tir.Var:
    """A symbolic size that is known to be >= 0."""
    known_name("size_var", name)
    _integer_type(name, dtype)
    return tir.Var(name, 0)


def known_name(what: str, name: Any) -> str:
    """`name` itself; ExprError if it is no text."""
    if not isinstance(name, str):
        raise ExprError(f"{what}: name={reprlib.repr(name)}", "a name is a text", 'name="C"')
    return name


def _integer_type(name: str, kind: str) -> None:
    if _dtype(kind) not in ("int32", "int64"):
        raise ExprError(f"var({name!r}, {kind!r})", "symbols are sizes", "int32 or int64")


def dimensions(shape: Any, what: str) -> tuple[tir.Index, ...]:
    """`shape` as a tuple of indices; 16.0 counts as 16, as in (N / 4, 4)."""
    return tuple(_dimension(n, f"{what}: dimension {d}") for d, n in enumerate(as_tuple(shape)))


def _dimension(n: Any, what: str) -> tir.Index:
    if isinstance(n, float) and n.is_integer():
        n = int(n)
    try:
        size = tir.index(n)
    except ExprError as e:
        raise ExprError(f"{what} is {n!r}", "sizes are integers") from e
    if tir.high(size) < 0:
        raise ExprError(f"{what} is {tir.text(size)}", "sizes are not negative")
    return size


def placeholder(shape: Any, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor of the given shape (ints or symbolic sizes)."""
    kind = _dtype(dtype)
    known_name("placeholder", name)
    return tensor_of(PlaceholderOp(name, dimensions(shape, f"placeholder {name}"), (kind,)), 0)


def _dtype(name: Any) -> DType:
    return dtype(name)


def reduce_axis(dom: Any, *names: str, name: str = "rv") -> Axis:
    """An axis to fold over: reduce_axis((lo, hi)) takes lo .. hi-1; empty if lo == hi.

    Made inside the lambda of a te.compute, lo and hi may depend on its axes, (0, i + 1), and on
    inputs, (P[i], P[i + 1]): empty then if hi < lo.

    names: TVM's place for the name is the second too: reduce_axis((0, K), "k").
    """
    try:
        (first, last), (name,) = dom, names or (name,)
    except (TypeError, ValueError):
        given = ", ".join(
            tir.text(n) if isinstance(n, tir.Expr) else repr(n) for n in (dom, *names)
        )
        raise ExprError(
            f"reduce_axis({given})", "it takes one pair (lo, hi)", 'reduce_axis((0, K), name="k")'
        ) from None
    known_name("reduce_axis", name)
    lo, hi = tir.index(first), tir.index(last)
    extent = tir.sub(hi, lo)
    if tir.high(extent) < 0:
        raise ExprError(
            f"reduce_axis(({tir.text(lo)}, {tir.text(hi)}))", "it ends before it begins"
        )
    return axis(name, lo, extent, "reduce")


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """The tensor of `shape` whose element at i, j, ... is fcompute(i, j, ...).

    One axis a dimension, named after fcompute's arguments. fcompute returns one expression, or a
    tuple of them for several outputs of one shape (then a tuple of tensors comes out).
    tag and attrs are kept with the operation, for those who schedule it.
    Raises ExprError if the formula has no meaning: wrong number of arguments, a reduction inside a
    larger expression, an axis that is not in scope, a read that may leave its tensor.
    """
    known_name("compute", name)
    remarks = _remarks(name, attrs)
    dims = dimensions(shape, f"compute {name}")
    names = _argument_names(fcompute, len(dims), name)
    axes = tuple(axis(n, 0, size, "data") for n, size in zip(names, dims, strict=True))
    made = fcompute(*axes)
    several = isinstance(made, tuple | list)
    body = tuple(_body(e, name) for e in as_tuple(made))
    if not body:
        raise ExprError(f"compute {name}", "the formula returns nothing", "return an expression")
    if len(body) == 1 and isinstance(body[0], Reduce) and len(body[0].sources) > 1:
        first = body[0]
        body = tuple(_component(first, i) for i in range(len(first.sources)))
        several = True
    op = ComputeOp(name, axes, _reduce_axes(body, name), body, tag, attrs=remarks)
    for e in parts(op):
        tir.check_size(e, f"compute {name}")
    _check(op)
    _check_limits(op)
    op = clip_reads(op)
    outputs = tuple(tensor_of(op, i) for i in range(len(body)))
    return outputs if several else outputs[0]


def _remarks(name: str, attrs: Any) -> dict[str, Any]:
    """A copy of `attrs`; ExprError if they are no table."""
    if not isinstance(attrs, Mapping | None):
        raise ExprError(
            f"compute {name}: attrs={reprlib.repr(attrs)}", "not a table", 'attrs={"key": value}'
        )
    return dict(cast("Mapping[str, Any]", attrs or {}))


def _component(r: Reduce, i: int) -> Reduce:
    return Reduce(r.reducer, r.sources, r.axes, r.where, r.init, i, r.sources[i].dtype)


def _argument_names(f: Callable[..., Any], count: int, name: str) -> list[str]:
    """Names for `count` axes: the arguments of f; *i gives i0, i1, ..."""
    if not callable(f):
        raise ExprError(f"compute {name}: {f!r}", "it is not a function", "lambda i: ...")
    try:
        spec = inspect.getfullargspec(f)
    except TypeError:  # functions written in C, such as max, do not tell their arguments
        raise ExprError(
            f"compute {name}: {f!r}", "its arguments cannot be seen", "lambda i: ..."
        ) from None
    plain = [a for a in spec.args if a != "self"]
    if spec.kwonlyargs or spec.defaults:
        raise ExprError(
            f"compute {name}: {', '.join(spec.kwonlyargs) or 'defaults'}",
            "the arguments of the formula are axes, they have no defaults",
            "close over the value instead",
        )
    if (spec.varargs is None and len(plain) != count) or len(plain) > count:
        raise ExprError(
            f"compute {name}: the formula takes {len(plain)} axes, the shape has {count}",
            "one axis a dimension",
            f"lambda {', '.join('ijklmnop'[:count])}: ...",
        )
    rest = count - len(plain)
    return plain + [f"{spec.varargs}{i}" for i in range(rest)]


def _body(e: Any, name: str) -> tir.Expr:
    if isinstance(e, Reduce):
        return replace(e, sources=tuple(map(tir.shallow, e.sources)), where=tir.shallow(e.where))
    if e is None:
        raise ExprError(f"compute {name}", "the formula returns nothing", "return an expression")
    return tir.shallow(tir.value(tir.operand(e)))


def _reduce_axes(body: tuple[tir.Expr, ...], name: str) -> tuple[Axis, ...]:
    reductions = [e for e in body if isinstance(e, Reduce)]
    if not reductions:
        return ()
    first = reductions[0]
    if len(reductions) < len(body) or any(e.axes is not first.axes for e in reductions):
        raise ExprError(
            f"compute {name}: outputs of different kinds",
            "all outputs of one compute are parts of the same reduction, or none is",
            "one te.compute for each",
        )
    return first.axes


def _check(op: ComputeOp) -> None:
    """The formula mentions only its own axes and symbolic sizes, and reduces at the top only."""
    own = {id(a) for a in (*op.axis, *op.reduce_axis)}
    for e in parts(op):
        for n in tir.walk(e):
            if tir.overflows(n):
                raise ExprError(
                    f"compute {op.name}: the index {tir.text(n)}",
                    f"computing it may reach {tir.largest_sum(n)}, and indices have 64 bits",
                    "x.astype('float64') before multiplying, if it is a value",
                )
            if isinstance(n, Reduce):
                raise ExprError(
                    f"compute {op.name}: a reduction inside a larger expression",
                    "a reduction is the whole body of a compute",
                    "give the reduction a compute of its own and read it in a second one",
                )
            if isinstance(n, Axis) and id(n) not in own:
                reduce = n.kind == "reduce"
                raise ExprError(
                    f"compute {op.name}: axis {n.name!r} is not in scope",
                    "it is a reduce axis that no reduction here runs over"
                    if reduce
                    else "it belongs to another compute",
                    f"add {n.name} to the axis list: te.sum(..., axis=[..., {n.name}])"
                    if reduce
                    else "use the arguments of this lambda",
                )


def _check_limits(op: ComputeOp) -> None:
    """Reduce axes end where data axes, sizes and inputs say."""
    own = {id(a) for a in op.axis}
    for e in limits(op):
        for n in tir.walk(e):
            if isinstance(n, Axis) and id(n) not in own:
                raise ExprError(
                    f"compute {op.name}: a reduce axis that depends on {n.name!r}",
                    "its range is known before anything is folded, and for each element",
                    "the arguments of this lambda; or a fixed range, and where=...",
                )
            if isinstance(n, tir.Load) and not isinstance(
                getattr(n.buffer, "op", None), PlaceholderOp
            ):
                raise ExprError(
                    f"compute {op.name}: a reduce axis as long as {tir.text(n)} says",
                    f"{n.buffer.name} is computed: only inputs are known before the loops run",
                    f"make {n.buffer.name} a te.placeholder, computed by a program before",
                )


# --- reductions ----------------------------------------------------------------------------------


def _axes(given: Any, name: str) -> tuple[Axis, ...]:
    axes = as_tuple(given)
    for a in axes:
        if not isinstance(a, Axis) or a.kind != "reduce":
            raise ExprError(
                f"te.{name} over {a!r}", "only reduce axes are folded", "te.reduce_axis((0, K))"
            )
    if not axes:
        raise ExprError(f"te.{name} over no axis", "there is nothing to fold")
    if len({id(a) for a in axes}) < len(axes):
        raise ExprError(f"te.{name}", "the same axis is given twice")
    return axes


def reduce(reducer: Reducer, expr: Any, axis: Any, where: Any = None, init: Any = None) -> Reduce:
    """`expr` (or a tuple of them) folded by `reducer` over the reduce axis or axes `axis`."""
    if axis is None:
        raise ExprError(
            f"te.{reducer.name} without an axis",
            "it folds over reduce axes",
            f"k = te.reduce_axis((0, K)), then te.{reducer.name}(..., axis=k)",
        )
    sources = tuple(tir.value(tir.operand(e)) for e in as_tuple(expr))
    if not sources:
        raise ExprError(f"te.{reducer.name} of ()", "there is nothing to fold", "an expression")
    if any(e.dtype is BOOL for e in sources):
        raise ExprError(f"te.{reducer.name} of bool", "", "x.astype('int32') first")
    cond = tir.TRUE if where is None else tir.all_of(where)
    given = () if init is None else as_tuple(init)
    if given and len(given) != len(sources):
        raise ExprError(
            f"te.{reducer.name}", f"{len(given)} values to start from, {len(sources)} to fold"
        )
    starts = tuple(
        tir.cast_to(tir.value(e, s.dtype), s.dtype) for e, s in zip(given, sources, strict=False)
    )
    known = recorded(reducer, tuple(s.dtype for s in sources))
    return Reduce(known, sources, _axes(axis, reducer.name), cond, starts, 0, sources[0].dtype)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Reduce]:
    """A reduction of one's own: fcombine(x, y) folds two values, fidentity(dtype) is neutral.

    For tuples (say argmax: index and value) x and y are tuples, fcombine returns one, and
    fidentity takes one dtype for each. fcombine must be associative and commutative: the order of
    folding is free. The result is used as te.sum is: r(expr or tuple, axis, where=, init=).
    """
    known_name("comm_reducer", name)
    for f in (fcombine, fidentity):
        if not callable(f):
            raise ExprError(f"comm_reducer {name}: {f!r}", "it is not a function")

    def combine(old: tuple[tir.Expr, ...], new: tuple[tir.Expr, ...]) -> tuple[tir.Expr, ...]:
        made = fcombine(old[0], new[0]) if len(old) == 1 else fcombine(old, new)
        values = _one_each(made, len(old), f"{name}: fcombine")
        return tuple(tir.cast_to(tir.value(e), x.dtype) for e, x in zip(values, old, strict=True))

    def identity(types: tuple[DType, ...]) -> tuple[tir.Expr, ...]:
        values = _one_each(fidentity(*types), len(types), f"{name}: fidentity")
        return tuple(tir.cast_to(tir.value(e, t), t) for e, t in zip(values, types, strict=True))

    reducer = Reducer(name, combine, identity)

    def fold(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
        return reduce(reducer, expr, axis, where, init)

    return fold


def _one_each(made: Any, count: int, what: str) -> tuple[Any, ...]:
    """What a function of a reducer returned: `count` values, or it is an ExprError."""
    values = as_tuple(made)
    if len(values) != count:
        raise ExprError(
            f"comm_reducer {what} returns {len(values)} value(s), {count} are folded",
            "it returns one for each of them",
        )
    return values


def min_value(dtype: str) -> tir.Const:
    """The smallest value of a type: -inf for floats."""
    kind = _dtype(dtype)
    return tir.Const(kind.low, kind)


def max_value(dtype: str) -> tir.Const:
    """The largest value of a type: inf for floats."""
    kind = _dtype(dtype)
    return tir.Const(kind.high, kind)


def sum(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
    """expr summed over `axis` (one reduce axis or a list)."""
    return reduce(SUM, expr, axis, where, init)


def prod(expr: Any, axis: Any = None, where: Any = None, init: Any = None) -> Reduce:
    """The product of expr over `axis`."""
    return reduce(PROD, expr, axis, where, init)


def max(a: Any, b: Any = None, where: Any = None, init: Any = None, axis: Any = None) -> Any:
    """max(expr, axis): the largest over reduce axes. max(a, b): the larger of two values."""
    return _extreme(MAX, "max", a, b, axis, where, init)


def min(a: Any, b: Any = None, where: Any = None, init: Any = None, axis: Any = None) -> Any:
    """min(expr, axis): the smallest over reduce axes. min(a, b): the smaller of two values."""
    return _extreme(MIN, "min", a, b, axis, where, init)


def _extreme(
    reducer: Reducer, op: tir.BinaryOp, a: Any, b: Any, axis: Any, where: Any, init: Any
) -> Any:
    if axis is not None:
        return reduce(reducer, a, axis, where, init)
    if b is None:
        raise ExprError(
            f"te.{op} of one value",
            "there is nothing to compare it with",
            f"te.{op}(a, b), or te.{op}(expr, axis=k)",
        )
    over = isinstance(b, tuple | list) or (isinstance(b, Axis) and b.kind == "reduce")
    return reduce(reducer, a, b, where, init) if over else tir.binary(op, a, b)
