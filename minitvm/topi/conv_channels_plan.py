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
from .options import Options, options_of
from .tile import AHEAD, Tile, parts, register_tiles, tiles_to_search, vector_length

# Times in vector multiply-adds. Where a core can start two of them and two loads in one cycle, half
# of the loads cost nothing; a vector from L2 or from beyond takes longer.
IN_FLIGHT = 8  # multiply-adds that a core starts before the result of the first is ready
LOAD = 0.5  # one element of a pixel, or a vector of weights from L1
CROWDED = 1.2  # pixels in a set of L1, relative to its lines: 9 in 8 and 14 in 12 cost little
MASKED = 4.0  # factor of a tile whose last vector is partly outside the result
FEW_PIXELS = 256  # with fewer, reading the weights from memory takes over 5 % of the time
LOAD_L2, LOAD_FAR = 1.5, 4.0  # a vector of weights from L2, and from L3 or memory
DISTANCES = (0, 8, 16, 32, 64)  # terms ahead of which a search may request weights


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


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a schedule for a convolution.

    tile        (rows, columns, vectors, lanes) of a tile of the result
    outside     whether the loop over panels of weights is outside the loop over rows of tiles
    pad         when the image is padded: "before" the loops, a row of tiles at a time ("rows"), or
                "never", by a test in each access
    ahead       the terms between a request for weights and their use; 0 for no requests
    next_panel  whether each panel of weights is requested during the one before
    parallel    whether the outermost loop runs in parallel
    """

    tile: Tile
    outside: bool
    pad: str
    ahead: int
    next_panel: bool
    parallel: bool


def plan_of(
    z: Sizes, layout: Layout, per_group: int, target: Target, lanes: int, threads: bool
) -> Plan:
    """Choose all parameters; `pad` is that of an image that needs padding."""
    tile = plan(z, layout, per_group, target, lanes)
    outside, ask = panels_outside(z, tile, target, threads), requested(z, target)
    return Plan(
        tile,
        outside,
        "before" if outside else "rows",
        max(1, AHEAD // (tile.channels * z.item)) if ask else 0,
        ask and outside and not threads and next_panel_fits(z, tile, target),
        threads,
    )


def plan_options(
    name: str, known: Plan, z: Sizes, layout: Layout, per_group: int, target: Target
) -> Options:
    """Return what a search may choose for a convolution whose default plan is `known`."""
    ask, part = known.ahead > 0, known.tile.channels < layout.block  # of a block
    tiles = [
        t
        for t in tiles_to_search(target, z.high, z.wide, z.outputs, known.tile.lanes)
        if _is_panel(t.channels, z, layout, per_group) and (t.channels < layout.block) == part
    ]
    return options_of(
        name,
        known,
        tile=tiles,
        outside=(False, True),
        pad=() if known.pad == "never" else ("before", "never", "rows"),
        ahead=DISTANCES if ask else (),
        next_panel=(False, True) if ask else (),
    )


def _is_panel(channels: int, z: Sizes, layout: Layout, per_group: int) -> bool:
    """Return whether a tile may have `channels`: whole blocks or a part of one, in one group."""
    whole = not layout.block or not (channels % layout.block and layout.block % channels)
    return whole and (per_group == z.outputs or not per_group % channels)


def plan(z: Sizes, layout: Layout, per_group: int, target: Target, lanes: int) -> Tile:
    """Choose the tile with the least `cost` among the tiles that fit in the registers.

    The registers also hold one row of the panel and one element of a pixel. A tile reads one group
    of `per_group` channels. Its channels are whole blocks of the layout or a part of a block.
    Vectors have `lanes` elements, or half as many, such as 8 for 24 output channels.
    """
    lanes = math.gcd(lanes, layout.block, per_group if per_group < z.outputs else 0)
    lanes = vector_length(z.outputs, lanes)
    tiles = [
        Tile(high, wide, vectors, length)
        for length in (lanes, max(1, lanes // 2))
        for high, wide, vectors in register_tiles(target, z.high, z.wide)
        if _is_panel(vectors * length, z, layout, per_group)
    ]
    return min(tiles, key=lambda t: cost(z, t, target), default=Tile(1, 1, 1, lanes))


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
    has_few_pixels = z.batch * z.high * z.wide <= FEW_PIXELS
    return z.weights > (2 * target.l1 if has_few_pixels else target.l2 // 4)


def next_panel_fits(z: Sizes, tile: Tile, target: Target) -> bool:
    """Return whether L2 can hold the image and two panels: the one in use and the next."""
    return z.image + 2 * tile.channels * z.terms * z.item <= target.l2
