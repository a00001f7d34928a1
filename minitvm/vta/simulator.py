"""The profiler of VTA's simulator: counters summed over all calls since clear_stats().

    simulator.clear_stats()
    f(a, b, c)
    simulator.stats()["wgt_load_nbytes"]

f.run().counters holds the counters of one call of a function, and needs no arrays.
"""

from __future__ import annotations

from dataclasses import asdict

from minitvm import runtime


def stats() -> dict[str, int]:
    """Return the sums of all calls since clear_stats(), by the names of VTA's profiler."""
    return asdict(runtime.profiled())


def clear_stats() -> None:
    """Set all sums to 0."""
    runtime.reset_profile()
