"""Recorded runs: which elements a scheduled program reads and writes, in which order.

    trace = accesses.record(s, [A, B, C])
    print(cachesim.simulate(cachesim.Cache.l1(), trace))

The program runs as plain serial loops, including parallel and vectorized ones. Every buffer is
memory, even one that compiled code would keep in registers.
"""

# pyright: reportUnusedImport=false

from .measure import Footprint, Intensity, arithmetic_intensity, footprints
from .record import LIMIT, record
from .trace import AccessTrace, Iterations, Placed
