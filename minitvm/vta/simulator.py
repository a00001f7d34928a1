"""The profiler of VTA's simulator: counters summed over all calls since clear_stats().

    simulator.clear_stats()
    f(a, b, c)
    simulator.stats()["wgt_load_nbytes"]

f.run().counters returns the counters of one call of a function f, and needs no arrays.
"""

from __future__ import annotations

from dataclasses import asdict

from minitvm import runtime


def stats() -> dict[str, int]:
    """Return the counters summed over all calls since clear_stats(), under VTA's names."""
    return asdict(runtime.profiled())


def clear_stats() -> None:
    """Set the counters that stats() returns to 0."""
    runtime.reset_profile()
