"""The part of an image that a schedule computes in registers."""

from collections.abc import Iterator
from dataclasses import dataclass

AHEAD = 4096  # bytes of weights between a prefetch and its use, to cover the latency


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile of the result: `high` x `wide` pixels by `vectors` of `lanes` channels."""

    high: int
    wide: int
    vectors: int
    lanes: int

    @property
    def channels(self) -> int:
        """The number of channels of the tile."""
        return self.vectors * self.lanes


def parts(size: int, part: int) -> Iterator[tuple[int, int]]:
    """Yield (count, length) for the parts of length `part` in `size`, then for a shorter rest."""
    yield size // part, part
    if size % part:
        yield 1, size % part
