"""Modelled cycles of a kernel, from the counters of a simulated launch.

A multiprocessor holds some blocks at a time, as many as occupancy.py says; its `rounds` of blocks
follow one another. A round takes as long as the slowest of these, and then `start`:

    issue    its instructions: each of four partitions issues one of a warp in a cycle
    shared   its wavefronts of shared memory, one a cycle
    global   its sectors of global memory, two a cycle
    latency  one warp on its own: DEPENDENT cycles an instruction, BARRIER_CYCLES a barrier, and the
             waits for loads, of which a compiler starts AHEAD together

All sectors of the launch also pass the second-level cache, DEVICE a cycle. A launch costs LAUNCH.

The machine is an H200 with 132 multiprocessors. The model ranks schedules; it is not calibrated,
because no GPU has run them. It leaves out hits in the first-level cache, the bandwidth of the
memory behind the second level, and registers apart from arrays: REGISTERS stands for them.

Sources: for the rates, the table of arithmetic throughput in the CUDA C++ Programming Guide (128
additions a cycle and multiprocessor) and the section on shared memory (32 banks of 4 bytes); rates
and latencies beyond these are rounded from microbenchmarks of earlier GPUs (Jia et al. 2018,
"Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking").
"""

from __future__ import annotations

from dataclasses import dataclass

from .occupancy import PARTITIONS, resident_blocks
from .report import KernelReport, Report

MODEL = "sm_90"  # the machine that is modelled
VERSION = 1  # of the model: cycles of different versions cannot be compared
MULTIPROCESSORS = 132
SECTORS = 2.0  # of global memory, a cycle and multiprocessor
DEVICE = 160.0  # sectors a cycle
DEPENDENT = 2.0  # cycles: a latency of 4, with two independent instructions
BARRIER_CYCLES = 30.0
LATENCIES = {"global": 480.0, "shared": 24.0}  # cycles until a loaded value is there
AHEAD = 8  # loads of a warp that wait together
LAUNCH = 2000.0
REGISTERS = 32  # of a thread, apart from its arrays
MAX_REGISTERS = 255  # more than these live in memory


@dataclass(frozen=True, slots=True)
class Cycles:
    """The modelled cycles of one kernel, and what they are made of.

    total      of the launch
    parts      the cycles of a round: "issue", "shared", "global", "latency"
    device     the cycles in which all sectors pass the second-level cache
    rounds     how many rounds of blocks a multiprocessor runs
    resident   how many blocks it could hold at a time
    """

    name: str
    total: float
    parts: dict[str, float]
    device: float
    rounds: int
    resident: int

    @property
    def limit(self) -> str:
        """What limits the kernel: the slowest part of a round, or "device"."""
        slowest = max(self.parts, key=lambda name: self.parts[name])
        return "device" if self.device > self.rounds * self.parts[slowest] else slowest


def cycles(report: Report) -> float:
    """Return the modelled cycles of a program: the sum over its kernels, as a whole number."""
    return float(round(sum(kernel_cycles(k).total for k in report.kernels)))


def kernel_cycles(kernel: KernelReport) -> Cycles:
    """Return the modelled cycles of one kernel; the report must have its counters."""
    launch = kernel.launch
    blocks, warps = launch.blocks, launch.warps
    registers = REGISTERS + -(-kernel.local // 4)
    resident = resident_blocks(launch.threads, min(registers, MAX_REGISTERS), kernel.shared)
    concurrent = max(1, min(resident, -(-blocks // MULTIPROCESSORS)))
    requests = sum(a.requests for a in kernel.accesses)
    sectors = sum(a.sectors for a in kernel.accesses)
    wavefronts = sum(a.wavefronts for a in kernel.accesses)
    in_memory = max(0.0, 1 - MAX_REGISTERS / registers)  # the share of arrays that is spilled
    issue_cycles = (kernel.instructions + requests) * (1 + 2 * in_memory)
    wavefronts += int(kernel.instructions * in_memory)
    uneven = -(-concurrent * warps // PARTITIONS) * PARTITIONS / (concurrent * warps)
    parts = {
        "issue": concurrent * issue_cycles / blocks / PARTITIONS * uneven,
        "shared": concurrent * wavefronts / blocks,
        "global": concurrent * sectors / blocks / SECTORS,
        "latency": _latency(kernel, issue_cycles / blocks / warps),
    }
    rounds = -(-blocks // (MULTIPROCESSORS * concurrent))
    device = sectors / DEVICE
    total = LAUNCH + max(rounds * max(parts.values()), device)
    return Cycles(kernel.name, total, parts, device, rounds, resident)


def _latency(kernel: KernelReport, instructions: float) -> float:
    """Return how many cycles one warp takes on its own; it issues `instructions`."""
    loads = sum(a.runs * LATENCIES.get(a.space, 0.0) for a in kernel.accesses if not a.stores)
    per_iteration = loads / AHEAD + kernel.barriers * BARRIER_CYCLES
    return instructions * DEPENDENT + per_iteration / kernel.launch.batches
