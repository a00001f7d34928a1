"""Measure the footprints of loops and the arithmetic intensity of a recorded run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from minitvm import cachesim
from minitvm.base import ArgumentError

from .trace import AccessTrace, Array, Iterations


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that one iteration of a loop accesses, on average over all its iterations.

    loop         the name of the loop; "" for the program as a whole, which counts as one iteration
    around       the loops around it, outermost first, as indices into AccessTrace.loops
    iterations   the number of iterations that were recorded
    lines        distinct cache lines per iteration, for each buffer that the loop accesses
    bytes        bytes of distinct elements per iteration, for each buffer that the loop accesses
    """

    loop: str
    around: tuple[int, ...]
    iterations: int
    lines: dict[str, float]
    bytes: dict[str, float]

    def __str__(self) -> str:
        line_counts = ", ".join(f"{name} {n:.6g}" for name, n in self.lines.items())
        return (
            f"{self.loop or 'in all'}: {self.iterations} iterations, lines: {line_counts or 'none'}"
        )


def footprints(trace: AccessTrace, line: int = 64) -> tuple[Footprint, ...]:
    """Return the footprints of the whole program and of one iteration of each loop.

    The loops are in the order of the program's text. line: the bytes of a cache line. Raises
    ArgumentError if an element is larger than a line.
    """
    widest = max((b.itemsize for b in trace.buffers), default=1)
    if isinstance(line, int) and line < widest:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"line={line}", f"shorter than an element of {widest} bytes", "line=64")
    previous = cachesim.previous(trace, line), cachesim.previous(trace, 1)
    everywhere, first = np.ones(len(trace.sites), np.bool_), np.zeros(1, np.int64)
    prints = [_footprint(trace, Iterations("", 0, (), first, first), everywhere, previous)]
    for k, loop in enumerate(trace.loops):
        is_inside = np.array([k in site.loops for site in trace.sites], np.bool_)
        prints.append(_footprint(trace, loop, is_inside, previous))
    return tuple(prints)


def _footprint(
    trace: AccessTrace, loop: Iterations, inside: Array, previous: tuple[Array, Array]
) -> Footprint:
    """Return the footprint of the loop `loop`.

    Lines and elements are counted at their first access in each iteration. inside: for each of
    trace.sites, whether it is in the loop. previous: the results of cachesim.previous for
    lines and for elements.
    """
    begin = np.zeros(len(trace), np.int64)
    starts = loop.starts[loop.starts < len(trace)]
    begin[starts] = starts
    begin = np.maximum.accumulate(begin)
    in_loop = inside[trace.site]
    executions = max(1, len(loop.starts))
    lines, items = (
        np.bincount(trace.buffer[in_loop & (last < begin)], minlength=len(trace.buffers))
        / executions
        for last in previous
    )
    used = cast("list[int]", np.unique(trace.buffer[in_loop]).tolist())
    names = {b: trace.buffers[b] for b in used}
    return Footprint(
        loop.name,
        loop.around,
        len(loop.starts),
        {p.name: float(lines[b]) for b, p in names.items()},
        {p.name: float(items[b]) * p.itemsize for b, p in names.items()},
    )


@dataclass(frozen=True, slots=True)
class Intensity:
    """The arithmetic intensity of a program: operations per byte moved.

    flops          arithmetic operations on data
    bytes_touched  the bytes of all distinct elements accessed; at least these must be moved
    bytes_missed   bytes of the cache lines fetched into the cache
    bytes_moved    bytes_missed, plus the bytes of lines written back or still dirty at the end
    """

    flops: int
    bytes_touched: int
    bytes_missed: int
    bytes_moved: int

    @property
    def ideal(self) -> float:
        """The operations per byte if every accessed element were moved exactly once."""
        return self.flops / max(1, self.bytes_touched)

    @property
    def actual(self) -> float:
        """The operations per byte moved between the cache and the next level of memory."""
        return self.flops / max(1, self.bytes_moved)


def arithmetic_intensity(trace: AccessTrace, cache: cachesim.Cache | None = None) -> Intensity:
    """Return the arithmetic intensity of a recorded run whose accesses go through `cache`.

    The default cache is cachesim.Cache.l1().
    """
    (replay,) = cachesim.simulate([cache or cachesim.Cache.l1()], trace)
    new = cachesim.previous(trace, 1) < 0
    bytes_touched = int(trace.size[new].sum())
    return Intensity(
        trace.flops, bytes_touched, replay.misses * replay.cache.line, replay.bytes_moved
    )
