"""Expressions as Python closures, which interpreters make once and run many times.

A closure takes the *frame*, a list with the values of all variables; slot 0 belongs to the
interpreter. It returns a number, or an array with a value for each active lane. An interpreter
defines what a lane is, and how to load and to compute only one arm of a choice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import VerifyError

from . import nodes
from .index import is_index
from .numeric import BINARY, COMPARE, INTRINSICS, choose, convert
from .text import text

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]


class Closures(ABC):
    """Compiles expressions to closures, and assigns slots to variables."""

    def __init__(self) -> None:
        self.slots: dict[nodes.Var, int] = {}

    def slot(self, v: nodes.Var) -> int:
        return self.slots.setdefault(v, len(self.slots) + 1)

    def index(self, e: nodes.Index) -> Run:
        """Compile an index."""
        match e:
            case int():
                return lambda _: e
            case nodes.Var():
                return itemgetter(self.slot(e))
            case nodes.Linear(terms, const):
                return weighted_sum([(self.index(a), c) for a, c in terms], const)
            case nodes.Product(a, b):
                return _apply(BINARY["mul"].meaning, self.index(a), self.index(b))
            case nodes.FloorDiv(a):
                return _apply(BINARY["floordiv"].meaning, self.index(a), self.divisor(e))
            case nodes.FloorMod(a):
                return _apply(BINARY["floormod"].meaning, self.index(a), self.divisor(e))
            case nodes.Extremum(op, a, b):
                pick = _apply(BINARY[op].meaning, self.index(a), self.index(b))
                return lambda frame: _integer(pick(frame))
            case nodes.AsIndex(value):
                v = self.value(value)
                return lambda frame: _integer(v(frame))
            case _:
                raise VerifyError(text(e), "is a value, not an index")

    def divisor(self, e: nodes.FloorDiv | nodes.FloorMod) -> Run:
        """Compile the divisor of an index."""
        return self.index(e.b)

    def value(self, e: nodes.Expr) -> Run:
        """Compile a value."""
        match e:
            case nodes.Const(value, dtype):
                constant = dtype.numpy.type(value)
                return lambda _: constant
            case nodes.Load():
                return self.load(e)
            case nodes.Binary(op, a, b):
                return _apply(BINARY[op].meaning, self.value(a), self.value(b))
            case nodes.Compare(op, a, b):
                return _apply(COMPARE[op], self.either(a), self.either(b))
            case nodes.Cast(value, dtype):
                v = self.either(value)
                return lambda frame: convert(v(frame), dtype)
            case nodes.Not(a):
                v = self.value(a)
                return lambda frame: np.logical_not(v(frame))
            case nodes.Select(cond, a, b):
                c, x, y = self.value(cond), self.value(a), self.value(b)
                return lambda frame: choose(c(frame), x(frame), y(frame))
            case nodes.IfThenElse():
                return self.lazy(e)
            case nodes.Call(name, args) if name in INTRINSICS:
                meaning, operands = INTRINSICS[name].meaning, [self.value(a) for a in args]
                return lambda frame: meaning(*[a(frame) for a in operands])
            case _:
                raise VerifyError(text(e), f"{type(e).__name__} is not part of loop IR")

    def either(self, e: nodes.Index) -> Run:
        """Compile an operand of Cast or Compare: `e` may be an index or a value."""
        return self.value(e) if isinstance(e, nodes.Expr) and not is_index(e) else self.index(e)

    @abstractmethod
    def load(self, e: nodes.Load) -> Run:
        """Compile a load."""

    @abstractmethod
    def lazy(self, e: nodes.IfThenElse) -> Run:
        """Compile a choice in which each lane computes only the arm that it takes."""


def weighted_sum(parts: Sequence[tuple[Run, int]], const: int) -> Run:
    """Return the closure of const + the sum of part * factor."""
    if not parts:
        return lambda _: const

    def run(frame: Frame) -> Any:
        total: Any = const
        for part, factor in parts:
            total = total + part(frame) * factor
        return total

    return run


def in_sequence(parts: Sequence[Run]) -> Run:
    """Return the closure that runs the closures of statements, one after the other."""
    if len(parts) == 1:
        return parts[0]

    def run(frame: Frame) -> None:
        for part in parts:
            part(frame)

    return run


def _apply(op: Callable[[Any, Any], Any], a: Run, b: Run) -> Run:
    return lambda frame: op(a(frame), b(frame))


def _integer(x: Any) -> Any:
    """Convert integer data to an index: a scalar to an int, an array to an int64 array."""
    return x.astype(np.int64) if np.ndim(x) else int(x)
