"""The accelerator that programs of target "vta" are lowered for, and the memories it has."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

from minitvm.accel import Config, Memory, vta_pynq
from minitvm.tir import Buffer

SCOPES = {
    "local.inp_buffer": Memory.INP,
    "local.wgt_buffer": Memory.WGT,
    "local.acc_buffer": Memory.ACC,
}
MOST_TURNS = (1 << 14) - 1  # of one of the two loops of an instruction: 14 bits
_chosen: ContextVar[Config] = ContextVar("machine", default=vta_pynq)


def machine() -> Config:
    """The accelerator chosen by the innermost `using` around, or vta_pynq."""
    return _chosen.get()


@contextmanager
def using(config: Config) -> Generator[Config]:
    """with using(vdla_osdi18): ...  lowers for that machine, in this thread and context only."""
    before = _chosen.get()  # a token could be reset only in the context that it was made in
    _chosen.set(config)
    try:
        yield config
    finally:
        _chosen.set(before)


def prefix() -> str:
    """What instructions are called before a unit is chosen for them: vta.gemm, vdla.gemm."""
    return "vdla" if machine().name.startswith("vdla") else "vta"


def memory_of(b: Buffer) -> Memory | None:
    """Which memory of the accelerator holds `b`; None: main memory, or a CPU's."""
    return SCOPES.get(b.scope)


# what instructions have bits for: 13 where a list of micro-operations begins, 16 for the others
ADDRESSES = {Memory.UOP: 1 << 13, Memory.INP: 1 << 16, Memory.WGT: 1 << 16, Memory.ACC: 1 << 16}


def room(config: Config, memory: Memory) -> int:
    """How many elements of a memory a program can use: what is there, and has an address."""
    return min(config.depth(memory), ADDRESSES[memory])


def element_size(memory: Memory) -> int:
    """How many numbers one element has: 16 in INP of the 16 x 16 machine, 256 in WGT."""
    return prod(machine().element_shape(memory))
