"""The functional simulator: what the instructions compute.

Instructions run one at a time, in any order that the tokens allow. Arithmetic is 32-bit two's
complement: sums and products wrap, right shifts keep the sign, and STORE keeps the low 8 bits
without saturating.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import numpy as np

from .config import Config, Memory, check_config
from .elements import Indices, Ints, resolve, rows, total
from .isa import Alu, Finish, Gemm, Instruction, Load, Op, Store
from .memory import Array, Contents, contents, read
from .program import Program, check_program
from .tokens import check_order, in_order

CHUNK = 1 << 13  # micro-operations multiplied at a time: bounds the memory of a GEMM


def execute(
    program: Program,
    config: Config,
    inputs: Mapping[str, Array],
    order: Sequence[int] | np.random.Generator | None = None,
) -> dict[str, Array]:
    """Run a program and return the areas of OUT by name.

    order   the numbers of the instructions, each once, in the order in which they run; the tokens
            must allow it. None means program order as far as tokens allow; a Generator draws a
            random legal order.

    If the program deadlocks, return the contents of DRAM at that point. Results do not depend on
    times or on the depth of queues.
    """
    check_program(program)
    check_config(config)
    resolved = resolve(program, config)
    state = contents(program, config, inputs)
    if order is None or isinstance(order, np.random.Generator):
        sequence: Sequence[int] = in_order(program, order)
    else:
        sequence = check_order(program, order)
    outputs: dict[str, Array] | None = None
    for n in sequence:
        if isinstance(program.instructions[n], Finish):
            outputs = _outputs(program, config, state)
        else:
            _step(program.instructions[n], resolved[n], state)
    return _outputs(program, config, state) if outputs is None else outputs


def _outputs(program: Program, config: Config, state: Contents) -> dict[str, Array]:
    areas = (area for area in program.areas if area.memory is Memory.OUT)
    return {area.name: read(area, config, state.dram) for area in areas}


def _step(instruction: Instruction, used: Indices | None, state: Contents) -> None:
    """Run an instruction; `used` are the indices of a GEMM or ALU."""
    match instruction:
        case Load():
            load(instruction, state)
        case Store():
            store(instruction, state)
        case Gemm(reset=True) if used is not None:
            state.chip[Memory.ACC][used.dst] = 0
        case Gemm() if used is not None:
            gemm(used, state.chip)
        case Alu(op=op, imm=imm) if used is not None:
            alu(op, imm, used, state.chip[Memory.ACC])
        case _:
            raise AssertionError("resolve() gives indices for every gemm and alu")


def load(move: Load, state: Contents) -> None:
    """Copy rows of DRAM to buffer[sram ...] with zero padding; ACC_8BIT widens int8 to int32."""
    if not move.x or move.memory is Memory.UOP:  # resolve() has handled loads of uops
        return
    buffer, (first, offsets) = state.chip[move.memory.on_chip], rows(move)
    tile = buffer[move.sram : move.sram + total(move)]
    tile[...] = 0
    padded_tile = tile.reshape(sum(move.y_pad) + move.y, sum(move.x_pad) + move.x, *tile.shape[1:])
    interior = padded_tile[move.y_pad[0] :, move.x_pad[0] :][: move.y, : move.x]
    interior[...] = state.dram[move.memory][first[:, None] + offsets]


def store(move: Store, state: Contents) -> None:
    """Copy the low 8 bits of accumulators to rows of DRAM; if rows overlap, the last one wins."""
    tile = state.chip[Memory.ACC][move.sram : move.sram + total(move)].astype(np.int8)
    first, offsets = rows(move)
    for row, line in zip(first, tile.reshape(move.y, move.x, *tile.shape[1:]), strict=True):
        state.dram[Memory.OUT][row + offsets] = line


def gemm(used: Indices, chip: Mapping[Memory, Array]) -> None:
    """Compute acc[dst][b, o] += sum over i of inp[src][b, i] * wgt[wgt][o, i].

    Wrapping sums are associative, so the products for one accumulator are summed first.
    """
    acc, inp, wgt = chip[Memory.ACC], chip[Memory.INP], chip[Memory.WGT]
    for at in range(0, len(used.dst), CHUNK):
        dst, src, w = (x[at : at + CHUNK] for x in (used.dst, used.src, used.wgt))
        rows_ = inp[src].astype(np.int32)
        columns = wgt[w].astype(np.int32).transpose(0, 2, 1)
        np.add.at(acc, dst, rows_ @ columns)


def alu(op: Op, imm: int | None, used: Indices, acc: Array) -> None:
    """Compute acc[dst] = op(acc[dst], acc[src] or imm), one micro-operation after the other.

    Independent neighbouring micro-operations are computed together: see runs().
    """
    dst, src = used.dst, used.dst if imm is not None else used.src
    for run in runs(dst, src):
        at = dst[run]
        operand = np.int32(imm) if imm is not None else acc[src[run]]
        acc[at] = combine(op, acc[at], operand)


def runs(dst: Ints, src: Ints) -> Iterator[slice]:
    """Yield maximal slices in which no dst or src is the dst of an earlier position in the slice.

    For example, dst = src = 0 1 2 0 1 2 has the slices 0:3 and 3:6.
    """
    latest = np.maximum.accumulate(np.maximum(_before(dst, dst), _before(dst, src)))
    begin, count = 0, len(dst)
    while begin < count:
        # the first position that uses an element written by a position >= begin
        end = int(np.searchsorted(latest, begin))
        yield slice(begin, end)
        begin = end


def _before(dst: Ints, used: Ints) -> Ints:
    """Return, for each position n, the last earlier position whose dst is used[n], or -1."""
    count = len(dst)
    positions = np.arange(count)
    written = np.sort(dst.astype(np.int64) * count + positions)  # by element, then by position
    at = np.searchsorted(written, used.astype(np.int64) * count + positions) - 1
    last = written[at]
    return np.where((at >= 0) & (last // count == used), last % count, -1)


def combine(op: Op, a: Ints, b: Ints | np.int32) -> Ints:
    """Return op(a, b) in 32 bits; shifts by 32 or more shift all bits out."""
    match op:
        case Op.MIN:
            return np.minimum(a, b)
        case Op.MAX:
            return np.maximum(a, b)
        case Op.ADD:
            return a + b
        case Op.MUL:
            return a * b
        case Op.SHR:
            left, right = np.clip(b, -32, 0), np.clip(b, 0, 32)
            return (a << -left) >> right
        case _:
            assert_never(op)
