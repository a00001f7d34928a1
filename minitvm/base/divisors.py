"""Divisors of a number: the sizes by which a loop can be split evenly."""

import math
from functools import cache


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Return the divisors of n in ascending order: divisors(12) = (1, 2, 3, 4, 6, 12)."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(dict.fromkeys((*low, *(n // d for d in reversed(low)))))
