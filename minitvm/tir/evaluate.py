"""Evaluate indices, and conditions on indices, for values of their variables."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from minitvm.base import ArgumentError

from .nodes import (
    Binary,
    Compare,
    Const,
    Extremum,
    FloorDiv,
    FloorMod,
    Index,
    Linear,
    Not,
    Product,
    Var,
)
from .numeric import BINARY, COMPARE
from .text import text
from .walk import walk

FORMS = (Const, Linear, Product, FloorDiv, FloorMod, Extremum, Compare, Binary, Not)


def is_decided_by(variables: Container[Var], e: Index) -> bool:
    """Return whether `index_value` can evaluate `e`: it has no other variables, and no data."""
    return isinstance(e, int) or all(
        n in variables if isinstance(n, Var) else isinstance(n, FORMS) for n in walk(e)
    )


def index_value(e: Index, values: Mapping[Var, Any]) -> Any:
    """Return the value of an index, or of a condition on indices.

    values   of each variable a number, or an array; arrays are broadcast

    Raises ArgumentError if `e` depends on data.

    i*4 + j // 2 for i = 3, j = [0, 2]   ->   [12, 13]
    """
    match e:
        case int():
            return e
        case Var():
            return values[e]
        case Linear(terms, const):
            return const + sum(index_value(a, values) * c for a, c in terms)
        case Product(a, b):
            return index_value(a, values) * index_value(b, values)
        case FloorDiv(a, b):
            return index_value(a, values) // index_value(b, values)
        case FloorMod(a, b):
            return index_value(a, values) % index_value(b, values)
        case Extremum(op, a, b) | Binary(op, a, b):
            return BINARY[op].meaning(index_value(a, values), index_value(b, values))
        case Compare(op, a, b):
            return COMPARE[op](index_value(a, values), index_value(b, values))
        case Not(a):
            return np.logical_not(index_value(a, values))
        case Const(value):
            return value
        case _:
            raise ArgumentError(text(e), "data decide its value")
