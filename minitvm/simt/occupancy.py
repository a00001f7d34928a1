"""What a GPU can launch, and how many blocks of a kernel a multiprocessor holds at a time.

The numbers are those of sm_90 (H100, H200). Source: NVIDIA's Hopper Tuning Guide, section
Occupancy, and the table of technical specifications by compute capability in the CUDA C++
Programming Guide. The units of allocation are those of cuda_occupancy.h, which NVIDIA's occupancy
calculator uses.
"""

from __future__ import annotations

from minitvm import schedule

MAX_THREADS = 1024  # of a block
MAX_ALONG = {"threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64}
MAX_SHARED = 48 << 10  # bytes of a block that every GPU has
MAX_WARPS, MAX_BLOCKS = 64, 32  # of a multiprocessor
PARTITIONS = 4  # a warp lives in one of them; each has a quarter of the registers
PARTITION_REGISTERS = 1 << 14
REGISTER_UNIT = 256  # registers are allocated to a warp in such portions
SHARED_BYTES = 228 << 10
RESERVED_SHARED = 1 << 10  # bytes of each block that CUDA itself uses
SHARED_UNIT = 128


def resident_blocks(threads: int, registers: int, shared: int) -> int:
    """Return how many blocks a multiprocessor can hold at a time; see block_limits."""
    return min(block_limits(threads, registers, shared).values())


def block_limits(threads: int, registers: int, shared: int) -> dict[str, int]:
    """Return how many blocks each resource of a multiprocessor allows.

    threads     of a block
    registers   of a thread
    shared      bytes of shared memory of a block
    """
    warps = warps_of(threads)
    of_a_warp = _up(max(1, registers) * schedule.WARP, REGISTER_UNIT)
    warps_at_a_time = PARTITION_REGISTERS // of_a_warp * PARTITIONS
    return {
        "registers": warps_at_a_time // _up(warps, PARTITIONS),
        "shared memory": SHARED_BYTES // _up(shared + RESERVED_SHARED, SHARED_UNIT),
        "warps": MAX_WARPS // warps,
        "blocks": MAX_BLOCKS,
    }


def warps_of(threads: int) -> int:
    """Return how many warps `threads` threads of a block fill; the last one may be incomplete."""
    return -(-threads // schedule.WARP)


def _up(n: int, unit: int) -> int:
    """Return `n`, rounded up to a multiple of `unit`."""
    return -(-n // unit) * unit
