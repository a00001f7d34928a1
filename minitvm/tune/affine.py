"""Index arithmetic on thousands of candidates at once.

A loop counter is a number of one or more digits: an ordinary loop has one digit, a loop fused from
two has one for each. An index is a sum of parts, and each part is

    factor * ((sum(coefficient * digit) + const) // div % mod)

where a coefficient is an int or one number per candidate. Without div and mod, a part is affine.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from minitvm import tir

from .knob import Ints

Num: TypeAlias = "int | Ints"  # one number for all candidates, or an array with a number for each


class Part(NamedTuple):
    """factor * ((sum(terms[d] * digit d) + const) // div % mod); no `% mod` if mod is 0."""

    terms: dict[int, Num]
    const: Num = 0
    factor: int = 1
    div: Num = 1
    mod: Num = 0

    @property
    def affine(self) -> bool:
        """Return whether the part has neither a division nor a remainder."""
        return isinstance(self.div, int) and self.div == 1 and _is_zero(self.mod)


Index: TypeAlias = tuple[Part, ...]  # their sum; at most one part is affine
ZERO: Index = (Part({}),)


def least(a: Num, b: Num) -> Num:
    """Return min(a, b), for each candidate if one of them is an array."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def most(a: Num, b: Num) -> Num:
    """Return max(a, b), for each candidate if one of them is an array."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


def ceildiv(a: Num, b: Num) -> Num:
    """Return a / b, rounded up to an integer."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return np.ceil(a / b).astype(np.int64)  # faster than // and exact below 2**53


def add(*indices: Index) -> Index:
    """Return the sum of indices; add all affine parts up to a single part."""
    terms: dict[int, Num] = {}
    const: Num = 0
    others: list[Part] = []
    for p in (p for index in indices for p in index):
        if not p.affine:
            others.append(p)
            continue
        const = const + p.factor * p.const
        for d, c in p.terms.items():
            c = c if p.factor == 1 else p.factor * c  # noqa: PLW2901
            terms[d] = terms[d] + c if d in terms else c
    return (Part(terms, const), *others)


def scale(index: Index, factor: int) -> Index:
    """Return factor * index."""
    return index if factor == 1 else tuple(p._replace(factor=p.factor * factor) for p in index)


def divide(index: Index, by: Num) -> Index | None:
    """Return index // by, or None if it cannot be written as an index.

    (12*(i // 7) + j) // 4  ->  3*(i // 7) + j // 4
    """
    whole, rest = _multiples(index, by)
    p = _only(rest)
    if not rest or p is None:
        return None if p is None else whole
    return (*whole, p._replace(div=p.div * by))


def remainder(index: Index, by: Num) -> Index | None:
    """Return index % by, or None if it cannot be written as an index.

    (12*(i // 7) + j) % 4  ->  j % 4
    """
    _, rest = _multiples(index, by)
    p = _only(rest)
    if not rest or p is None:
        return None if p is None else ZERO
    return (p._replace(mod=by),)


def _multiples(index: Index, by: Num) -> tuple[Index, Index]:
    """Return the parts that are not affine and whose factor is a multiple of `by`, and the others.

    The former are divided by `by`.
    """
    if not isinstance(by, int):
        return (), index
    whole = [p for p in index if not p.affine and p.factor % by == 0]
    rest = tuple(p for p in index if not any(p is q for q in whole))
    return tuple(p._replace(factor=p.factor // by) for p in whole), rest


def _only(index: Index) -> Part | None:
    """Return an index as one part with factor 1 and no remainder; None if it has another form."""
    parts = [p for p in index if p.terms or not p.affine or not _is_zero(p.const)]
    if not parts:
        return Part({})
    if len(parts) > 1 or not _is_zero(parts[0].mod):
        return None
    (p,) = parts
    if p.factor == 1:
        return p
    if not p.affine:
        return None
    return Part({d: p.factor * c for d, c in p.terms.items()}, p.factor * p.const)


def _is_zero(n: Num) -> bool:
    return isinstance(n, int) and n == 0


def without(index: Index, start: Index) -> Index:
    """Return index - start, where `start` is the index at the first iteration of some loops.

    (16*i + j) // 4 - (16*i) // 4  ->  j // 4. Exact only if 16*i is a multiple of the divisor 4.
    """
    parts = list[Part]()
    for p in index:
        removed_part = next((q for q in start if _alike(p, q)), Part({}))
        terms = dict[int, Num]()
        for d, c in p.terms.items():
            coefficient = removed_part.terms.get(d, 0)
            left = 0 if coefficient is c else c - coefficient
            if not _is_zero(left):
                terms[d] = left
        const = p.const - removed_part.const if p.affine else p.const
        parts.append(p._replace(terms=terms, const=const))
    return tuple(parts)


def _alike(a: Part, b: Part) -> bool:
    """Return whether two parts have the same divisor, remainder and factor."""
    if a.affine and b.affine:
        return True
    return a.factor == b.factor and equal(a.div, b.div) and equal(a.mod, b.mod)


def equal(a: Num, b: Num) -> bool:
    """Return whether two numbers are equal for all candidates."""
    return a is b or np.array_equal(a, b)


def is_negative(c: Num) -> bool:
    """Return whether a coefficient is negative; its sign is the same for all candidates."""
    return bool(np.ravel(c)[0] < 0) if np.size(c) else False


def index_of(e: tir.Index, values: Mapping[tir.Var, Index]) -> Index | None:
    """Return `e` as an Index; `values` has the Index of each variable. None if it is impossible.

    Replaces min and max by the operand that is not constant, because clipping moves few accesses.
    """
    terms, const = tir.split_terms(e)
    indices: list[Index] = [(Part({}, const),)]
    for atom, c in terms:
        parts = _atom(atom, values)
        if parts is None:
            return None
        indices.append(scale(parts, c))
    return add(*indices)


def _atom(a: tir.Expr, values: Mapping[tir.Var, Index]) -> Index | None:
    match a:
        case tir.Var():
            return values.get(a)
        case tir.FloorDiv(x, int() as b):
            inside = index_of(x, values)
            return None if inside is None else divide(inside, b)
        case tir.FloorMod(x, int() as b):
            inside = index_of(x, values)
            return None if inside is None else remainder(inside, b)
        case tir.Extremum(_, x, y):
            return index_of(y if isinstance(x, int) else x, values)
        case _:
            return None


def layout_index(formula: str, names: Mapping[str, Index], parameter: Num = 0) -> Index | None:
    """Return a formula of a layout, such as "j // {}", as an Index; `parameter` replaces "{}"."""
    body = ast.parse(formula.replace("{}", _PARAMETER), mode="eval").body
    value = _arithmetic(body, {**names, _PARAMETER: parameter})
    return value if value is None or isinstance(value, tuple) else (Part({}, value),)


_PARAMETER = "_parameter"


def _arithmetic(n: ast.expr, names: Mapping[str, Index | Num]) -> Index | Num | None:
    match n:
        case ast.Constant(int() as v):
            return v
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left, op, right):
            a, b = _arithmetic(left, names), _arithmetic(right, names)
        case _:
            return None
    if a is None or b is None:
        return None
    if isinstance(b, tuple) and not isinstance(a, tuple):
        a, b = (b, a) if isinstance(op, ast.Mult) else ((Part({}, a),), b)
    if not isinstance(a, tuple):
        return None
    match op:
        case ast.Add() | ast.Sub():
            operand = b if isinstance(b, tuple) else (Part({}, b),)
            return add(a, scale(operand, 1 if isinstance(op, ast.Add) else -1))
        case ast.Mult() if isinstance(b, int):
            return scale(a, b)
        case ast.FloorDiv() if not isinstance(b, tuple):
            return divide(a, b)
        case ast.Mod() if not isinstance(b, tuple):
            return remainder(a, b)
        case _:
            return None


def span(p: Part, radix: Sequence[Num], fixed: frozenset[int]) -> tuple[Num, Num]:
    """Return the least and greatest sum of the terms of `p` whose digits are not in `fixed`."""
    lo: Num = 0
    hi: Num = 0
    for d, c in p.terms.items():
        if d in fixed:
            continue
        end = c * (radix[d] - 1)
        if is_negative(c):
            lo = lo + end
        else:
            hi = hi + end
    return lo, hi
