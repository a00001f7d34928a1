"""The tile of a convolution in NHWC or NCHWc and the order of its loops, chosen for a CPU.

A tile of the result, a few pixels by a few vectors of output channels, stays in registers during
the sum over kernel elements and input channels. Each step of the sum loads one element of each
pixel and one row of a panel of weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from minitvm.base import Target

from .blocks import PAGE
from .layouts import Layout
from .tile import Tile, parts

# Times in vector multiply-adds. Where a core can start two of them and two loads in one cycle, half
# of the loads cost nothing; a vector from L2 or from beyond takes longer.
IN_FLIGHT = 8  # multiply-adds that a core starts before the result of the first is ready
LOAD = 0.5  # one element of a pixel, or a vector of weights from L1
CROWDED = 1.2  # pixels in a set of L1, relative to its lines: 9 in 8 and 14 in 12 cost little
MASKED = 4.0  # factor of a tile whose last vector is partly outside the result
FEW_PIXELS = 256  # with fewer, reading the weights from memory takes over 5 % of the time
LOAD_L2, LOAD_FAR = 1.5, 4.0  # a vector of weights from L2, and from L3 or memory


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a convolution that its schedule depends on.

    batch                 the number of images
    outputs, high, wide   the channels, the rows and the columns of the result
    terms                 the length of each sum
    image, weights        the bytes of one padded image, and of all weights
    item                  the bytes of one element
    apart                 the bytes from one pixel that a tile reads to the next
    """

    batch: int
    outputs: int
    high: int
    wide: int
    terms: int
    image: int
    weights: int
    item: int
    apart: int


def plan(z: Sizes, layout: Layout, per_group: int, target: Target, lanes: int) -> Tile:
    """Choose the tile with the least `cost` among the tiles that fit in the registers.

    The registers also hold one row of the panel and one element of a pixel. A tile reads one group
    of `per_group` channels. Its channels are whole blocks of the layout or a part of a block.
    Vectors have `lanes` elements, or half as many, such as 8 for 24 output channels.
    """
    lanes = math.gcd(lanes, layout.block, per_group if per_group < z.outputs else 0)
    lanes = min(lanes, 1 << (z.outputs.bit_length() - 1))
    best, least = Tile(1, 1, 1, lanes), math.inf
    for length, vectors in product((lanes, max(1, lanes // 2)), range(1, 5)):
        channels = vectors * length
        whole = not layout.block or not (channels % layout.block and layout.block % channels)
        if not whole or (per_group < z.outputs and per_group % channels):
            continue
        pixels = max(1, target.tile_rows(vectors))
        for high in range(1, min(z.high, pixels) + 1):
            for wide in range(1, min(z.wide, pixels // high) + 1):
                tile = Tile(high, wide, vectors, length)
                found = cost(z, tile, target)
                if found < least:
                    best, least = tile, found
    return best


def cost(z: Sizes, tile: Tile, target: Target) -> float:
    """Estimate the cost of a tile shape, in vector multiply-adds for all tiles of an image.

    The cost is the time in which each tile adds one term to all of its sums. The tiles at the edges
    are smaller. A tile with few accumulators waits for their results. Pixels that are 4096 bytes
    apart, 1024 channels, share one set of L1 (64 sets of 64 bytes), as if each took up 4096 bytes:
    too many evict each other before the next term, which is in the same lines.
    """
    panel = tile.channels * z.terms * z.item
    load = LOAD if panel <= target.l1 / 2 else LOAD_L2 if panel <= target.l2 else LOAD_FAR
    total = 0.0
    edges = parts(z.high, tile.high), parts(z.wide, tile.wide), parts(z.outputs, tile.channels)
    for (rows, high), (columns, wide), (panels, channels) in product(*edges):
        vectors, pixels = -(-channels // tile.lanes), high * wide
        step = max(vectors * pixels, IN_FLIGHT) + pixels * LOAD + vectors * load
        if pixels * math.gcd(z.apart, PAGE) > CROWDED * target.l1:
            step += pixels * LOAD_FAR
        if channels % tile.lanes:
            step *= MASKED
        total += rows * columns * panels * step
    return total


def panels_outside(z: Sizes, tile: Tile, target: Target, threads: bool) -> bool:
    """Return whether to loop over panels of weights outside the loop over rows of tiles.

    The operand of the outer loop is read once. The other operand is read in each of its iterations,
    and comes from beyond L2 each time if L2 cannot hold it. threads: whether the outer loop runs in
    parallel; then the result is also True if there are too few rows of tiles for all cores.
    """
    images = z.batch * z.image
    panels, rows = -(-z.outputs // tile.channels), z.batch * -(-z.high // tile.high)
    if threads and rows < 2 * target.num_cores:
        return True
    again = images * (panels if images > target.l2 else 1)
    inside, outside = images + z.weights * (rows if z.weights > target.l2 else 1), z.weights + again
    if not threads and requested(z, target) and next_panel_fits(z, tile, target):
        return outside <= inside  # each panel can be requested during the one before
    return outside < inside


def requested(z: Sizes, target: Target) -> bool:
    """Return whether to request weights before they are used.

    In a network they are in no near cache. The time of loads from memory matters if there are many,
    or if each weight is used for few pixels.
    """
    few = z.batch * z.high * z.wide <= FEW_PIXELS
    return z.weights > (2 * target.l1 if few else target.l2 // 4)


def next_panel_fits(z: Sizes, tile: Tile, target: Target) -> bool:
    """Return whether L2 can hold the image and two panels: the one in use and the next."""
    return z.image + 2 * tile.channels * z.terms * z.item <= target.l2
