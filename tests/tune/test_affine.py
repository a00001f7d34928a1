"""Index arithmetic: the index of an expression has its values."""

from __future__ import annotations

from itertools import product

import pytest

from minitvm import tir
from minitvm.tune.affine import Index, Part, index_of

A, B = tir.Var("i"), tir.Var("j")
LOOPS = {A: (Part({0: 1}),), B: (Part({1: 1}),)}


def value(index: Index, digits: tuple[int, int]) -> int:
    """Evaluate an index for these values of i and j."""
    found = 0
    for p in index:
        inner = (sum(int(c) * digits[d] for d, c in p.terms.items()) + int(p.const)) // p.div
        found += p.factor * (inner % p.mod if p.mod else inner)
    return found


@pytest.mark.parametrize(
    "f",
    [
        lambda i, j: i * 4 + j,
        lambda i, j: (i * 4 + j) // 3,
        lambda i, j: (i * 4 + j) % 3,
        lambda i, j: ((i // 7) * 12 + j) // 4,
        lambda i, j: ((i // 7) * 12 + j - 1) % 4 * 5 + i,
        lambda i, j: ((i // 4) * 14 + j) // 14 * 2 + ((i // 4) * 14 + j) % 14,
        lambda i, j: ((i % 5) * 6) // 3,
        lambda i, j: (((i % 5) * 6) // 3 + j * 2) // 2,
        lambda i, j: (((i % 5) * 6) % 3 + j) // 2,
        lambda i, j: ((i % 5) * 6 + (j // 2) * 3) % 3,
    ],
)
def test_an_index_has_the_values_of_its_expression(f) -> None:
    index = index_of(f(A, B), LOOPS)
    assert index is not None
    for i, j in product(range(30), range(20)):
        assert value(index, (i, j)) == f(i, j)


@pytest.mark.parametrize("f", [lambda x: x // 4, lambda x: x % 4])
def test_division_of_two_parts_with_remainders_is_not_an_index(f) -> None:
    assert index_of(f(A // 7 + B % 3), LOOPS) is None
