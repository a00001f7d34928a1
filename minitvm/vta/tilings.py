"""Search for the fastest tiling of a layer, by lower bounds and then by simulation.

    layer = Convolution(size=(14, 14), channels=(256, 256))
    found = best_tiling(layer, vta_pynq, threads=2)
    s, args = layer.scheduled(found.tiling)

The cycles in which each unit is busy are known in closed form; how long the units wait for each
other is not. So tilings are sorted by a lower bound on their cycles, and simulated in this order
until no remaining tiling can be faster than the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod
from operator import le

from minitvm import accel, codegen, driver, lowering
from minitvm.base import BuildError, ScheduleError, check_count, check_kind, divisors

from .environment import Environment
from .top import Tiling
from .workloads import Box, Layer

ALU_OPERATIONS = 3  # shift, max, min; a bias, a residual and its shift add one each
MAX_SIMULATIONS = 300
MEMORIES = (accel.Memory.INP, accel.Memory.WGT, accel.Memory.ACC, accel.Memory.UOP)


# --- closed forms --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """The busy cycles of each unit for a tiling of a layer, and a lower bound on the total.

    weights    the cycles of those loads that fetch weights
    read       the cycles of all transfers from DRAM, including those of the compute unit
    bound      the lower bound on the cycles of the whole program

    Loads of micro-operations are not in `compute` and `read`: there are a few per program.
    """

    load: int
    weights: int
    compute: int
    store: int
    read: int
    bound: int


@dataclass(frozen=True, slots=True)
class Tile:
    """The cycles of the parts of one tile.

    first_load   the shortest first load of all tiles
    reset        setting the accumulators to 0
    product      the products for one step of the input channels
    extra        the loads of bias and residual by the compute unit; alu includes these cycles
    alu          the ALU operations
    store        the store of the result
    """

    first_load: int
    reset: int
    product: int
    extra: int
    alu: int
    store: int


def cost(layer: Layer, tiling: Tiling, config: accel.Config = accel.vta_pynq) -> Cost:
    """Return the busy cycles of the units for a tiling, and a lower bound on the total.

    With one thread only one unit works at a time, so the bound is the sum of their cycles. With
    several threads it is the largest sum of a unit's busy cycles and its unavoidable waits.
    """
    check_layer(layer, config)
    _check_tiling(layer, tiling, config)
    (h, w), (ic, oc), at = layer.grid(config), layer.blocks(config), tiling
    steps, tiles = ic // at.ic, (h // at.h) * (w // at.w) * (oc // at.oc)
    data = _data(layer, at, config)
    weight = _moved(config, accel.Memory.WGT, layer.weight_box(config, at))
    tile = _tile(layer, at, config, min(data) + weight)
    weights = steps * tiles * weight
    load = steps * (oc // at.oc) * sum(n * cycles for cycles, n in data.items()) + weights
    compute = tiles * (tile.reset + steps * tile.product + tile.alu)
    store = tiles * tile.store
    bound = load + compute + store
    if at.threads > 1:
        load_waits, compute_waits = _waits(tile, steps, at.threads)
        rounds = tiles // at.threads
        bound = max(
            load + rounds * load_waits[0] + load_waits[1],
            compute + rounds * compute_waits[0] + compute_waits[1],
            store,
        )
    return Cost(load, weights, compute, store, load + tiles * tile.extra, bound)


def _data(layer: Layer, at: Tiling, config: accel.Config) -> Counter[int]:
    """Map each load time in cycles to the number of image tiles that have it."""
    return _loads(layer, Tiling(h=at.h, w=at.w, ic=at.ic), config)


@lru_cache(maxsize=1 << 12)
def _loads(layer: Layer, at: Tiling, config: accel.Config) -> Counter[int]:
    """Return _data() for all tilings that differ from `at` only in output channels and threads.

    Tiles that are not at a border have the same box, so few boxes are computed.
    """
    h, w = layer.grid(config)
    rows = [layer.data_box(config, at, y, 0) for y in range(h // at.h)]
    columns = [layer.data_box(config, at, 0, x) for x in range(w // at.w)]
    counts = (Counter(map(boxes.index, boxes)).items() for boxes in (rows, columns))
    data = Counter[int]()
    for (y, n), (x, m) in product(*counts):
        data[_moved(config, accel.Memory.INP, layer.data_box(config, at, y, x))] += n * m
    return data


def _tile(layer: Layer, at: Tiling, config: accel.Config, first_load: int) -> Tile:
    """Return the cycles of the parts of a tile; `first_load` is one of them."""
    elements, start = at.oc * at.h * at.w, config.issue + config.fill
    reset, gemm = start + elements, start + elements * at.ic * layer.window
    extra = 0
    if layer.bias:
        extra += _moved(config, accel.Memory.ACC, (codegen.Dim(at.oc, 1),))
    if layer.residual:
        narrow = layer.residual_dtype == "int8"
        memory = accel.Memory.ACC_8BIT if narrow else accel.Memory.ACC
        extra += _moved(config, memory, layer.result_box(config, at))
    residual_cycles = (layer.bias + layer.residual) * (start + elements * config.alu_ii_reg)
    immediates = ALU_OPERATIONS + (1 if layer.residual and layer.residual_shift else 0)
    alu = immediates * (start + elements * config.alu_ii_imm) + residual_cycles + extra
    store = _moved(config, accel.Memory.OUT, layer.result_box(config, at))
    return Tile(first_load, reset, gemm, extra, alu, store)


def _waits(tile: Tile, steps: int, threads: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return lower bounds on the waits of the load unit and the compute unit.

    Each is a pair: the cycles that the unit waits in every round, and once more at the end.

    In a round each thread resets, loads, multiplies and stores one tile. The first load of a round
    waits for its first reset, and that reset waits for the first store of the previous round. Two
    threads A and B with two steps each (R: reset, G: product, P: ALU):

        load             A1 B1 A2 B2  .  .  .  .  .  A1 B1
        compute    RA RB  . GA GB GA GB PA PB  . RA RB  .  GA
        store                               SA SB

    The load unit waits from its last load to the next reset, during GB, PA, PB and RA. The compute
    unit waits for A1 if that takes longer than RB, and for SA if that takes longer than PB, which
    runs in the meantime. With one step the order is GA PA GB PB: each thread's ALU operations
    directly follow its product.
    """
    others = threads - 1
    between = tile.alu if steps > 1 else tile.product + tile.alu
    last = tile.reset + tile.product + (threads if steps > 1 else 1) * tile.alu
    idle = max(0, tile.first_load - others * tile.reset) + max(0, tile.store - others * between)
    return (last, tile.store), (idle, min(tile.store, others * between))


def _moved(config: accel.Config, memory: accel.Memory, dims: Box) -> int:
    """Return how many cycles it takes to move a box of elements to or from `memory`."""
    return _cycles(config, config.element_bytes(memory), dims)


@lru_cache(maxsize=1 << 16)
def _cycles(config: accel.Config, element: int, dims: Box) -> int:
    """Return how many cycles it takes to move a box of elements of `element` bytes each.

    The result is cached, because all tiles that are not at a border have the same box.
    """
    total = 0
    for part in codegen.transfers("a tile", dims, 1):
        padded = part.y.total * part.x.total - part.y.n * part.x.n
        total += config.transfer_cycles(element, part.x.n, part.y.n, padded)
    return total


# --- what fits -----------------------------------------------------------------------------------


def legal_tilings(
    layer: Layer, config: accel.Config = accel.vta_pynq, threads: int = 1
) -> list[Tiling]:
    """Return all tilings with whole tiles whose `threads` threads fit into the memories.

    If there are several threads, they divide either the output channels or the rows.
    """
    return [c.tiling for c in _legal(layer, config, threads)]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tiling, the lower bound on its cycles, and the elements that it needs in MEMORIES."""

    tiling: Tiling
    bound: int
    needs: tuple[int, ...]


def _legal(layer: Layer, config: accel.Config, threads: int) -> list[Candidate]:
    """Return the candidates that fit into the memories."""
    threads = check_count("threads", threads)
    check_layer(layer, config)
    sizes = [lowering.capacity(config, memory) for memory in MEMORIES]
    candidates = _candidates(layer, _resized(config, (1,) * len(MEMORIES)), threads)
    return [c for c in candidates if all(map(le, c.needs, sizes))]


@lru_cache(maxsize=256)
def _candidates(layer: Layer, config: accel.Config, threads: int) -> list[Candidate]:
    """Return the tilings that are legal if the memories are large enough.

    The sizes of the memories in `config` do not matter. The result is cached for all machines that
    differ only in them.
    """
    (h, w), (ic, oc) = layer.grid(config), layer.blocks(config)
    ways = [(1, 1)] if threads == 1 else [(threads, 1), (1, threads)]
    sizes = product(divisors(h), divisors(w), divisors(oc), divisors(ic))
    tilings = (
        Tiling(h=th, w=tw, oc=to, ic=ti, oc_threads=oc_ways, h_threads=h_ways)
        for (th, tw, to, ti), (oc_ways, h_ways) in product(sizes, ways)
        if (oc // to) % oc_ways == 0 and (h // th) % h_ways == 0
    )
    return [
        Candidate(at, cost(layer, at, config).bound, needs(layer, at, config))
        for at in tilings
        if _is_possible(layer, at, config)
    ]


def check_layer(layer: object, config: object) -> None:
    """Raise ArgumentError unless `layer` is a Layer and `config` is a Config."""
    check_kind("layer", layer, Layer, fix='vta.RESNET18["C2"]')
    check_kind("config", config, accel.Config, fix="vta.vta_pynq")


def _check_tiling(layer: Layer, tiling: object, config: accel.Config) -> None:
    """Raise ArgumentError unless `tiling` is a Tiling, ScheduleError unless its tiles are whole."""
    at = check_kind("tiling", tiling, Tiling, fix="vta.Tiling(h=7, w=7)")
    (h, w), (ic, oc) = layer.grid(config), layer.blocks(config)
    sizes = ("h", h, at.h * at.h_threads), ("w", w, at.w), ("ic", ic, at.ic)
    for name, whole, part in (*sizes, ("oc", oc, at.oc * at.oc_threads)):
        if whole % part:
            why = f"{part} along {name} does not divide {whole}"
            raise ScheduleError(f"{at} of {layer}", why, "one of vta.legal_tilings(layer)")


def fits(layer: Layer, at: Tiling, config: accel.Config) -> bool:
    """Return whether a tiling can run on the machine.

    The tiles of all threads must fit into the memories, the same accumulator must not be updated
    again too soon, and single instructions must be able to express all loops and transfers.
    """
    sizes = (lowering.capacity(config, memory) for memory in MEMORIES)
    return _is_possible(layer, at, config) and all(map(le, needs(layer, at, config), sizes))


def needs(layer: Layer, at: Tiling, config: accel.Config) -> tuple[int, ...]:
    """Return how many elements of each memory the tiles of all threads need."""
    elements = at.oc * at.h * at.w
    data = prod(dim.total for dim in layer.data_box(config, at, 0, 0))
    weights = at.oc * at.ic * layer.window
    sums = elements * (2 if layer.residual else 1) + (at.oc if layer.bias else 0)
    loops = [n for n in layer.loops(at) if n > 1]
    uops = prod(loops[2:])  # the two outer loops are loops of the instruction
    return at.threads * data, at.threads * weights, at.threads * sums, uops


def _is_possible(layer: Layer, at: Tiling, config: accel.Config) -> bool:
    """Return whether a tiling can run on the machine if its memories are large enough."""
    loops = layer.loops(at)
    return (
        at.oc * at.h * at.w >= config.rmw_distance
        and max(loops) <= lowering.MAX_ITERATIONS
        and prod(loops) <= accel.MAX_UOPS
        and _movable(layer, at, config)
    )


def _movable(layer: Layer, at: Tiling, config: accel.Config) -> bool:
    """Return whether all transfers of a tile are possible: padding and strides have limits."""
    try:
        _data(layer, at, config)
        _moved(config, accel.Memory.WGT, layer.weight_box(config, at))
        for memory in (accel.Memory.OUT, accel.Memory.ACC):
            _moved(config, memory, layer.result_box(config, at))
    except BuildError:
        return False
    return True


# --- search --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest tiling that a search found, and its cycles.

    tried    how many tilings were simulated
    legal    how many tilings there are
    proven   whether the lower bounds prove that no other tiling is faster
    """

    tiling: Tiling
    cycles: int
    tried: int
    legal: int
    proven: bool


def best_tiling(
    layer: Layer,
    config: accel.Config = accel.vta_pynq,
    threads: int | Sequence[int] = 1,
    most: int = MAX_SIMULATIONS,
) -> Best:
    """Search for the fastest tiling by simulating the programs that vta.build makes.

    threads   the number of virtual threads, or several numbers to choose from
    most      at most so many tilings are simulated

    Raises ScheduleError if no tiling fits into the memories.
    """
    most = check_count("most", most)
    counts = threads if isinstance(threads, Sequence) else (threads,)
    candidates = (c for n in counts for c in _legal(layer, config, n))
    order = sorted(candidates, key=lambda c: c.bound)
    if not order:
        what = f"{layer} on {config.name} with {threads} threads"
        fix = "fewer threads, or a Config with larger memories"
        raise ScheduleError(what, "no tiling fits into the memories", fix)
    best: tuple[int, Tiling] | None = None
    simulated_count = 0
    for c in order:
        if simulated_count == most or (best is not None and c.bound >= best[0]):
            break
        cycles = _cycles_of(layer, c.tiling, _resized(config, (*c.needs[:-1], None)))
        simulated_count += 1
        if best is None or cycles < best[0]:
            best = cycles, c.tiling
    assert best is not None
    proven = simulated_count == len(order) or order[simulated_count].bound >= best[0]
    return Best(best[1], best[0], simulated_count, len(order), proven)


@lru_cache(maxsize=1 << 14)
def _cycles_of(layer: Layer, tiling: Tiling, config: accel.Config) -> int:
    """Simulate a tiling, on a machine whose memories are just large enough for it.

    The cycles do not depend on the sizes of the memories, except for that of micro-operations. So
    one simulation is enough for all machines that differ only in them.
    """
    return accel.measure(program(layer, tiling, config), config).cycles


@lru_cache(maxsize=1 << 14)
def _resized(config: accel.Config, elements: tuple[int | None, ...]) -> accel.Config:
    """Return the machine with space for so many elements in MEMORIES; None leaves a size as it is.

    It has no name and clock of its own, so that machines that differ in nothing else are equal.
    """
    sizes = {
        f"{memory.name.lower()}_bytes": config.element_bytes(memory) << (n - 1).bit_length()
        for memory, n in zip(MEMORIES, elements, strict=True)
        if n is not None
    }
    return replace(config, name="resized", clock_hz=1.0, **sizes)


def program(layer: Layer, tiling: Tiling, config: accel.Config = accel.vta_pynq) -> accel.Program:
    """Return the program that vta.build makes for a tiling, without verifying it."""
    check_layer(layer, config)
    _check_tiling(layer, tiling, config)
    with Environment(config):
        s, args = layer.scheduled(tiling)
        return codegen.emit_vta(driver.lower(s, args, target="vta"), config)
