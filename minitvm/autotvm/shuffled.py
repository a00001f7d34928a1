"""Numbers in random order, drawn one at a time from a range of any size."""

from __future__ import annotations

import numpy as np


class Shuffled:
    """The numbers below n in random order, drawn one at a time in constant time.

    It is the shuffle of Fisher and Yates in which only the swapped places are stored.
    """

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.left, self.rng = n, rng
        self.moved: dict[int, int] = {}

    def draw(self) -> int | None:
        """Return a number that was not drawn before, or None if all were."""
        if self.left == 0:
            return None
        place, last = _below(self.left, self.rng), self.left - 1
        found = self.moved.get(place, place)
        self.moved[place] = self.moved.pop(last, last)
        self.moved.pop(last, None)
        self.left = last
        return found


def _below(n: int, rng: np.random.Generator) -> int:
    """Draw a number below n, which may have more than 64 bits."""
    if n < 1 << 62:
        return int(rng.integers(n))
    bits = n.bit_length()
    while (drawn := int.from_bytes(rng.bytes(-(-bits // 8)), "big") >> (-bits % 8)) >= n:
        pass
    return drawn
