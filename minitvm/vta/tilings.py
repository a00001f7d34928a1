"""The fastest tiling of a convolution, by closed forms and then by the stream of instructions.

    layer = Convolution(size=(14, 14), channels=(256, 256))
    found = best_tiling(layer, vta_pynq, threads=2)
    s, args = layer.scheduled(found.tiling)

What the units do in a tiling is known in closed form: the cycles in which each is busy. How long
they wait for each other is not. So tilings are sorted by what they cannot be faster than, and
simulated in this order until no other can be faster than the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from minitvm import te
from minitvm.accel import Config, Memory, Program, measure, vta_pynq
from minitvm.base import ArgumentError, ScheduleError
from minitvm.codegen import Dim, emit_vta, transfers
from minitvm.driver import lower

from .environment import Environment, get_env
from .top import Tiling, conv2d, requantize, schedule

ALU_OPERATIONS = 3  # shift, max, min; a bias and a residual are one more each
MOST_SIMULATIONS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A quantised convolution of a network: int8 to int8, one image.

    size, channels   (rows, columns) of the data; (input, output) channels, not in blocks
    bias, residual   is one added before, or after, the shift?
    """

    size: tuple[int, int]
    channels: tuple[int, int]
    kernel: int = 3
    stride: int = 1
    pad: int = 1
    bias: bool = False
    residual: bool = False
    shift: int = 8

    def __post_init__(self) -> None:
        pairs: tuple[object, object] = self.size, self.channels
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):  # pyright: ignore
            raise ArgumentError(f"{self}", "size and channels are pairs", "size=(14, 14)")
        counts = (*self.size, *self.channels, self.kernel, self.stride, self.pad + 1)
        if any(type(n) is not int or n < 1 for n in counts) or min(self.out) < 1:
            raise ArgumentError(f"{self}", "its sizes are counts, and its kernel fits", "pad=1")

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        h, w = ((n + 2 * self.pad - self.kernel) // self.stride + 1 for n in self.size)
        return h, w

    @property
    def macs(self) -> int:
        """Useful multiply-adds: those with zeros around the data count, as in every paper."""
        (h, w), (ic, oc) = self.out, self.channels
        return h * w * ic * oc * self.kernel**2

    def blocks(self, config: Config) -> tuple[int, int]:
        """(input, output) channels in blocks, the last of which may be filled up with zeros."""
        ic, oc = self.channels
        return -(-ic // config.block_in), -(-oc // config.block_out)

    def tensors(self) -> list[te.Tensor]:
        """Data, weight, perhaps bias and residual, and the result: packed for the machine now."""
        env = get_env()
        (ic, oc), k = self.blocks(env.config), self.kernel
        element = (env.BATCH, env.BLOCK_OUT)
        data_shape = (1, ic, *self.size, env.BATCH, env.BLOCK_IN)
        weight_shape = (oc, ic, k, k, env.BLOCK_OUT, env.BLOCK_IN)
        data = te.placeholder(data_shape, env.inp_dtype, "data")
        weight = te.placeholder(weight_shape, env.wgt_dtype, "weight")
        total = conv2d(data, weight, self.stride, self.pad)
        bias = te.placeholder((oc, *element), env.acc_dtype, "bias") if self.bias else None
        residual = te.placeholder(total.shape, env.acc_dtype, "residual") if self.residual else None
        result = requantize(total, bias, residual, shift=self.shift)
        return [data, weight, *(t for t in (bias, residual) if t is not None), result]

    def scheduled(self, tiling: Tiling) -> tuple[te.Schedule, list[te.Tensor]]:
        """What vta.build takes."""
        args = self.tensors()
        return schedule(args[-1], tiling), args


# --- closed forms --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of a tiling: what each unit is busy for, and what the whole cannot be faster than.

    Loads of micro-operations are left out of `compute`: a few for each program.
    """

    load: int
    compute: int
    store: int
    bound: int


def cost(layer: Convolution, tiling: Tiling, config: Config = vta_pynq) -> Cost:
    """What the units do, tile by tile, for tilings that legal_tilings lists.

    One thread: one unit works at a time, so the bound is the sum. Several: a round of them resets,
    loads, multiplies, stores. Its first load waits for its first reset, that for the first store of
    the round before. So the load unit idles from a round's last load to the next reset, and the
    compute unit while it has nothing but a first load, or a first store, to wait for.
    """
    (h, w), (ic, oc), at = layer.out, layer.blocks(config), tiling
    steps, tiles = ic // at.ic, (h // at.h) * (w // at.w) * (oc // at.oc)
    elements, start = at.oc * at.h * at.w, config.issue + config.fill
    data = [_data(layer, at, config, y, x) for y, x in product(range(h // at.h), range(w // at.w))]
    weight = _weight(layer, at, config)
    load = steps * (oc // at.oc * sum(data) + tiles * weight)
    extra = _extra(layer, at, config)
    reset, gemm = start + elements, start + elements * at.ic * layer.kernel**2
    alu = ALU_OPERATIONS * (start + elements * config.alu_ii_imm) + extra
    compute = tiles * (reset + steps * gemm + alu)
    one_store = _store(layer, at, config)
    store = tiles * one_store
    if at.threads == 1:
        return Cost(load, compute, store, load + compute + store)
    rounds, others = tiles // at.threads, at.threads - 1
    # with one step, a thread's ALU follows its product at once; with more, all products come first
    between = alu if steps > 1 else gemm + alu
    last = reset + gemm + (at.threads if steps > 1 else 1) * alu
    by_load = load + rounds * last + one_store
    idle = max(0, min(data) + weight - others * reset) + max(0, one_store - others * between)
    by_compute = compute + rounds * idle + min(one_store, others * between)
    return Cost(load, compute, store, max(by_load, by_compute, store))


def _extra(layer: Convolution, at: Tiling, config: Config) -> int:
    """Loading a tile of bias and residual, and adding them."""
    add = config.issue + config.fill + at.oc * at.h * at.w * config.alu_ii_reg
    bias = _moved(config, Memory.ACC, (Dim(at.oc, 1),)) if layer.bias else -add
    residual = _result(layer, at, config, Memory.ACC) if layer.residual else -add
    return bias + add + residual + add


def _weight(layer: Convolution, at: Tiling, config: Config) -> int:
    window = layer.kernel**2
    dims = Dim(at.oc, layer.blocks(config)[0] * window), Dim(at.ic, window), Dim(window, 1)
    return _moved(config, Memory.WGT, dims)


def _store(layer: Convolution, at: Tiling, config: Config) -> int:
    return _result(layer, at, config, Memory.OUT)


def _result(layer: Convolution, at: Tiling, config: Config, memory: Memory) -> int:
    h, w = layer.out
    return _moved(config, memory, (Dim(at.oc, h * w), Dim(at.h, w), Dim(at.w, 1)))


def _data(layer: Convolution, at: Tiling, config: Config, y: int, x: int) -> int:
    """Loading the data for one tile and one step: at the border, less of it, and zeros."""
    height, width = layer.size
    dims = (
        Dim(at.ic, height * width),
        _window(layer, height, y * at.h, at.h, width),
        _window(layer, width, x * at.w, at.w, 1),
    )
    return _moved(config, Memory.INP, dims)


def _window(layer: Convolution, size: int, first: int, n: int, stride: int) -> Dim:
    """The rows (or columns) of the data for n of the result from `first` on."""
    begin = first * layer.stride - layer.pad
    end = begin + reach(layer, n)
    before, after = max(0, -begin), max(0, end - size)
    return Dim(end - begin - before - after, stride, before, after)


def reach(layer: Convolution, n: int) -> int:
    """How many rows of the data n rows of the result are made of."""
    return (n - 1) * layer.stride + layer.kernel


def _moved(config: Config, memory: Memory, dims: tuple[Dim, ...]) -> int:
    """Moving a box of elements."""
    return _cycles(config, config.element_bytes(memory), dims)


@lru_cache(maxsize=1 << 16)
def _cycles(config: Config, element: int, dims: tuple[Dim, ...]) -> int:
    """The same, remembered: a tile of the interior is like all others."""
    total = 0
    for part in transfers("a tile", dims, 1):
        beats = -(-part.x.n * element // config.port_bytes)
        padded = part.y.total * part.x.total - part.y.n * part.x.n
        total += config.issue + config.dma_latency + part.y.n * (beats + config.dma_row) + padded
    return total


# --- what fits -----------------------------------------------------------------------------------


def legal_tilings(layer: Convolution, config: Config = vta_pynq, threads: int = 1) -> list[Tiling]:
    """All tilings in whole tiles that fit into the memories, each thread having its part of them.

    Two threads or more share either the output channels or the rows.
    """
    if type(threads) is not int or threads < 1:
        raise ArgumentError(f"threads={threads!r}", "it is a count from 1 on")
    _check(layer, config)
    (h, w), (ic, oc) = layer.out, layer.blocks(config)
    ways = [(1, 1)] if threads == 1 else [(threads, 1), (1, threads)]
    sizes = product(divisors(h), divisors(w), divisors(oc), divisors(ic))
    every = (
        Tiling(h=th, w=tw, oc=to, ic=ti, oc_threads=by_oc, h_threads=by_h)
        for (th, tw, to, ti), (by_oc, by_h) in product(sizes, ways)
        if (oc // to) % by_oc == 0 and (h // th) % by_h == 0
    )
    return [tiling for tiling in every if fits(layer, tiling, config)]


def _check(layer: object, config: object) -> None:
    """Refuse what is no layer, or no machine."""
    if not isinstance(layer, Convolution):
        raise ArgumentError(f"layer={layer!r:.60}", "it is no Convolution", 'vta.RESNET18["C2"]')
    if not isinstance(config, Config):
        raise ArgumentError(f"config={config!r:.60}", "it is no Config", "vta.vta_pynq")


def fits(layer: Convolution, at: Tiling, config: Config) -> bool:
    """Do the tiles of all threads fit, and do accumulators come round late enough?"""
    elements = at.oc * at.h * at.w
    window = layer.kernel**2
    needs = {
        Memory.INP: at.ic * reach(layer, at.h) * reach(layer, at.w),
        Memory.WGT: at.oc * at.ic * window,
        Memory.ACC: elements * (2 if layer.residual else 1) + (at.oc if layer.bias else 0),
    }
    loops = [n for n in (at.ic, at.w, layer.kernel, layer.kernel, at.oc, at.h) if n > 1]
    uops = 1
    for n in loops[2:]:  # the two outer ones are loops of the instruction
        uops *= n
    return (
        all(n * at.threads <= config.depth(memory) for memory, n in needs.items())
        and uops <= config.depth(Memory.UOP)
        and elements >= config.rmw_distance
    )


def divisors(n: int) -> Iterator[int]:
    """1, 2, 4, 8 of 8."""
    return (d for d in range(1, n + 1) if n % d == 0)


# --- search --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest tiling that was found, its cycles, and how many of how many were simulated.

    proven: none of the others can be faster, by its closed form
    """

    tiling: Tiling
    cycles: int
    tried: int
    legal: int
    proven: bool


def best_tiling(
    layer: Convolution, config: Config = vta_pynq, threads: int = 1, most: int = MOST_SIMULATIONS
) -> Best:
    """The fastest tiling: cycles are those of the instructions that vta.build makes of it.

    At most `most` tilings are simulated. Raises ScheduleError if none fits.
    """
    if type(most) is not int or most < 1:
        raise ArgumentError(f"most={most!r}", "it is a count from 1 on")
    tilings = legal_tilings(layer, config, threads)
    order = sorted((cost(layer, at, config).bound, n) for n, at in enumerate(tilings))
    if not order:
        raise ScheduleError(
            f"{layer} on {config.name} with {threads} threads",
            "no tiling in whole tiles fits into its memories",
            "fewer threads, or a Config with larger memories",
        )
    found: tuple[int, Tiling] | None = None
    tried = 0
    for bound, n in order:
        if tried == most or (found is not None and bound >= found[0]):
            break
        cycles = measure(program(layer, tilings[n], config), config).cycles
        tried += 1
        if found is None or cycles < found[0]:
            found = cycles, tilings[n]
    assert found is not None
    proven = tried == len(order) or order[tried][0] >= found[0]
    return Best(found[1], found[0], tried, len(order), proven)


def program(layer: Convolution, tiling: Tiling, config: Config = vta_pynq) -> Program:
    """The instructions of a tiling: those that vta.build makes, before they are judged."""
    with Environment(config):
        s, args = layer.scheduled(tiling)
        return emit_vta(lower(s, args, target="vta"), config)
