"""What the accesses of a warp cost: sectors of global memory, passes over the banks of shared.

A warp's access of global memory moves whole sectors of 32 bytes. Shared memory has 32 banks of 4
bytes; an access takes one pass (wavefront) for each different word that lanes want from one bank.
An access of 16 bytes a lane is served a quarter of a warp at a time.

Source: NVIDIA, CUDA C++ Best Practices Guide, sections on coalesced access and shared memory. The
counts are a model: they were not compared with a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import schedule

from .threads import Batch

Numbers: TypeAlias = npt.NDArray[np.int64]
SECTOR = 32  # bytes
WARP = schedule.WARP
BANKS, WORD = 32, 4  # the banks of shared memory, and the bytes of a word
GAP = -1  # a lane that takes no part


class Cost(NamedTuple):
    """The requests of some warps, and what they move; see AccessCounts."""

    requests: int
    sectors: int = 0
    needed: int = 0
    wavefronts: int = 0


def cost(space: str, index: Any, batch: Batch, element: int, width: int) -> Cost:
    """Return what an access of the active lanes costs.

    index     the element of each active lane, or one number for all
    element   the bytes of an element; `width` adjacent ones are accessed at once
    """
    warps = _warps(index, batch)
    if space == "global":
        return _global(_widened(warps, width), len(warps), element)
    lanes = min(WARP, BANKS * WORD // (width * element))  # served at a time
    return _shared(_widened(warps, width).reshape(-1, lanes * width), len(warps), element)


def _warps(index: Any, batch: Batch) -> Numbers:
    """Return the element of each lane as [warps, 32], without warps that take no part."""
    full = batch.active is None and batch.launch.threads % WARP == 0
    if full and np.ndim(index):
        return index.reshape(-1, WARP)
    warps = np.full(batch.blocks * batch.launch.warps * WARP, GAP)
    warps[batch.of(batch.slot)] = index
    warps = warps.reshape(-1, WARP)
    return warps if full else warps[(warps >= 0).any(axis=1)]


def _widened(warps: Numbers, width: int) -> Numbers:
    """Add the elements after each one, up to `width`: [warps, 32] -> [warps, 32 * width]."""
    if width == 1:
        return warps
    elements = np.where(warps[:, :, None] < 0, GAP, warps[:, :, None] + np.arange(width))
    return elements.reshape(len(warps), -1)


def _global(elements: Numbers, requests: int, element: int) -> Cost:
    sectors = _different(np.where(elements < 0, GAP, elements * element // SECTOR))[1]
    distinct = _different(elements)[1]
    return Cost(requests, int(sectors.sum()), int(distinct.sum()) * element)


def _shared(elements: Numbers, requests: int, element: int) -> Cost:
    words, first = _different(np.where(elements < 0, GAP, elements * element // WORD))
    row = np.broadcast_to(np.arange(len(words))[:, None], words.shape)
    in_bank = np.bincount((row * BANKS + words % BANKS)[first], minlength=len(words) * BANKS)
    return Cost(requests, wavefronts=int(in_bank.reshape(-1, BANKS).max(axis=1).sum()))


def _different(numbers: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the sorted rows of `numbers`, and where each number >= 0 occurs first in its row."""
    ordered = np.sort(numbers, axis=1)
    first = np.ones(ordered.shape, np.bool_)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return ordered, first & (ordered >= 0)
