"""An estimate of modelled cycles on a GPU for thousands of candidates, without simulating them.

It follows simt.cycles, with statements in place of counters: how often a thread runs a statement,
its arithmetic, and its loads by memory. It leaves out what depends on addresses: every access of
global memory counts as coalesced, and none of shared memory has bank conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minitvm import schedule, simt

from .affine import Num
from .kernel import Floats
from .legal_gpu import kernels, threads
from .operations import OPERATIONS
from .statements import Access, Batch, Statement

COALESCED = 4  # sectors of a request


def cycles(batch: Batch) -> Floats:
    """Return the estimated cycles of each candidate."""
    scopes = {s.stage: s.scope for s in batch.statements}
    total = np.zeros(batch.count)
    for kernel in kernels(batch.statements):
        total += _kernel(kernel, scopes)
    return total


def _kernel(kernel: Sequence[Statement], scopes: Mapping[str, str]) -> Floats:
    sizes = threads(kernel)
    blocks = _product([n for tag, n in sizes.items() if tag in schedule.BLOCKS])
    block = _product([n for tag, n in sizes.items() if tag in schedule.THREADS])
    warps = np.ceil(block / schedule.WARP)
    issue_cycles, wait_cycles = np.zeros(1), np.zeros(1)
    requests = {"global": np.zeros(1), "shared": np.zeros(1)}
    for s in kernel:
        times = _product([x.extent for x in s.loops if not schedule.is_hardware(x.thread)])
        wide = _product([x.extent for x in s.loops if x.kind == "vectorize"])
        issue_cycles = issue_cycles + times * _arithmetic(s)
        for a in s.accesses:
            scope = _scope(a, scopes)
            if scope in requests:
                count = times / wide * (a.read + a.write)
                requests[scope] = requests[scope] + count
                issue_cycles = issue_cycles + count
                wait_cycles = (
                    wait_cycles + times / wide * a.read * simt.LATENCIES[scope] / simt.AHEAD
                )
        if s.scope == "shared":
            outer_loops = s.loops[: s.allocated_in]
            fill_count = _product(
                [x.extent for x in outer_loops if not schedule.is_hardware(x.thread)]
            )
            wait_cycles = wait_cycles + 2 * simt.BARRIER_CYCLES * fill_count
    resident = np.ceil(blocks / simt.MULTIPROCESSORS)
    resident = np.minimum(resident, np.maximum(1, simt.MAX_WARPS // warps))
    parts = (
        resident * warps * issue_cycles / 4,
        resident * warps * requests["shared"],
        resident * warps * requests["global"] * COALESCED / simt.SECTORS,
        issue_cycles * simt.DEPENDENT + wait_cycles,
    )
    rounds = np.ceil(blocks / (simt.MULTIPROCESSORS * resident))
    return simt.LAUNCH + rounds * np.maximum.reduce(np.broadcast_arrays(*parts))


def _product(extents: Sequence[Num]) -> Floats:
    """Return the product of some extents for each candidate, or once if it is the same for all."""
    product = np.ones(1)
    for n in extents:
        product = product * n
    return product


def _scope(a: Access, scopes: Mapping[str, str]) -> str:
    """Return the memory of an access; arguments are in global memory."""
    return schedule.scope_kind(scopes.get(a.buffer, "global"))


def _arithmetic(s: Statement) -> int:
    """Return the instructions of one execution."""
    calls = dict(zip(OPERATIONS, s.operations, strict=True))["math"]
    return sum(s.operations) + (simt.MATH - 1) * calls
