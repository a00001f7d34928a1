"""The part of an image that a schedule computes in registers."""

from collections.abc import Iterator
from dataclasses import dataclass

from minitvm.base import Target

TALLEST = 4  # rows of a tile that a search may choose
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


def register_tiles(
    high: int, wide: int, vectors: int, target: Target
) -> list[tuple[int, int, int]]:
    """Return the tiles of rows by columns by vectors that a search may choose.

    The vector registers hold the tile, a row of weights and a pixel.
    """
    found = list[tuple[int, int, int]]()
    for v in (n for n in (1, 2, 3, 4, 6) if n <= vectors):
        most = max(1, target.tile_rows(v))
        for y in range(1, min(high, most, TALLEST) + 1):
            found += [(y, x, v) for x in range(1, min(wide, most // y) + 1)]
    return found


def parts(size: int, part: int) -> Iterator[tuple[int, int]]:
    """Yield (count, length) for the parts of length `part` in `size`, then for a shorter rest."""
    yield size // part, part
    if size % part:
        yield 1, size % part
