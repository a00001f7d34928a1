"""A simulated GPU: it runs all threads of a kernel on numpy, finds races and counts traffic."""

# pyright: reportUnusedImport=false

from .cycles import (
    AHEAD,
    BARRIER_CYCLES,
    DEPENDENT,
    LATENCIES,
    LAUNCH,
    MODEL,
    MULTIPROCESSORS,
    SECTORS,
    VERSION,
    Cycles,
    cycles,
    kernel_cycles,
)
from .instructions import MATH
from .kernel import ASYNC, ASYNC_WAIT, BARRIER, WARP_BARRIER
from .occupancy import (
    MAX_ALONG,
    MAX_SHARED,
    MAX_THREADS,
    MAX_WARPS,
    block_limits,
    resident_blocks,
    warps_of,
)
from .report import (
    RACES,
    AccessCounts,
    Executed,
    Fault,
    KernelError,
    KernelReport,
    Report,
    Watch,
    raise_faults,
)
from .run import run
from .tensor_core import (
    FRAGMENTS,
    IN_MEMORY,
    INSTRUCTIONS,
    LOAD_A,
    LOAD_B,
    SCOPE,
    STORE,
    SYNC,
    ZERO,
    local_elements,
)
from .threads import Batch, Launch, launch_of, roots
from .traffic import BANKS, SECTOR, WORD
from .values import SHUFFLES
