"""Run a lowered program on the simulated GPU, one kernel after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import tir

from .memory import Memory
from .report import KernelReport, Report, Watch
from .tensor_kernel import TensorKernel
from .threads import Launch, launch_of, roots


def run(
    f: tir.PrimFunc,
    args: Sequence[Any],
    *,
    races: bool = True,
    counters: bool = True,
    launch: Launch | None = None,
    watch: Watch | None = None,
) -> Report:
    """Run `f` on C-contiguous arrays and ints, one per parameter, writing outputs in place.

    Each statement of the program's root is a kernel; all its threads have ended when the next one
    starts. The program must be flat, with its barriers and shuffles in place.
    races      look for races between threads
    counters   count what each access of global and shared memory costs
    launch     how many blocks and threads to launch, by default what the loops say
    watch      is called with each access of global and shared memory in turn, if they are counted
    Faults are in the report. After one that stops a kernel, the later kernels do not run.
    """
    values = tir.sizes_of(f, tuple(args))
    arrays = zip((*f.params, *f.packed), args, strict=True)
    memories = {p: _argument(p, a) for p, a in arrays if isinstance(p, tir.Buffer)}
    stored = {s.buffer for s in tir.every(f.body) if isinstance(s, tir.Store)}
    stored |= {e.first.buffer for e in tir.walk(f.body) if tir.is_written(e)}
    printer, reports = f.printer(), list[KernelReport]()
    with np.errstate(all="ignore"):
        for number, root in enumerate(roots(f.body)):
            if isinstance(root, tir.Allocate) and root.buffer.scope == "global":
                size = int(tir.index_value(tir.elements(root.buffer), values))
                memories[root.buffer] = _temporary(root.buffer, size)
                continue
            name = f.name if number == 0 else f"{f.name}_{number}"
            for buffer, memory in memories.items():  # the end of a kernel orders all accesses
                memory.watch(races and buffer in stored)
            grid = launch or launch_of(root, values)
            kernel = TensorKernel(
                name, root, memories, grid, printer, races=races, counters=counters, watch=watch
            )
            reports.append(kernel.run(values))
            if kernel.stopped:
                break
    return Report(tuple(reports))


def _argument(buffer: tir.Buffer, array: Any) -> Memory:
    memory = Memory(buffer, array.size)
    memory.data = array.reshape(-1)
    return memory


def _temporary(buffer: tir.Buffer, size: int) -> Memory:
    """Return global memory that no thread has written yet."""
    memory = Memory(buffer, size)
    memory.poison((size,))
    return memory
