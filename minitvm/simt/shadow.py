"""Shadow memory: who wrote and who read each element, since which barrier.

Two threads race on an element if no barrier orders their accesses and one of them writes. The
shadow keeps the last writer and the last reader of each element with the number of barriers that
their block had passed, so a race is found although the threads of a batch run in lockstep. It is
found in whatever order they run, too: the second of two accesses sees the mark of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .report import READ_AFTER_WRITE, REDUNDANT, WRITE_AFTER_READ, WRITE_AFTER_WRITE
from .threads import Batch

NONE, MANY = -1, -2  # in place of a thread or a block: none, or several
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Race:
    """Some lanes of an access that race.

    mask    the lanes, among the active ones
    first   the first of them; `position` is its element
    other   the number of the conflicting access, and `thread` its thread (or MANY)
    """

    kind: str
    mask: Mask
    first: int
    position: int
    other: int
    thread: int


class Shadow:
    """The marks of one memory.

    scope   of the memory. In global memory, threads of different blocks see the same elements, and
            no barrier orders their accesses; "warp" memory has barriers of its own
    """

    def __init__(self, size: int, scope: str) -> None:
        self.blocks, self.warp = scope == "global", scope == "warp"
        self.writer, self.reader, self.reader_block = (np.full(size, NONE) for _ in range(3))
        self.write_epoch, self.read_epoch = (np.full(size, NONE, np.int32) for _ in range(2))
        self.write_access, self.read_access = (np.zeros(size, np.int32) for _ in range(2))

    def read(self, at: Positions, batch: Batch, access: int) -> Iterator[Race]:
        """Mark a read of elements by the active lanes; yield a race with an earlier write."""
        thread, epoch = batch.of(batch.thread), batch.passed(self.warp)
        block = thread // batch.launch.threads
        writer = self.writer[at]
        race_mask = (
            (writer >= 0) & (writer != thread) & self._unordered(at, writer, block, epoch, batch)
        )
        yield from self._race(READ_AFTER_WRITE, race_mask, at, self.write_access, self.writer)
        reader, same_epoch = self.reader[at], self.read_epoch[at] == epoch
        if self.blocks:
            earlier = self.reader_block[at]
            same_epoch &= earlier == block
            several = ((earlier >= 0) & (earlier != block)) | (earlier == MANY)
            _mark(self.reader_block, at, np.where(several, MANY, block))
        _mark(self.reader, at, np.where(same_epoch & (reader != thread), MANY, thread))
        self.read_epoch[at], self.read_access[at] = epoch, access

    def write(self, at: Positions, batch: Batch, access: int, old: Any, new: Any) -> Iterator[Race]:
        """Mark a write of elements by the active lanes; yield races with earlier accesses.

        old, new   the values in memory and the ones to be written: equal ones are redundant
        """
        thread, epoch = batch.of(batch.thread), batch.passed(self.warp)
        block = thread // batch.launch.threads
        reader, writer = self.reader[at], self.writer[at]
        read_before = (self.read_epoch[at] == epoch) & (reader != thread)
        if self.blocks:
            earlier = self.reader_block[at]
            read_before = (
                (earlier == MANY)
                | ((earlier >= 0) & (earlier != block))
                | ((earlier == block) & read_before)
            )
        yield from self._race(WRITE_AFTER_READ, read_before, at, self.read_access, self.reader)
        written_before = (
            (writer >= 0) & (writer != thread) & self._unordered(at, writer, block, epoch, batch)
        )
        if written_before.any():
            differs = written_before & ~same(old, new)
            kind = WRITE_AFTER_WRITE if differs.any() else REDUNDANT
            mask = differs if differs.any() else written_before
            yield from self._race(kind, mask, at, self.write_access, self.writer)
        self.writer[at], self.write_epoch[at], self.write_access[at] = thread, epoch, access

    def lost(self, at: Positions, batch: Batch) -> Mask:
        """Return the active lanes whose write, just marked, another lane has overwritten."""
        return self.writer[at] != batch.of(batch.thread)

    def _unordered(
        self, at: Positions, writer: Positions, block: Positions, epoch: Any, batch: Batch
    ) -> Mask:
        """Return where no barrier separates an earlier write from the current access."""
        this_epoch = self.write_epoch[at] == epoch
        return (writer // batch.launch.threads != block) | this_epoch if self.blocks else this_epoch

    def _race(
        self, kind: str, mask: Mask, at: Positions, accesses: Any, threads: Positions
    ) -> Iterator[Race]:
        if mask.any():
            first = int(np.argmax(mask))
            position = int(at[first])
            yield Race(kind, mask, first, position, int(accesses[position]), int(threads[position]))


def _mark(marks: Positions, at: Positions, values: Positions) -> None:
    """Set marks[at] = values, and MANY where lanes with different values share an element."""
    marks[at] = values
    shared = marks[at] != values
    if shared.any():
        marks[at[shared]] = MANY


def same(a: Any, b: Any) -> Any:
    """Return where a == b; NaN equals NaN."""
    return (a == b) | (np.isnan(a) & np.isnan(b))
