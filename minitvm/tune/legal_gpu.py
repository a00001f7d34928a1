"""Rules that exclude rows for a GPU: rows that it cannot launch, or that leave it idle.

A row is left out if one of its kernels

    has more threads in a block than a GPU can launch, or less than a warp
    has more than MAX_VIRTUAL virtual threads, whose statements are repeated in the code
    needs more shared memory than a block can have, or more registers for its arrays than a thread
    runs its statements so often in each thread that the simulated GPU would refuse it

A space keeps rows with less than a warp if it has no others, as for tiny shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from minitvm import schedule, simt
from minitvm.base import Target

from .affine import Num
from .space import Mask
from .statements import Batch, Loop, Statement

MAX_ARRAYS = 4 * 224  # bytes of the arrays of a thread: its 255 registers without addresses
MAX_VIRTUAL = 16
MAX_STEPS = 1 << 14  # statements that all threads of a batch run: about a second to simulate


def launchable(batch: Batch, target: Target) -> Mask:
    """Return which candidates of a batch a GPU can launch, and keeps busy."""
    legal = np.ones(batch.count, np.bool_)
    steps: Num = 0
    for kernel in kernels(batch.statements):
        sizes = threads(kernel)
        block = math.prod(n for tag, n in sizes.items() if tag in schedule.THREADS)
        legal &= np.asarray(block <= simt.MAX_THREADS) & np.asarray(block >= schedule.WARP)
        for tag, most in simt.MAX_ALONG.items():
            legal &= np.asarray(sizes.get(tag, 1) <= most)
        shared: Num = 0
        arrays: Num = 0
        for s in kernel:
            virtual = math.prod(x.extent for x in s.loops if _is_virtual(x))
            legal &= np.asarray(virtual <= MAX_VIRTUAL)
            if s.scope == "shared":
                shared = shared + s.allocated * s.bytes
            if s.scope == "local":
                arrays = arrays + s.allocated * s.bytes * virtual
            steps = steps + math.prod(
                x.extent for x in s.loops if not schedule.is_hardware(x.thread)
            )
        legal &= np.asarray(shared <= simt.MAX_SHARED) & np.asarray(arrays <= MAX_ARRAYS)
    return legal & np.asarray(steps <= MAX_STEPS) if target.sim else legal


def kernels(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Group statements by kernel: those of one kernel share their outermost loop."""
    groups = dict[tuple[int, ...], list[Statement]]()
    for s in statements:
        groups.setdefault(s.loops[0].digits if s.loops else (), []).append(s)
    return [*groups.values()]


def threads(kernel: Sequence[Statement]) -> Mapping[str, Num]:
    """Return how many blocks or threads a kernel has along each hardware index."""
    return {x.thread: x.extent for s in kernel for x in s.loops if schedule.is_hardware(x.thread)}


def _is_virtual(loop: Loop) -> bool:
    return bool(loop.thread) and schedule.is_virtual(loop.thread)
