"""Reducers. They define what a reduction computes: sum, prod, max, min, and users' own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minitvm import tir
from minitvm.base import DType

Values = tuple[tir.Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """A definition of a reduction: combine(old, new) combines two tuples of values into one.

    The reduction starts from identity(dtypes). Since values are combined in any order, `combine`
    must be associative and commutative.
    """

    name: str
    combine: Callable[[Values, Values], Values]
    identity: Callable[[tuple[DType, ...]], Values]

    def __reduce__(self) -> tuple[Any, ...]:
        if BUILT_IN.get(self.name) is self:
            return _built_in, (self.name,)
        return Reducer, (self.name, self.combine, self.identity)


def _fold(op: tir.BinaryOp) -> Callable[[Values, Values], Values]:
    return lambda old, new: (tir.Binary(op, old[0], new[0], old[0].dtype),)


SUM = Reducer("sum", _fold("add"), lambda t: (tir.const(0, t[0]),))
PROD = Reducer("prod", _fold("mul"), lambda t: (tir.const(1, t[0]),))
MAX = Reducer("max", _fold("max"), lambda t: (tir.Const(t[0].low, t[0]),))
MIN = Reducer("min", _fold("min"), lambda t: (tir.Const(t[0].high, t[0]),))
BUILT_IN: dict[str, Reducer] = {r.name: r for r in (SUM, PROD, MAX, MIN)}


def _built_in(name: str) -> Reducer:
    return BUILT_IN[name]


@dataclass(frozen=True, slots=True, eq=False)
class Formulas:
    """A combine function made of the formulas that fcombine returned for `old` and `new`."""

    old: tuple[tir.Buffer, ...]
    new: tuple[tir.Buffer, ...]
    results: Values

    def __call__(self, old: Values, new: Values) -> Values:
        operands = dict(zip((*self.old, *self.new), (*old, *new), strict=True))

        def rule(e: Any) -> Any:
            return operands.get(e.buffer, e) if isinstance(e, tir.Load) else e

        return tuple(tir.rewrite_expr(e, rule) for e in self.results)


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """An identity function of a Reducer; it returns `values`, whatever the dtypes are."""

    values: Values

    def __call__(self, _: tuple[DType, ...]) -> Values:
        return self.values


def formulas(r: Reducer, dtypes: tuple[DType, ...]) -> Formulas:
    """Return what `r` computes for values of the types `dtypes`."""
    old, new = (
        tuple(tir.Buffer(f"{x}{n}", (), t) for n, t in enumerate(dtypes)) for x in ("x", "y")
    )
    before, after = (tuple(tir.Load(b, (), b.dtype) for b in row) for row in (old, new))
    return Formulas(old, new, r.combine(before, after))


def recorded(r: Reducer, dtypes: tuple[DType, ...]) -> Reducer:
    """Return a copy of `r`, for types `dtypes`, with formulas instead of Python functions.

    The copy can be pickled. The user's functions run only once, when the reduction is defined.
    """
    if BUILT_IN.get(r.name) is r or isinstance(r.combine, Formulas):
        return r
    return Reducer(r.name, formulas(r, dtypes), _Start(r.identity(dtypes)))
