"""A kernel on the simulated GPU: what a block does, step by step, and what an access costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from minitvm import runtime, schedule, simt, tir
from minitvm.base import ArgumentError

MAX_STEPS = 200  # of a block, that can be played


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """An access that threads of a block execute together.

    access   its number in the report of the kernel
    lanes    thread of the block -> the first of the `width` elements that it accesses
    phase    how many barriers the block has passed
    """

    access: int
    node: tir.Load | tir.Store
    lanes: dict[int, int]
    width: int
    phase: int

    @property
    def write(self) -> bool:
        return isinstance(self.node, tir.Store)

    @property
    def buffer(self) -> tir.Buffer:
        return self.node.buffer

    def who(self, element: int) -> list[int]:
        """Return the threads that access an element."""
        return [t for t, first in self.lanes.items() if first <= element < first + self.width]


@dataclass(frozen=True, slots=True)
class Clash:
    """Two accesses of one element that race: the steps and the threads of both."""

    first: int
    second: int
    threads: tuple[int, int]
    element: int


@dataclass(frozen=True, slots=True, eq=False)
class GridRun:
    """A run of one kernel.

    kernel   its number, of `kernels`
    report   what the simulator has counted and found
    block    the block that is shown, and `steps` its first accesses of `total`
    touched  for each access: block -> the elements that its threads access in the whole run
    clash    the first race, if it is within the block
    """

    kernel: int
    kernels: int
    report: simt.KernelReport
    block: int
    steps: tuple[Step, ...]
    total: int
    touched: tuple[dict[int, frozenset[int]], ...]
    clash: Clash | None


def barriers_of(func: tir.PrimFunc) -> int:
    """Return how many barriers a program has, each counted once however often it runs."""
    return sum(_is_barrier(s) for s in tir.walk(func.body))


def _is_barrier(s: Any) -> bool:
    call = s.value if isinstance(s, tir.Evaluate) else None
    return isinstance(call, tir.Call) and call.name == simt.BARRIER


def without(func: tir.PrimFunc, number: int) -> tir.PrimFunc:
    """Return the program without one of its barriers, counted from 1 as they are printed."""
    numbers = count(1)  # by number, since barriers may be one and the same node

    def kept(s: tir.Stmt) -> tir.Stmt:
        return tir.NOTHING if _is_barrier(s) and next(numbers) == number else s

    return replace(func, body=tir.rewrite(func.body, kept))


def default_arrays(func: tir.PrimFunc) -> list[Any]:
    """Return an array for each parameter, with as many different numbers as its type has."""
    arrays = list[Any]()
    for p in func.params:
        sizes = p.shape if isinstance(p, tir.Buffer) else (func,)
        shape = [n for n in sizes if isinstance(n, int)]
        if not isinstance(p, tir.Buffer) or len(shape) < len(sizes):
            what = f"GridView of {func.name}"
            why = f"the size of {p.name} is not known"
            raise ArgumentError(what, why, "args=[arrays and ints]")
        arrays.append(np.arange(math.prod(shape), dtype=np.int64).astype(p.dtype.numpy))
        arrays[-1].shape = shape
    return arrays


def grid_run(
    f: runtime.GpuFunction, args: Sequence[Any], kernel: int | None, block: int | None
) -> GridRun:
    """Run a function on copies of `args`, and return what one block of one kernel does.

    kernel, block   None for those of the first fault, or else the first ones
    """
    all_accesses: dict[tuple[str, int], dict[int, set[int]]] = {}

    def keep(e: simt.Executed) -> None:
        blocks = e.threads // e.kernel.launch.threads
        of_blocks = all_accesses.setdefault((e.kernel.name, e.number), {})
        for n in np.unique(blocks).tolist():
            of_blocks.setdefault(n, set()).update(np.unique(e.index[blocks == n]).tolist())

    kernels = f.check(*_copies(args), watch=keep).kernels
    if kernel is None or kernel >= len(kernels):
        kernel = next(
            (n for n, k in enumerate(kernels) if any(not x.harmless for x in k.faults)), 0
        )
    report = kernels[kernel]
    races = [x for x in report.faults if x.kind in simt.RACES and x.number >= 0]
    threads = report.launch.threads
    if block is None:
        block = races[0].number // threads if races else 0
    steps, chosen = list[Step](), block

    def follow(e: simt.Executed) -> None:
        if e.kernel.name != report.name:
            return
        in_block = e.threads // threads == chosen
        if in_block.any():
            threads_here = (e.threads[in_block] - chosen * threads).tolist()
            lanes = dict(zip(threads_here, e.index[in_block].tolist(), strict=True))
            steps.append(Step(e.number, e.node, lanes, e.width, int(e.passed[in_block].max())))

    f.check(*_copies(args), watch=follow)
    touched_elements = tuple(
        {n: frozenset(s) for n, s in all_accesses.get((report.name, k), {}).items()}
        for k in range(len(report.accesses))
    )
    clashes = (_clash(report, x, steps, block) for x in races)
    clash = next((c for c in clashes if c and c.second < MAX_STEPS), None)
    shown = tuple(steps[:MAX_STEPS])
    return GridRun(kernel, len(kernels), report, block, shown, len(steps), touched_elements, clash)


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a if isinstance(a, int) else np.array(a) for a in args]


def _clash(
    report: simt.KernelReport, fault: simt.Fault, steps: Sequence[Step], block: int
) -> Clash | None:
    """Find the two steps of a race in a block."""
    thread, earlier = fault.number - block * report.launch.threads, list[tuple[int, int]]()
    for n, step in enumerate(steps):
        if step.buffer is not fault.buffer:
            continue
        threads, text = step.who(fault.element), report.accesses[step.access].access
        if text == fault.access and thread in threads and earlier:
            return Clash(earlier[-1][0], n, (earlier[-1][1], thread), fault.element)
        if text == fault.other and (others := [t for t in threads if t != thread]):
            earlier.append((n, others[0]))
    return None


# --- what a warp's access costs ------------------------------------------------------------------


def warp_lanes(step: Step, warp: int) -> dict[int, int]:
    """Return lane -> element for the lanes of a warp that take part in a step."""
    first = warp * schedule.WARP
    return {t - first: i for t, i in step.lanes.items() if first <= t < first + schedule.WARP}


def sectors_of(step: Step, warp: int) -> dict[int, set[int]]:
    """Return sector -> the elements in it that a warp accesses, for global memory."""
    per_sector, sectors = max(1, simt.SECTOR // step.buffer.dtype.bytes), dict[int, set[int]]()
    for first in warp_lanes(step, warp).values():
        for i in range(first, first + step.width):
            sectors.setdefault(i // per_sector, set()).add(i)
    return dict(sorted(sectors.items()))


def passes_of(step: Step, warp: int) -> list[dict[int, list[int]]]:
    """Return the passes over the banks of shared memory: bank -> the lanes that it serves.

    A bank delivers one word in a pass, to all lanes that want this word.
    """
    size, passes = step.buffer.dtype.bytes, list[dict[int, list[int]]]()
    lanes = warp_lanes(step, warp)
    portion = schedule.WARP // step.width  # lanes that are served together
    for start in range(0, schedule.WARP, portion):
        words: dict[int, list[int]] = {}
        for lane in range(start, start + portion):
            for i in range(lanes.get(lane, 0), lanes.get(lane, 0) + step.width * (lane in lanes)):
                served = words.setdefault(i * size // simt.WORD, [])
                served.extend([lane] * (lane not in served))
        queues: dict[int, list[list[int]]] = {}
        for word, served in sorted(words.items()):
            queues.setdefault(word % simt.BANKS, []).append(served)
        for n in range(max(map(len, queues.values()), default=0)):
            passes.append({bank: q[n] for bank, q in sorted(queues.items()) if n < len(q)})
    return passes
