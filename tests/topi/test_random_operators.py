"""Random operators of networks compute what the evaluator computes, whatever surrounds them."""

from __future__ import annotations

import pytest

from .random_operators import failure


def check(seeds: range) -> None:
    failures = list(filter(None, map(failure, seeds)))
    assert not failures, "\n".join([f"{len(failures)} of {len(seeds)} cases", *failures])


def test_random_operators_equal_the_evaluator() -> None:
    check(range(12))


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(1000, 3000, 50))
def test_many_random_operators_equal_the_evaluator(start: int) -> None:
    check(range(start, start + 50))
