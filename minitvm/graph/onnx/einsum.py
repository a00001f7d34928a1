"""Einsum by transposes, sums and products of matrices."""

from __future__ import annotations

import math

import numpy as np

from .place import Place, Value, shape_of


def einsum(at: Place, *values: Value) -> Value:
    """Einsum: a sum of products, described as "ij,jk->ik"."""
    terms, result = _parsed(at, values)
    sizes: dict[str, int] = {}
    for letters, x in zip(terms, values, strict=True):
        for letter, n in zip(letters, shape_of(x), strict=True):
            if sizes.setdefault(letter, n) != n:
                raise at.refusal(f"{letter!r} is a dimension of {sizes[letter]} and of {n}")
    pairs = [_diagonal(at, x, letters) for letters, x in zip(terms, values, strict=True)]
    x, letters = pairs[0]
    for k, (y, others) in enumerate(pairs[1:], 1):
        needed = set(result).union(*(later for _, later in pairs[k + 1 :]))
        x, letters = _product(at, (x, letters), (y, others), needed, sizes)
    x, letters = _summed(at, x, letters, set(result))
    return at.make("transpose", x, axes=[letters.index(c) for c in result])


def _parsed(at: Place, values: tuple[Value, ...]) -> tuple[list[str], str]:
    """Return the letters of each operand's dimensions, and of the result's.

    The dimensions that "..." stands for are called ..., 8, 9.
    """
    left, arrow, result = at.attrs["equation"].replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise at.refusal(f"its equation has {len(terms)} operands, and it has {len(values)}")
    hidden = ""
    for k, (term, x) in enumerate(zip(terms, values, strict=True)):
        count = len(shape_of(x)) - len(term.replace("...", ""))
        names = "0123456789"[10 - count :] if "..." in term and 0 <= count <= 10 else ""
        terms[k], hidden = term.replace("...", names), max(hidden, names, key=len)
        if len(terms[k]) != len(shape_of(x)):
            raise at.refusal(f"its term {term!r} does not fit {len(shape_of(x))} dimensions")
    if not arrow:
        once = [c for c in sorted(set("".join(terms)) - set(hidden)) if left.count(c) == 1]
        result = "..." + "".join(once)
    result = result.replace("...", hidden)
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        raise at.refusal(f"its equation {at.attrs['equation']!r} has no such result")
    return terms, result


def _diagonal(at: Place, x: Value, letters: str) -> tuple[Value, str]:
    """Keep the diagonal of dimensions with the same letter."""
    for c in letters:
        if letters.count(c) > 1:
            first, second = [d for d, other in enumerate(letters) if other == c][:2]
            n = shape_of(x)[first]
            rest = [d for d in range(len(letters)) if d not in (first, second)]
            x = at.make("transpose", x, axes=[first, second, *rest])
            x = at.reshape(x, (n * n, *shape_of(x)[2:]))
            x = at.make("take", x, np.arange(n, dtype=np.int64) * (n + 1), axis=0)
            return _diagonal(at, x, c + "".join(letters[d] for d in rest))
    return x, letters


def _summed(at: Place, x: Value, letters: str, needed: set[str]) -> tuple[Value, str]:
    """Sum the dimensions that are not needed."""
    axes = tuple(d for d, c in enumerate(letters) if c not in needed)
    if not axes:
        return x, letters
    return at.make("sum", x, axis=axes), "".join(c for c in letters if c in needed)


def _product(
    at: Place, a: tuple[Value, str], b: tuple[Value, str], needed: set[str], sizes: dict[str, int]
) -> tuple[Value, str]:
    """Multiply two operands as a batch of products; sum the dimensions that nothing else needs."""
    (x, left), (y, right) = (
        _summed(at, *operand, needed | set(other))
        for operand, (_, other) in zip((a, b), (b, a), strict=True)
    )
    batch = [c for c in left if c in right and c in needed]
    inner = [c for c in left if c in right and c not in needed]
    rows, columns = [c for c in left if c not in right], [c for c in right if c not in left]
    x = at.make("transpose", x, axes=[left.index(c) for c in (*batch, *rows, *inner)])
    y = at.make("transpose", y, axes=[right.index(c) for c in (*batch, *inner, *columns)])
    letters = "".join((*batch, *rows, *columns))
    n, m, k, p = (math.prod(sizes[c] for c in part) for part in (batch, rows, inner, columns))
    product = at.make("batch_matmul", at.reshape(x, (n, m, k)), at.reshape(y, (n, k, p)))
    return at.reshape(product, tuple(sizes[c] for c in letters)), letters
