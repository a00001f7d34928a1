"""Modelled cycles of kernels: each part of the model by hand, and what a schedule should gain."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm as tvm
from minitvm import simt, te
from minitvm.simt.cycles import LAUNCH

N = 256


def report_of(s: te.Schedule, *tensors: te.Tensor) -> simt.Report:
    f = tvm.build(s, list(tensors), target="cuda -sim")
    return f.check(*(np.ones([int(n) for n in t.shape], "float32") for t in tensors))


def sums(columns: int, *, transposed: bool = False) -> simt.Cycles:
    """One thread for each of N sums of `columns` numbers, in blocks of 64 threads."""
    shape = (columns, N) if transposed else (N, columns)
    A, k = te.placeholder(shape, name="A"), te.reduce_axis((0, columns), "k")
    B = te.compute((N,), lambda i: te.sum(A[k, i] if transposed else A[i, k], k), name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 64)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    (kernel,) = report_of(s, A, B).kernels
    return simt.kernel_cycles(kernel)


def test_the_parts_of_a_round_by_hand() -> None:
    """A block has two warps; each adds 8 numbers, without unrolling or barriers.

    For each number a warp loads from A and B, stores to B and adds: 4 instructions, besides the
    store of 0. The loop is short enough to be unrolled. A block is the only one of its
    multiprocessor, and fills two of four partitions.
    """
    c = sums(8, transposed=True)
    instructions = 8 * 4 + 1
    assert c.parts["issue"] == instructions  # of one warp: each is alone in its partition
    assert c.parts["shared"] == 0
    assert c.parts["global"] == 2 * (8 * 3 + 1) * 4 / 2  # 4 sectors a request, 2 a cycle
    assert c.parts["latency"] == 2 * instructions + 16 * 480 / 8
    assert c.total == LAUNCH + c.parts["latency"]
    assert (c.rounds, c.resident, c.limit) == (1, 16, "latency")


def test_a_long_loop_costs_its_counter() -> None:
    short, long = (sums(n, transposed=True).parts["issue"] for n in (256, 257))
    assert short == 256 * 4 + 1
    assert long == 257 * (4 + 2) + 1


def test_uncoalesced_loads_take_longer() -> None:
    rows, columns = sums(64), sums(64, transposed=True)
    assert rows.parts["global"] > 3 * columns.parts["global"]
    assert rows.parts["issue"] == columns.parts["issue"]


def test_blocks_beyond_those_that_fit_take_another_round() -> None:
    launch = simt.Launch((132 * 16 + 1, 1, 1), (64, 1, 1))
    one = simt.AccessCounts("A[0]", "global", requests=2 * launch.blocks, runs=1)
    kernel = simt.KernelReport("k", launch, accesses=[one])
    assert simt.kernel_cycles(kernel).rounds == 2
    assert simt.kernel_cycles(kernel).resident == 16


@pytest.mark.parametrize(("local", "resident"), [(0, 16), (4 * 96, 4)])
def test_arrays_of_threads_are_registers(local: int, resident: int) -> None:
    """64 threads with 128 registers each: a partition holds 4 warps, a multiprocessor 16;
    a block of two warps takes the room of four."""
    kernel = simt.KernelReport("k", simt.Launch((1, 1, 1), (64, 1, 1)), local=local)
    assert simt.kernel_cycles(kernel).resident == resident


def test_arrays_beyond_the_registers_cost_instructions() -> None:
    def parts(local: int) -> dict[str, float]:
        launch = simt.Launch((1, 1, 1), (128, 1, 1))
        kernel = simt.KernelReport("k", launch, instructions=4000, local=local)
        return simt.kernel_cycles(kernel).parts

    assert parts(0) == {"issue": 1000, "shared": 0, "global": 0, "latency": 2000}
    spilled = parts(4 * (510 - 32))  # half of 510 registers
    assert spilled == {"issue": 2000, "shared": 2000, "global": 0, "latency": 4000}


@pytest.mark.parametrize("n", [32, 64])
def test_sums_in_registers_are_modelled_as_faster(n: int) -> None:
    """A product with one thread for each element, which adds in a register or in memory."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda y, x: te.sum(A[y, k] * B[k, x], k), name="C")

    def of(cached: bool) -> float:
        s = te.create_schedule(C.op)
        local = s.cache_write(C, "local") if cached else None
        y, x = s[C].op.axis
        s[C].bind(y, te.thread_axis("blockIdx.x"))
        s[C].bind(x, te.thread_axis("threadIdx.x"))
        if local is not None:
            s[local].compute_at(s[C], x)
        return simt.cycles(report_of(s, A, B, C))

    assert of(cached=True) < of(cached=False)
