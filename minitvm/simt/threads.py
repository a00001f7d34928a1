"""Blocks and threads of a launch, and the lanes that stand for them in numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import schedule, tir
from minitvm.base import LoweringError, plural

Numbers: TypeAlias = npt.NDArray[np.int64]
Lanes: TypeAlias = npt.NDArray[np.intp]
BATCH = 1 << 14  # lanes that run together; more of them leave the caches


@dataclass(frozen=True, slots=True)
class Launch:
    """How many blocks a kernel has, and threads each block, along x, y and z."""

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return math.prod(self.block)

    @property
    def together(self) -> int:
        """The most blocks that the simulator runs together, as one batch."""
        return max(1, BATCH // self.threads)

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.blocks // self.together)

    @property
    def warps(self) -> int:
        """The number of warps of a block; the last one may be incomplete."""
        return -(-self.threads // schedule.WARP)

    def extent(self, tag: str) -> int:
        """Return how many values the hardware index `tag` has, such as "threadIdx.x"."""
        sizes = self.grid if tag in schedule.BLOCKS else self.block
        return sizes["xyz".index(tag[-1])]

    def name(self, thread: int) -> str:
        """Return the name of a thread, numbered in the whole grid: "block 3, thread (4, 0)"."""
        block, number = divmod(thread, self.threads)
        return f"block {_place(block, self.grid)}, thread {_place(number, self.block)}"

    def __str__(self) -> str:
        grid, block = (" x ".join(map(str, _used(n))) for n in (self.grid, self.block))
        return f"{grid} block{plural(self.blocks)} of {block} thread{plural(self.threads)}"


def _used(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Drop trailing sizes of 1: (4, 2, 1) -> (4, 2)."""
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return sizes


def _place(number: int, sizes: tuple[int, ...]) -> str:
    index = tuple(int(n) for n in np.unravel_index(number, sizes, order="F"))[: len(_used(sizes))]
    return str(index[0]) if len(index) == 1 else f"({', '.join(map(str, index))})"


def roots(body: tir.Stmt) -> Iterator[tir.Stmt]:
    """Yield the kernels of a program, and before them the allocations of what they share.

    Only global memory outlives a kernel: an allocation of other memory is part of one.
    """
    match body:
        case tir.Seq(parts):
            for part in parts:
                yield from roots(part)
        case tir.Allocate(buffer, inner) if buffer.scope == "global":
            yield body
            yield from roots(inner)
        case _:
            yield body


def launch_of(kernel: tir.Stmt, values: Mapping[tir.Var, int] | None = None) -> Launch:
    """Return the launch of a kernel, from the loops that are bound to blocks and threads.

    values   the values of symbolic sizes
    Raises LoweringError if two loops over one hardware index differ in length.
    """
    extents: dict[str, int] = {}
    for loop in tir.every(kernel):
        if isinstance(loop, tir.For) and loop.thread and not schedule.is_virtual(loop.thread):
            extent = tir.index_value(loop.extent, values or {})
            if extents.setdefault(loop.thread, extent) != extent:
                why = f"one loop has {extents[loop.thread]} iterations, another {extent}"
                raise LoweringError(f"loops bound to {loop.thread}", why, "equal extents")
    grid, block = (
        tuple(extents.get(tag, 1) for tag in tags) for tags in (schedule.BLOCKS, schedule.THREADS)
    )
    return Launch(_three(grid), _three(block))


def _three(sizes: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = sizes
    return x, y, z


class Batch:
    """The threads of some consecutive blocks: each is a lane, a position in every array.

    lane     0, 1, ...
    block    the block of each lane, counted from the first one of the batch
    thread   the number of each lane's thread in the whole grid
    slot     the position of each lane in an array [warps, 32], whose last warps may have gaps
    index    hardware index, such as "threadIdx.x" -> its value in each lane
    active   the lanes that run the current statement; None for all
    epoch    how many barriers each block has passed, and warp_epoch each warp of its own
    """

    def __init__(self, launch: Launch, first: int, blocks: int) -> None:
        self.launch, self.first, self.blocks = launch, first, blocks
        self.lane: Lanes = np.arange(blocks * launch.threads)
        self.block, number = np.divmod(self.lane, launch.threads)
        self.thread: Numbers = self.lane + first * launch.threads
        self.slot = self.block * launch.warps * schedule.WARP + number
        self.index: dict[str, Numbers] = {}
        for tags, sizes, numbers in (
            (schedule.BLOCKS, launch.grid, first + self.block),
            (schedule.THREADS, launch.block, number),
        ):
            indices = np.unravel_index(numbers, sizes, order="F")
            self.index |= {
                tag: np.asarray(p, np.int64) for tag, p in zip(tags, indices, strict=True)
            }
        self.active: Lanes | None = None
        self.epoch = np.zeros(blocks, np.int32)
        self.warp_epoch = np.zeros(blocks * launch.warps, np.int32)

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of the active lanes."""
        return values if self.active is None else values[self.active]

    def passed(self, warp: bool) -> npt.NDArray[np.int32]:
        """Return how many barriers each active lane has passed; `warp` counts those of warps, too.

        syncthreads() orders accesses of shared and global memory, syncwarp() those of a warp's own.
        """
        passed = self.epoch[self.block]
        if warp:
            passed = passed + self.warp_epoch[self.slot // schedule.WARP]
        return passed if self.active is None else passed[self.active]

    def warps(self) -> int:
        """Return how many warps have an active lane."""
        if self.active is None:
            return self.blocks * self.launch.warps
        return int(np.count_nonzero(np.bincount(self.slot[self.active] // schedule.WARP)))

    def lanes(self) -> Lanes:
        """Return the active lanes."""
        return self.lane if self.active is None else self.active

    def chosen(self, mask: npt.NDArray[np.bool_]) -> Lanes:
        """Return the lanes that `mask`, which has an entry for each active lane, selects."""
        return self.lanes()[mask]
