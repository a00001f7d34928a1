"""Tiles of a result that stay in registers: which ones fit, and the loops that compute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from minitvm import te
from minitvm.base import Target

MAX_HEIGHT = 4  # rows of a tile of an image that a search may choose
AHEAD = 4096  # bytes of weights between a prefetch and its use, to cover the latency


class Tile(NamedTuple):
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
    target: Target, high: int, wide: int = 1, vectors: Iterable[int] = range(1, 5)
) -> Iterator[tuple[int, int, int]]:
    """Yield the tiles (rows, columns, vectors) of accumulators that the registers can hold.

    Registers are reserved for one row of the right operand, which is `vectors` wide, and for one
    element of the left operand. high, wide: the largest numbers of rows and columns.
    """
    for v in vectors:
        pixels = max(1, target.tile_rows(v))
        for y in range(1, min(high, pixels) + 1):
            for x in range(1, min(wide, pixels // y) + 1):
                yield y, x, v


def tiles_to_search(target: Target, high: int, wide: int, channels: int, lanes: int) -> list[Tile]:
    """Return the tiles of an image, with vectors of `lanes`, among which a search may choose."""
    widths = [v for v in (1, 2, 3, 4, 6) if v <= -(-channels // lanes)]
    tiles = register_tiles(target, min(high, MAX_HEIGHT), wide, widths)
    return [Tile(y, x, v, lanes) for y, x, v in tiles]


def vector_length(size: int, lanes: int) -> int:
    """Return the length of a vector: `lanes`, or a smaller power of two if `size` is smaller."""
    return min(lanes, 1 << (max(size, 1).bit_length() - 1))


def in_registers(s: te.Schedule, op: te.ComputeOp, out: te.StageView) -> te.StageView:
    """Return the stage that computes `op` tile by tile in the loops of `out`.

    This is the stage of `op` if `out` is its epilogue, or a cache that `out` copies to its result.
    """
    stage = s[op.output(0)]
    if stage.name == out.name:
        return s[s.cache_write(op.output(0), "local")]
    stage.set_scope("local")
    return stage


def tile_loops(stage: te.StageView, outer: Sequence[te.Axis], inner: Sequence[te.Axis]) -> None:
    """Reorder the loops of a tile inside `outer`; unroll `inner`, but vectorize the last of it.

    After lowering, the code generator keeps the tile in registers.
    """
    stage.reorder(*outer, *inner)
    for axis in inner[:-1]:
        stage.unroll(axis)
    stage.vectorize(inner[-1])


def parts(size: int, part: int) -> Iterator[tuple[int, int]]:
    """Yield (count, length) for the parts of length `part` in `size`, then for a shorter rest."""
    yield size // part, part
    if size % part:
        yield 1, size % part
