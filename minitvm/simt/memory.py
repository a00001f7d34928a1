"""The memories of a batch of blocks, as numpy arrays: registers, warp, shared and global memory."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import schedule, tir

from .shadow import Shadow
from .threads import Batch

Array: TypeAlias = npt.NDArray[Any]


class Memory:
    """The memory of one buffer: for each thread of a batch, each of its warps or blocks, or once.

    scope    "local", "warp", "shared" or "global"
    size     the number of elements of one copy
    data     [size, lanes] for local memory, so that a row is one element of every thread;
             otherwise the copies one after another
    written  which elements have been written; None if all are: an argument
    shadow   finds races; None for local memory, and where no kernel writes
    """

    def __init__(self, buffer: tir.Buffer, size: int) -> None:
        self.buffer, self.size = buffer, size
        self.scope = schedule.scope_kind(buffer.scope)
        self.data: Array = np.empty(0, buffer.dtype.numpy)
        self.written: npt.NDArray[np.bool_] | None = None
        self.shadow: Shadow | None = None

    @property
    def bytes(self) -> int:
        """The bytes of one copy."""
        return self.size * self.buffer.dtype.bytes

    def begin(self, batch: Batch, races: bool) -> None:
        """Allocate the memory for a batch; in a loop, the same memory is allocated repeatedly.

        The contents are poison each time, but the marks of the shadow stay.
        """
        lanes, warps = len(batch.lane), batch.blocks * batch.launch.warps
        copies = {"shared": batch.blocks, "warp": warps}.get(self.scope, 1)
        shape = (self.size, lanes) if self.scope == "local" else (copies * self.size,)
        if self.written is None or self.data.shape != shape:
            self.data, self.written = np.empty(0), None
            self.watch(races and self.scope != "local", copies)
        self.poison(shape)

    def poison(self, shape: tuple[int, ...]) -> None:
        """Fill the memory so that no value of it is right by chance, and mark it as not written."""
        if self.written is None or self.data.shape != shape:
            self.data = np.empty(shape, self.buffer.dtype.numpy)
            self.written = np.empty(shape, np.bool_)
        self.poison_at(...)

    def poison_at(self, at: Any) -> None:
        """Do the same with some elements."""
        dtype = self.buffer.dtype
        assert self.written is not None
        self.data[at] = np.nan if dtype.is_float else True if dtype.kind == "bool" else dtype.high
        self.written[at] = False

    def watch(self, races: bool, copies: int = 1) -> None:
        """Forget all earlier accesses, and look for races of the following ones, or do not."""
        self.shadow = Shadow(self.size * copies, self.scope) if races else None

    def forget(self) -> None:
        """Drop the contents at the end of a batch, unless other blocks see them, too."""
        if self.scope != "global":
            self.written = None

    def at(self, batch: Batch, index: Any) -> Any:
        """Return where `data` holds element `index` of the active lanes.

        index   a number, or an array with one for each active lane
        """
        match self.scope:
            case "local":
                if batch.active is None and (index.__class__ is int or np.ndim(index) == 0):
                    return index
                return index, batch.lanes()
            case "shared":
                return batch.of(batch.block) * self.size + index
            case "warp":
                return batch.of(batch.slot) // schedule.WARP * self.size + index
            case _:
                return index if np.ndim(index) else np.full(len(batch.lanes()), index)

    def outside(self, index: Any) -> Any:
        """Return which of the indices are out of bounds, as one bool or one for each lane."""
        if np.ndim(index) == 0:
            return not 0 <= index < self.size
        if index.size and index.min() >= 0 and index.max() < self.size:
            return False
        return (index < 0) | (index >= self.size)
