"""The step that chooses the order in which a stage's results are stored."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from minitvm import tensor

from .formula import arithmetic, parsed
from .state import State, readers
from .step import Checks, Step, is_inner

MAX_POINTS = 1 << 20  # elements of a tensor whose layout is checked element by element


@dataclass(frozen=True, slots=True)
class TransformLayout(Step):
    """Store a stage's result in another order: the element with index `axes` is at index `layout`.

    transform_layout(lambda k, j: (j // 16, k, j % 16))       [K, N] -> [N / 16, K, 16]
    """

    axes: tuple[str, ...]
    layout: tuple[str, ...]

    @property
    def what(self) -> str:
        return f"{self.primitive} of {self.stage}"

    def checks(self, state: State) -> Checks:
        stage = state.stage(self.stage)
        for name in (self.stage, *readers(state)[self.stage]):
            if isinstance(state.stage(name).op, tensor.ExternOp):
                why = f"{name} is an extern operation, which expects it in row-major order"
                yield why, "another layout for the copy that cache_read makes"
        yield from is_inner(state, self.stage)
        if stage.aligns:
            why = "storage_align has set its strides already"
            yield why, "pad in the layout: lambda i, j: (i*33 + j,)"
        shape = stage.op.shape
        if len(self.axes) != len(shape):
            yield f"it has {len(shape)} dimensions, the layout takes {len(self.axes)} axes", ""
        if len(set(self.axes)) < len(self.axes):
            yield f"two of the axes {', '.join(self.axes)} are equal", ""
        if not self.layout:
            yield "the layout has no dimensions", ""
        if _takes_apart(self.axes, self.layout):
            return
        sizes = tuple(n for n in shape if isinstance(n, int))
        if len(sizes) < len(shape) or math.prod(sizes) > MAX_POINTS:
            why = "it cannot be shown that no two elements get the same index"
            yield why, "use each axis as a whole, or as axis // c and axis % c"
        if not _is_one_to_one(self.axes, self.layout, sizes):
            why = f"[{', '.join(self.layout)}] gives two elements the same index, or a negative one"
            yield why, "use each axis completely: k, j -> j // 16, k, j % 16"

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        return state.with_stage(stage.change(layout=(self.axes, self.layout)))


def layout_index(layout: tuple[str, ...], names: tuple[str, ...], at: Any) -> tuple[Any, ...]:
    """Return where `layout` stores the element `at`: its formulas, with names[k] = at[k].

    The values `at` are index expressions, ints or arrays.
    """
    env = dict(zip(names, at, strict=True))
    return tuple(arithmetic(parsed(e), env, e) for e in layout)


def _takes_apart(axes: tuple[str, ...], layout: tuple[str, ...]) -> bool:
    """Return whether each axis appears as a whole, or once as axis // c and once as axis % c."""
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
    axes_used = whole + [name for (name, c), ops in halves.items() if len(ops) == 2 and int(c) > 0]
    return sorted(axes_used) == sorted(axes) and len(layout) == len(whole) + 2 * len(halves)


@lru_cache(maxsize=256)  # a search tries the same few layouts many times
def _is_one_to_one(axes: tuple[str, ...], layout: tuple[str, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether `layout` maps all elements of a tensor of shape `sizes` to different indices.

    Also returns False if an index is negative.
    """
    grid = np.indices(sizes).reshape(len(sizes), -1)
    rows = layout_index(layout, axes, list(grid))
    table = np.stack([np.broadcast_to(row, grid.shape[1:]) for row in rows])
    if not table.size:
        return True
    if table.min() < 0:
        return False
    order = np.lexsort(table)  # sorts equal places next to each other
    ordered = table[:, order]
    return bool((ordered[:, 1:] != ordered[:, :-1]).any(axis=0).all())


def axis_names(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a layout function's arguments."""
    code = fn.__code__
    bound = inspect.ismethod(fn)  # `self` is already bound
    return code.co_varnames[bound : code.co_argcount]
