"""The contents of DRAM and of the buffers, as numpy arrays of elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm
from typing import Any, TypeAlias

import numpy as np

from minitvm.base import ArgumentError, check_kind

from .config import Config, Memory
from .program import Area, Program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

ON_CHIP = (Memory.WGT, Memory.INP, Memory.ACC)
POISON = 0x5A  # initial value of on-chip bytes: positive in all types, and large after a shift


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of all memories; each array in `dram` is a view of the same bytes."""

    chip: dict[Memory, Array]  # ACC int32 [depth, batch, block_out], INP and WGT int8
    dram: dict[Memory, Array]  # dram[INP][n] is element n of DRAM in elements of INP


def contents(program: Program, config: Config, inputs: Mapping[str, Array]) -> Contents:
    """Return the initial contents: DRAM with `inputs` in their areas, and poisoned buffers.

    On a real machine, buffers keep the data of earlier programs. In the simulator each run starts
    from the same bytes (POISON), so reads of uninitialised elements are visible in the outputs.
    Areas of OUT may be omitted; they then start as zeros.
    inputs[name] has the shape of the area followed by the shape of one element.
    """
    check_kind("inputs", inputs, Mapping, fix='{"A": array}')
    for name in inputs:
        program.area(name)
    kinds = [memory for memory in Memory if memory is not Memory.UOP]
    unit = lcm(*(config.element_bytes(memory) for memory in kinds))
    end = max((area.byte_range(config)[1] for area in program.areas), default=0)
    raw = np.zeros(-(-end // unit) * unit, np.uint8)
    dram = {m: raw.view(config.dtype(m)).reshape(-1, *config.element_shape(m)) for m in kinds}
    for area in program.areas:
        if area.name in inputs or area.memory is not Memory.OUT:
            begin, after = area.byte_range(config)
            raw[begin:after] = _bytes_of(area, config, inputs)
    chip: dict[Memory, Array] = {}
    for m in ON_CHIP:
        poisoned = np.full(config.depth(m) * config.element_bytes(m), POISON, np.uint8)
        chip[m] = poisoned.view(config.dtype(m)).reshape(-1, *config.element_shape(m))
    return Contents(chip, dram)


def read(area: Area, config: Config, dram: Mapping[Memory, Array]) -> Array:
    """Return a copy of an area, of shape (*area.shape, *shape of an element)."""
    shape = area.shape + config.element_shape(area.memory)
    size = config.element_bytes(area.memory)
    begin, end = (byte // size for byte in area.byte_range(config))
    return dram[area.memory][begin:end].reshape(shape).copy()


def _bytes_of(area: Area, config: Config, inputs: Mapping[str, Array]) -> Array:
    """Return the bytes of an area's input; raise ArgumentError if it does not fit."""
    if area.name not in inputs:
        raise ArgumentError(f"input {area.name!r}", "no array is given for this area")
    value = np.asarray(inputs[area.name])
    shape = area.shape + config.element_shape(area.memory)
    dtype = config.dtype(area.memory)
    if value.shape != shape or value.dtype != np.dtype(dtype):
        raise ArgumentError(
            f"input {area.name!r}",
            f"expected {dtype} {shape}, which is {area.shape} elements of shape "
            f"{config.element_shape(area.memory)}, not {value.dtype} {value.shape}",
        )
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
