"""Streams that several files of this folder run: the talk's example and a tiled convolution."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from minitvm.accel import (
    Alu,
    Config,
    Finish,
    Flags,
    Gemm,
    Load,
    Memory,
    Op,
    Program,
    Queue,
    Store,
    Unit,
    Uop,
    UopLoops,
    nop,
    parse,
    place,
    unit_of,
    vta_pynq,
)

TAIL = """
st  nop              push ex
ld  nop   pop ex
ld  nop              push ex
ex  nop   pop ld   pop st
ex  finish
"""


def talk_text(steps: int, threads: int) -> str:
    """`threads` virtual threads that load a tile and accumulate it, `steps` times.

    Tile k of thread t is A[k, t]; CL[t] += AL[t] @ W. The end of a program is the runtime's.
    """
    lines = [f"area A inp {steps} {threads}"] + [f"uop {t} {t} 0" for t in range(threads)]
    lines += ["ex  nop   push ld"] * threads
    for k in range(steps):
        lines += [
            f"ld  inp[{t}] = A[{k * threads + t}] x=1   pop ex   push ex" for t in range(threads)
        ]
        lines += [f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld" for t in range(threads)]
    lines += ["ld  nop   pop ex"] * (threads - 1)
    return "\n".join(lines) + TAIL


@pytest.fixture(scope="session")
def talk() -> Callable[..., Program]:
    """The talk's stream; with `store`, what is needed around it to have numbers come out."""

    def build(steps: int, threads: int, store: bool = False) -> Program:
        text = talk_text(steps, threads)
        if store:
            head = f"area B wgt 1\narea C out {threads}\n"
            head += f"ex  uop[0] = uops[0] x={threads}\n"
            head += f"ex  reset u[0:{threads}]\n"
            head += "ld  wgt[0] = B[0] x=1\n"
            last = f"ex  shr u[0:{threads}] imm=8   push st\nst  C[0] = acc[0] x={threads}   pop ex"
            text = head + text.replace("\nst  nop", f"\n{last}\nst  nop")
        return parse(text)

    return build


@dataclass(frozen=True)
class Conv:
    """A convolution in tiles of `rows` rows of outputs and one block of output channels."""

    height: int
    width: int
    ic: int
    oc: int
    kernel: int
    stride: int
    pad: int
    rows: int
    threads: int = 1

    @property
    def out(self) -> tuple[int, int]:
        reach = 2 * self.pad - self.kernel
        return (self.height + reach) // self.stride + 1, (self.width + reach) // self.stride + 1

    def reference(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """[oc block, y, x, 1, 16] int8: clip(sum >> 8, 0, 127), in 64 bits."""
        pads = ((0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0), (0, 0))
        padded = np.pad(data.astype(np.int64), pads)
        height, width = self.out
        total = np.zeros((self.oc // 16, height, width, 1, 16), np.int64)
        for y in range(self.kernel):
            for x in range(self.kernel):
                rows = slice(y, y + height * self.stride, self.stride)
                part = padded[:, rows, x : x + width * self.stride : self.stride]
                total += np.einsum(
                    "iyxbc,oidc->oyxbd", part[:, :height, :width], weight[:, :, y, x]
                )
        return np.clip(total >> 8, 0, 127).astype(np.int8)

    def inputs(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        blocks = self.ic // 16, self.oc // 16
        data = (blocks[0], self.height, self.width, 1, 16)
        weight = (blocks[1], blocks[0], self.kernel, self.kernel, 16, 16)
        return {
            "D": rng.integers(-128, 128, data, np.int8),
            "W": rng.integers(-128, 128, weight, np.int8),
        }

    def program(self, config: Config = vta_pynq) -> Program:
        """Tokens as VTA's compiler places them; the threads take neighbouring output blocks."""
        height, width = self.out
        assert height % self.rows == 0
        assert self.oc // 16 % self.threads == 0
        blocks, area = self.ic // 16, self.kernel**2
        areas = place(
            config,
            {
                "D": (Memory.INP, (blocks, self.height, self.width)),
                "W": (Memory.WGT, (self.oc // 16, blocks, self.kernel, self.kernel)),
                "O": (Memory.OUT, (self.oc // 16, height, width)),
            },
        )
        stream = [Load(memory=Memory.UOP, x=self.threads * self.rows * width)]
        stream += [nop(Unit.STORE, Flags(push_prev=True))] * self.threads
        for first in range(0, self.oc // 16, self.threads):
            for y in range(0, height, self.rows):
                stream += self._tiles(areas, first, y, blocks, area)
        stream += [nop(Unit.COMPUTE, Flags(pop_next=True))] * self.threads
        return Program((*stream, Finish()), self._uops(), areas)

    @property
    def _patch(self) -> tuple[int, int]:
        """Rows and columns of inputs of a tile."""
        return (
            (self.rows - 1) * self.stride + self.kernel,
            (self.out[1] - 1) * self.stride + self.kernel,
        )

    def _uops(self) -> tuple[Uop, ...]:
        """One per output of a tile: the kernel's loops are outside, so that none waits."""
        _, width = self.out
        tall, wide = self._patch
        return tuple(
            Uop(
                (t * self.rows + y) * width + x,
                (t * tall + y * self.stride) * wide + x * self.stride,
                t * self.kernel**2,
            )
            for t in range(self.threads)
            for y in range(self.rows)
            for x in range(width)
        )

    def _tiles(self, areas, first: int, y: int, blocks: int, area: int) -> list:
        """One tile of each thread, interleaved."""
        threads, per = range(self.threads), self.rows * self.out[1]
        both = Flags(pop_prev=True, push_prev=True)
        stream: list = []
        span = {t: {"begin": t * per, "end": (t + 1) * per} for t in threads}
        for t in threads:
            flags = Flags(pop_next=True, push_prev=True)
            stream.append(Gemm(loops=UopLoops(**span[t]), reset=True, flags=flags))
        for block in range(blocks):
            for t in threads:
                stream.append(self._data(areas[0], t, y, block))
                at = areas[1].base + ((first + t) * blocks + block) * area
                move = Load(memory=Memory.WGT, sram=t * area, dram=at, x=area)
                stream.append(replace(move, flags=Flags(push_next=True)))
            for t in threads:
                wide = self._patch[1]
                loops = UopLoops(
                    **span[t],
                    outer=self.kernel,
                    inner=self.kernel,
                    src_factors=(wide, 1),
                    wgt_factors=(self.kernel, 1),
                )
                stream.append(Gemm(loops=loops, flags=both))
        stream += [nop(Unit.LOAD, Flags(pop_next=True))] * self.threads
        for t in threads:
            for op, imm in ((Op.SHR, 8), (Op.MAX, 0), (Op.MIN, 127)):
                flags = Flags(push_next=op is Op.MIN)
                stream.append(Alu(op=op, imm=imm, loops=UopLoops(**span[t]), flags=flags))
        for t in threads:
            at = areas[2].base + ((first + t) * self.out[0] + y) * self.out[1]
            flags = Flags(pop_prev=True, push_prev=True)
            stream.append(Store(sram=t * per, dram=at, x=per, flags=flags))
        return stream

    def _data(self, area, t: int, y: int, block: int) -> Load:
        """The rows of inputs that a tile reads, padded where they leave the image."""
        tall, wide = self._patch
        top = y * self.stride - self.pad
        first, last = max(top, 0), min(top + tall, self.height)
        columns = min(self.width, wide - self.pad)
        return Load(
            memory=Memory.INP,
            sram=t * tall * wide,
            dram=area.base + (block * self.height + first) * self.width,
            y=last - first,
            x=columns,
            stride=self.width,
            y_pad=(first - top, top + tall - last),
            x_pad=(self.pad, wide - self.pad - columns),
            flags=Flags(pop_next=True),
        )


@pytest.fixture(scope="session")
def conv() -> type[Conv]:
    return Conv


FLAGS = {  # the flags (push, pop) of each queue, and who has them
    Queue.L2G: (("push_next", Unit.LOAD), ("pop_prev", Unit.COMPUTE)),
    Queue.G2L: (("push_prev", Unit.COMPUTE), ("pop_next", Unit.LOAD)),
    Queue.G2S: (("push_next", Unit.COMPUTE), ("pop_prev", Unit.STORE)),
    Queue.S2G: (("push_prev", Unit.STORE), ("pop_next", Unit.COMPUTE)),
}


class Tokens:
    """A program's tokens: the numbers of those that push and pop, and the program without some."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def ends(self, queue: Queue) -> tuple[list[int], list[int]]:
        """The instructions that push into a queue, and those that pop from it."""
        push, pop = (
            [
                n
                for n, instruction in enumerate(self.program.instructions)
                if unit_of(instruction) is unit and getattr(instruction.flags, flag)
            ]
            for flag, unit in FLAGS[queue]
        )
        return push, pop

    def without(self, queue: Queue, *, push: int | None = None, pop: int | None = None) -> Program:
        """The program without the push-th push into a queue, and without the pop-th pop."""
        instructions = list(self.program.instructions)
        for which, at, (flag, _) in zip(self.ends(queue), (push, pop), FLAGS[queue], strict=True):
            if at is not None:
                old = instructions[which[at]]
                flags = replace(old.flags, **{flag: False})
                instructions[which[at]] = replace(old, flags=flags)
        return Program(tuple(instructions), self.program.uops, self.program.areas)


@pytest.fixture(scope="session")
def tokens() -> type[Tokens]:
    return Tokens
