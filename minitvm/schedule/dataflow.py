"""Steps that rewrite formulas: copies of tensors in other memories, other layouts."""

from __future__ import annotations

import ast
import inspect
import math
import reprlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .state import At, Stage, State, names_of, new_stage, root_axes, unique
from .steps import CacheRead, CacheWrite, TransformLayout


def map_bodies(op: tensor.ComputeOp, f: Callable[[Any], Any]) -> tensor.ComputeOp:
    """`op` with `f` applied to every expression of its bodies, reductions kept as such."""

    def body(e: tir.Expr) -> tir.Expr:
        if not isinstance(e, tensor.Reduce):
            return f(e)
        sources, init = tuple(f(s) for s in e.sources), tuple(f(s) for s in e.init)
        return tensor.Reduce(e.reducer, sources, e.axes, f(e.where), init, e.value_index, e.dtype)

    bodies = tuple(body(e) for e in op.body)
    return tensor.ComputeOp(op.name, op.axis, op.reduce_axis, bodies, op.tag, attrs=op.attrs)


def reread(
    op: tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp,
    tensors: dict[tensor.Tensor, tensor.Tensor],
) -> tensor.ComputeOp | tensor.ExternOp | tensor.ScanOp:
    """`op` reading other tensors; the same object if it reads none of them."""
    if not any(t in tensors for t in op.input_tensors):
        return op
    if isinstance(op, tensor.ScanOp):
        return tensor.rescan(op, tensors)
    if isinstance(op, tensor.ExternOp):
        return tensor.bound_to(op, tensors)
    return map_bodies(op, lambda e: tir.rebuffer(e, tensors))  # type: ignore[arg-type]


def retarget(
    state: State, tensors: dict[tensor.Tensor, tensor.Tensor], only: set[str] | None = None
) -> State:
    """`state` with readers (or `only` those named) reading other tensors, and so on downstream."""
    moved = dict(tensors)
    stages: list[Stage] = []
    for s in state.stages:
        if not isinstance(s.op, tensor.PlaceholderOp):
            table = moved if only is None or s.name in only else _without(moved, tensors)
            new = reread(s.op, table)
            if new is not s.op:
                for i in range(len(new.dtypes)):
                    moved[tensor.tensor_of(s.op, i)] = tensor.tensor_of(new, i)
                s = s.change(op=new)  # noqa: PLW2901  the stage, brought up to date
        stages.append(s)
    return state.with_stages(stages)


def _without(
    moved: dict[tensor.Tensor, tensor.Tensor], direct: dict[tensor.Tensor, tensor.Tensor]
) -> dict[tensor.Tensor, tensor.Tensor]:
    return {old: new for old, new in moved.items() if old not in direct}


def insert(state: State, at: str, new: Stage, after: bool) -> State:
    """`state` with the stage `new` right before, or after, the one called `at`."""
    here = next(n for n, s in enumerate(state.stages) if s.name == at) + after
    return state.with_stages((*state.stages[:here], new, *state.stages[here:]))


def _copy_of(t: tensor.Tensor, name: str) -> tensor.ComputeOp:
    """name[ax0, ax1, ...] = t[ax0, ax1, ...]"""
    axes = tuple(tensor.axis(f"ax{d}", 0, n, "data") for d, n in enumerate(t.shape))
    return tensor.ComputeOp(name, axes, (), (tir.load(t, *axes),))


def cache_read(state: State, step: CacheRead, scope: str) -> State:
    """A new stage `name.scope` that copies the tensor; the readers read the copy."""
    source = state.stage(step.stage)
    if not 0 <= step.output < len(source.op.dtypes):  # a step may come from JSON
        raise ScheduleError(f"cache_read of {step.stage}", f"it has no output {step.output}")
    t = tensor.tensor_of(source.op, step.output)
    if not step.readers:
        raise ScheduleError(f"cache_read of {step.stage}", "no reader is named")
    for name in step.readers:
        op = state.stage(name).op
        if isinstance(op, tensor.ComputeOp) and any(e.buffer == t for e in tensor.extent_loads(op)):
            raise ScheduleError(
                f"cache_read of {t.name} for {name}",
                f"it says how long a reduce axis of {name} is, and is read once for each element",
                "leave it where it is",
            )
        if isinstance(op, tensor.PlaceholderOp) or t not in op.input_tensors:
            who = [s.name for s in state.stages if _reads(s, t)]
            raise ScheduleError(
                f"cache_read of {t.name} for {name}",
                f"{name} does not read {t.name}",
                f"its readers: {', '.join(who) or 'none'}",
            )
    name = unique(f"{source.name}.{scope}", {s.name for s in state.stages})
    copy = _copy_of(t, name)
    state = retarget(state, {t: tensor.tensor_of(copy, 0)}, set(step.readers))
    return insert(state, source.name, new_stage(name, copy, scope=scope), True)


def _reads(s: Stage, t: tensor.Tensor) -> bool:
    return not isinstance(s.op, tensor.PlaceholderOp) and t in s.op.input_tensors


def cache_write(state: State, step: CacheWrite, scope: str) -> State:
    """A new stage `name.scope` that computes; the old one copies from it, keeping its data axes.

    The new stage has axes i.c, j.c, ... and the reduce axes of the old one.
    """
    stage = state.stage(step.stage)
    op = stage.op
    if isinstance(op, tensor.PlaceholderOp):
        raise ScheduleError(f"cache_write of {stage.name}", "it is an input, nothing is computed")
    if isinstance(op, tensor.ScanOp):
        raise ScheduleError(
            f"cache_write of {stage.name}",
            "it is a scan, which reads the rows that it has written",
            f"cache_write of {op.updates[0].op.name}, or cache_read of {stage.name}",
        )
    if isinstance(op, tensor.ExternOp):
        raise ScheduleError(
            f"cache_write of {stage.name}",
            "it is an extern operation: only its own statement knows where it writes",
            "cache_read of its result",
        )
    if any(_mentions(e, op.axis) for e in tensor.limits(op)):
        raise ScheduleError(
            f"cache_write of {stage.name}",
            "the range of its reduce axis depends on its data axes, which get new names",
            "a te.compute that copies it, written by hand",
        )
    if stage.relations or stage.notes or stage.predicate or _moved(stage):
        raise ScheduleError(
            f"cache_write of {stage.name}",
            "its loops have been changed already, and they would be lost",
            "call cache_write before split, fuse, reorder, vectorize, ...",
        )
    for s in state.stages:
        if isinstance(s.attach, At) and s.attach.stage == stage.name:
            raise ScheduleError(
                f"cache_write of {stage.name}",
                f"{s.name} is attached to it",
                "call cache_write before compute_at",
            )
    name = unique(f"{stage.name}.{scope}", {s.name for s in state.stages})
    axes = tuple(tensor.axis(f"{a.name}.c", 0, a.extent, "data") for a in op.axis)
    renamed = dict(zip(op.axis, axes, strict=True))
    inner = map_bodies(op, lambda e: tir.substitute(e, renamed))
    inner = tensor.ComputeOp(name, axes, op.reduce_axis, inner.body, attrs=op.attrs)
    outer = tensor.ComputeOp(
        op.name,
        op.axis,
        (),
        tuple(tir.load(tensor.tensor_of(inner, i), *op.axis) for i in range(len(op.body))),
        op.tag,
        attrs=op.attrs,
    )
    state = state.with_stage(stage.change(op=outer, leaves=outer.axis, names=names_of(outer)))
    n = len(op.body)
    state = retarget(state, {tensor.tensor_of(op, i): tensor.tensor_of(outer, i) for i in range(n)})
    return insert(state, stage.name, new_stage(name, inner, scope=scope), False)


def _mentions(e: tir.Expr, axes: tuple[tensor.Axis, ...]) -> bool:
    return any(v is a for v in tir.variables(e) for a in axes)


def _moved(stage: Stage) -> bool:
    return any(a is not b for a, b in zip(stage.leaves, root_axes(stage.op), strict=False))


# --- layouts -------------------------------------------------------------------------------------


def layout_index(layout: tuple[str, ...], names: tuple[str, ...], at: Any) -> tuple[Any, ...]:
    """The layout's expressions evaluated at `at` (indices, ints or arrays), one for each name."""
    env = dict(zip(names, at, strict=True))
    return tuple(arithmetic(parsed(e), env, e) for e in layout)


LONGEST = 500  # characters of a formula in a step; Python cannot parse what is nested very deeply
GREATEST = 2**31  # no array is longer: an integer beyond is none of a layout


def parsed(source: str) -> ast.expr:
    """The formula `source` taken apart; ScheduleError if it is none."""
    try:
        if len(source) <= LONGEST:
            return ast.parse(source, mode="eval").body
        why = f"it has {len(source)} characters, at most {LONGEST} are read"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        why = str(e)
    shown = reprlib.repr(source)
    raise ScheduleError(f"formula {shown} in a step", why, "a text such as 'i // 16'")


def arithmetic(n: ast.expr, env: dict[str, Any], source: str) -> Any:
    """The value of + - * // % over names and ints; anything else is refused, never run."""
    match n:
        case ast.Constant(value=int() as v) if type(v) is int and v < GREATEST:
            return v
        case ast.Name(id=name) if name in env:
            return env[name]
        case ast.UnaryOp(ast.USub(), a):
            return -1 * arithmetic(a, env, source)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            if isinstance(op, ast.FloorDiv | ast.Mod) and not _is_positive(right):
                raise ScheduleError(f"layout {source!r}", "a divisor is an integer >= 1")
            return _OPERATORS[type(op)](
                arithmetic(left, env, source), arithmetic(right, env, source)
            )
        case _:
            raise ScheduleError(
                f"layout {source!r}", "it is not made of axes, integers, + - * // and %"
            )


def _is_positive(n: ast.expr) -> bool:
    return isinstance(n, ast.Constant) and isinstance(n.value, int) and n.value >= 1


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def transform_layout(state: State, step: TransformLayout, stage: Stage) -> State:
    """`state` in which the stage's elements are stored at another place; its loops stay."""
    op = stage.op
    shape = op.shape
    if len(step.axes) != len(shape):
        raise ScheduleError(
            f"transform_layout of {stage.name}",
            f"it has {len(shape)} dimensions, the layout takes {len(step.axes)} axes",
        )
    if len(set(step.axes)) < len(step.axes):
        raise ScheduleError(
            f"transform_layout of {stage.name}", f"two of the axes {', '.join(step.axes)} are equal"
        )
    if not step.layout:
        raise ScheduleError(f"transform_layout of {stage.name}", "the layout has no dimensions")
    _one_place_each(stage.name, step, shape)
    return state.with_stage(stage.change(layout=(step.axes, step.layout)))


MOST_POINTS = 1 << 20  # of a layout that is tried out point by point


def _one_place_each(name: str, step: TransformLayout, shape: tuple[tir.Index, ...]) -> None:
    """Every element has a place of its own, for certain: seen from the form, or tried out."""
    what = f"transform_layout of {name} to [{', '.join(step.layout)}]"
    if _takes_apart(step.axes, step.layout):
        return
    sizes = tuple(n for n in shape if isinstance(n, int))
    if len(sizes) < len(shape) or math.prod(sizes) > MOST_POINTS:
        raise ScheduleError(
            what,
            "it cannot be shown that no two elements share a place",
            "use each axis as a whole, or as axis // c and axis % c",
        )
    if not _is_one_to_one(step.axes, step.layout, sizes):
        raise ScheduleError(
            what,
            "two elements would share a place, or lie before the start",
            "use each axis fully: k, j -> j // 16, k, j % 16",
        )


def _takes_apart(axes: tuple[str, ...], layout: tuple[str, ...]) -> bool:
    """Is each axis there once as a whole, or once as axis // c and once as axis % c?"""
    whole, halves = list[str](), dict[tuple[str, str], set[type[ast.operator]]]()
    for text in layout:
        match parsed(text):
            case ast.Name(name):
                whole.append(name)
            case ast.BinOp(
                ast.Name(name), ast.FloorDiv() | ast.Mod() as op, ast.Constant(int() as c)
            ):
                halves.setdefault((name, str(c)), set()).add(type(op))
            case _:
                return False
    found = whole + [name for (name, c), ops in halves.items() if len(ops) == 2 and int(c) > 0]
    return sorted(found) == sorted(axes) and len(layout) == len(whole) + 2 * len(halves)


@lru_cache(maxsize=256)  # a search tries few layouts, each many times
def _is_one_to_one(axes: tuple[str, ...], layout: tuple[str, ...], sizes: tuple[int, ...]) -> bool:
    """Does the layout give every point of the box `sizes` a place of its own?"""
    grid = np.indices(sizes).reshape(len(sizes), -1)
    rows = layout_index(layout, axes, list(grid))
    table = np.stack([np.broadcast_to(row, grid.shape[1:]) for row in rows])
    if not table.size:
        return True
    if table.min() < 0:
        return False
    order = np.lexsort(table)  # equal places become neighbours
    ordered = table[:, order]
    return bool((ordered[:, 1:] != ordered[:, :-1]).any(axis=0).all())


def axis_names(fn: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a layout function's arguments."""
    code = fn.__code__
    bound = inspect.ismethod(fn)  # its `self` is given already
    return code.co_varnames[bound : code.co_argcount]
