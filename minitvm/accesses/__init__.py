"""Record which elements a scheduled program reads and writes, and in which order.

    trace = accesses.record(s, [A, B, C])
    print(cachesim.simulate(cachesim.Cache.l1(), trace))

All loops of the recorded program run serially, including parallel and vectorized loops. Every
buffer is in memory, including those that compiled code would keep in registers.
"""

# pyright: reportUnusedImport=false

from .measure import Footprint, Intensity, arithmetic_intensity, footprints
from .record import LIMIT, record
from .trace import AccessTrace, Iterations, Placed
