"""The accelerator for which programs of target "vta" are lowered, and its memories."""

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
MAX_ITERATIONS = (1 << 14) - 1  # iterations of each of an instruction's two loops: 14 bits
_chosen: ContextVar[accel.Config] = ContextVar("machine", default=accel.vta_pynq)


def machine() -> accel.Config:
    """Return the accelerator chosen by the innermost enclosing `using`, or vta_pynq."""
    return _chosen.get()


@contextmanager
def using(config: accel.Config) -> Generator[accel.Config]:
    """Lower for the accelerator `config` inside the with block; other threads are not affected."""
    before = _chosen.get()  # a token can be reset only in the context that created it
    _chosen.set(config)
    try:
        yield config
    finally:
        _chosen.set(before)


def prefix() -> str:
    """Return the prefix of instruction names: vdla for a vdla, as in vdla.gemm, otherwise vta."""
    return "vdla" if machine().name.startswith("vdla") else "vta"


def memory_of(b: tir.Buffer) -> accel.Memory | None:
    """Return the accelerator memory in which `b` is stored; None if `b` is in main memory."""
    return SCOPES.get(b.scope)


# widths of instruction fields: 13 bits for the start of a micro-operation list, 16 for the others
ADDRESSES = {
    accel.Memory.UOP: 1 << 13,
    accel.Memory.INP: 1 << 16,
    accel.Memory.WGT: 1 << 16,
    accel.Memory.ACC: 1 << 16,
}


def capacity(config: accel.Config, memory: accel.Memory) -> int:
    """Return how many elements of `memory` exist and can be addressed by instructions."""
    return min(config.depth(memory), ADDRESSES[memory])


def element_size(memory: accel.Memory) -> int:
    """Return how many numbers one element of `memory` has: on vta_pynq 16 in INP, 256 in WGT."""
    return prod(machine().element_shape(memory))
