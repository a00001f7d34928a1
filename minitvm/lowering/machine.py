"""The accelerator that programs of target "vta" are lowered for, and the memories it has."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

from minitvm import accel, tir

SCOPES = {
    "local.inp_buffer": accel.Memory.INP,
    "local.wgt_buffer": accel.Memory.WGT,
    "local.acc_buffer": accel.Memory.ACC,
}
MOST_TURNS = (1 << 14) - 1  # of one of the two loops of an instruction: 14 bits
_chosen: ContextVar[accel.Config] = ContextVar("machine", default=accel.vta_pynq)


def machine() -> accel.Config:
    """Return the accelerator chosen by the innermost enclosing `using`, or vta_pynq."""
    return _chosen.get()


@contextmanager
def using(config: accel.Config) -> Generator[accel.Config]:
    """with using(vdla_osdi18): ...  lowers for that machine, in this thread and context only."""
    before = _chosen.get()  # a token could be reset only in the context that it was made in
    _chosen.set(config)
    try:
        yield config
    finally:
        _chosen.set(before)


def prefix() -> str:
    """Return the prefix of instructions that have no unit yet: vta.gemm, vdla.gemm."""
    return "vdla" if machine().name.startswith("vdla") else "vta"


def memory_of(b: tir.Buffer) -> accel.Memory | None:
    """Return the accelerator's memory that holds `b`; None for main memory, or a CPU's."""
    return SCOPES.get(b.scope)


# what instructions have bits for: 13 where a list of micro-operations begins, 16 for the others
ADDRESSES = {
    accel.Memory.UOP: 1 << 13,
    accel.Memory.INP: 1 << 16,
    accel.Memory.WGT: 1 << 16,
    accel.Memory.ACC: 1 << 16,
}


def room(config: accel.Config, memory: accel.Memory) -> int:
    """Return how many elements of a memory a program can use and address."""
    return min(config.depth(memory), ADDRESSES[memory])


def element_size(memory: accel.Memory) -> int:
    """Return how many numbers one element has: 16 in INP of the 16 x 16 machine, 256 in WGT."""
    return prod(machine().element_shape(memory))
