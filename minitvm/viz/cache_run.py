"""A recorded run replayed in a simulated cache: totals, contents, and a window of accesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from minitvm import accesses, cachesim
from minitvm.base import ArgumentError, check_kind

from .chart import short

Array = np.ndarray[Any, np.dtype[Any]]
LOOK_BACK = 1 << 14  # the accesses in which contents() first searches for cached lines
PAGE = 4096  # bytes: a recorded run places each tensor at a multiple of this


@dataclass(frozen=True, slots=True)
class CachedLine:
    """A cache line that occupies one way of a set from access `first` to access `last` - 1.

    line             the number of the line in memory: address // bytes of a line
    buffer, number   its buffer, and its index among the lines of the buffer
    """

    set: int
    way: int
    line: int
    first: int
    last: int
    buffer: int
    number: int

    @property
    def key(self) -> str:
        """The key of the line in the picture of its buffer."""
        return f"{self.buffer}/{self.number}"


@dataclass(frozen=True, slots=True, eq=False)
class CacheRun:
    """A recorded run of n accesses, and its replay in a cache.

    lines       int64[n]: the line number of each access: address // bytes of a line
    distances   the histogram of reuse distances
    footprints  the lines that the program and one iteration of each loop access
    """

    trace: accesses.AccessTrace
    cache: cachesim.Cache
    replay: cachesim.Replay
    lines: Array
    distances: cachesim.Histogram
    footprints: tuple[accesses.Footprint, ...]

    @property
    def ways(self) -> int:
        """The number of lines per set; all lines of the cache if it is fully associative."""
        return self.cache.lines // self.cache.sets

    def own(self, line: int) -> tuple[int, int]:
        """Return, for a line of memory, (number of the buffer, index of the line in the buffer)."""
        at, buffers = line * self.cache.line, self.trace.buffers
        n = max((k for k, b in enumerate(buffers) if b.base <= at), key=lambda k: buffers[k].base)
        return n, line - buffers[n].base // self.cache.line


def check_cache(cache: Any) -> cachesim.Cache:
    """Return `cache` if it is a Cache; otherwise raise ArgumentError."""
    return check_kind("cache", cache, cachesim.Cache, fix="cachesim.Cache(1024, 64, 2)")


def cache_run(trace: accesses.AccessTrace, cache: cachesim.Cache) -> CacheRun:
    """Replay a recorded run in a cache that starts empty.

    Raises ArgumentError if the run has no accesses, or if a line of the cache is smaller than an
    element or larger than a page of 4096 bytes.
    """
    if not len(trace):
        raise ArgumentError("CacheLens", "the program accesses no memory", "a program with tensors")
    widest = max(b.itemsize for b in trace.buffers)
    if not widest <= cache.line <= PAGE:
        small = cache.line < widest
        why = f"smaller than an element of {widest}" if small else f"larger than a page of {PAGE}"
        raise ArgumentError(f"Cache(line={cache.line})", f"{why} bytes", "line=64")
    return CacheRun(
        trace,
        cache,
        cachesim.simulate(cache, trace),
        trace.address // cache.line,
        cachesim.histogram(cachesim.reuse_distances(trace, cache.line)),
        accesses.footprints(trace, cache.line),
    )


def totals(run: CacheRun) -> dict[str, cachesim.Counts]:
    """Return the hits, misses and evictions of each buffer of the program, by its name.

    The evictions of a buffer are its fetched lines minus its lines in the cache at the end.
    """
    trace, outcome = run.trace, run.replay.outcome
    n = len(trace.buffers)
    kinds = (cachesim.HIT, cachesim.COMPULSORY, cachesim.CAPACITY, cachesim.CONFLICT)
    counts = [np.bincount(trace.buffer[outcome == kind], minlength=n).tolist() for kind in kinds]
    left = [0] * n
    for row in contents(run, len(trace)).values():
        for line in row:
            left[run.own(line)[0]] += 1
    rows = zip(trace.buffers, *counts, left, strict=True)
    return {
        b.name: cachesim.Counts(hits, new, large, clash, new + large + clash - resident)
        for b, hits, new, large, clash, resident in rows
    }


def contents(run: CacheRun, upto: int) -> dict[int, list[int]]:
    """Map each set to its lines after `upto` accesses; the first line is evicted next."""
    look_back = LOOK_BACK
    while True:  # look back until the cache is full
        begin = max(0, upto - look_back)
        lines = run.lines[begin:upto]
        if run.cache.policy == "fifo":
            lines = lines[run.replay.outcome[begin:upto] != cachesim.HIT]
        names, age = np.unique(lines[::-1], return_index=True)
        sets: dict[int, list[int]] = {}
        for line in cast("list[int]", names[np.argsort(age)].tolist()):  # the latest first
            cached = sets.setdefault(line % run.cache.sets, [])
            if len(cached) < run.ways:
                cached.insert(0, line)
        if not begin or sum(map(len, sets.values())) == run.cache.lines:
            return sets
        look_back *= 8


def cached_lines(run: CacheRun, start: int, stop: int) -> tuple[CachedLine, ...]:
    """Return the lines in the cache during accesses `start` to `stop` - 1, and their places.

    Lines cached before `start` get ways in order of age; no hit depends on the way of a line.
    """
    past: list[CachedLine] = []
    queues = contents(run, start)  # set -> its lines; the first is evicted next
    ways = {x: w for row in queues.values() for w, x in enumerate(row)}
    start_of = dict.fromkeys(ways, start)

    def leave(line: int, now: int) -> int:
        way = ways.pop(line)
        span = start_of.pop(line), now
        past.append(CachedLine(line % run.cache.sets, way, line, *span, *run.own(line)))
        return way

    for n in range(start, stop):
        line = int(run.lines[n])
        queue = queues.setdefault(line % run.cache.sets, [])
        if run.replay.outcome[n] != cachesim.HIT:
            full = len(queue) == run.ways
            way = leave(queue.pop(0), n) if full else len(queue)
            ways[line], start_of[line] = way, n
            queue.append(line)
        elif run.cache.policy == "lru":
            queue.remove(line)
            queue.append(line)
    for line in list(ways):
        leave(line, stop)
    return tuple(sorted(past, key=lambda t: (t.first, t.set, t.way)))


def labels(trace: accesses.AccessTrace) -> tuple[str, ...]:
    """Label buffers with their names if none is longer than two letters, else a, b, c, ..."""
    names = [b.name for b in trace.buffers]
    if all(len(name) <= 2 for name in names):
        return tuple(names)
    return tuple(chr(ord("a") + n) if n < 26 else f"z{n}" for n in range(len(names)))


def titles(trace: accesses.AccessTrace) -> tuple[str, ...]:
    """Return each buffer's name, after its label if the two differ, such as "c T_conv2d"."""
    pairs = zip(labels(trace), trace.buffers, strict=True)
    return tuple(b.name if label == b.name else f"{label} {b.name}" for label, b in pairs)


def size_text(n: int) -> str:
    """Return a number of bytes with its unit: 2048 -> 2 KiB, 96 -> 96 bytes"""
    for unit, text in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= unit and n % unit == 0:
            return f"{n // unit} {text}"
    return f"{n} bytes"


def cache_text(cache: cachesim.Cache) -> str:
    """Describe a cache, such as "2 KiB: 8 sets × 4 ways, lines of 64 bytes, lru"."""
    ways = cache.lines // cache.sets
    shape = f"{cache.sets} sets × {ways} ways" if cache.ways else f"fully associative, {ways} ways"
    return f"{size_text(cache.bytes)}: {shape}, lines of {cache.line} bytes, {cache.policy}"


# --- tables of text ------------------------------------------------------------------------------

USED = "cache lines that one iteration uses"


def totals_table(run: CacheRun) -> list[str]:
    """Return the totals as lines of text: one for each of the first six buffers, one for all."""
    rows = list(zip(titles(run.trace), totals(run).values(), strict=True))[:6]
    head = f"{'':9}{'accesses':>10}{'hits':>10}{'misses':>9}{'ratio':>8}{'evicted':>9}"
    return [head, *(_total_row(name, t) for name, t in (*rows, ("all", run.replay)))]


def _total_row(name: str, t: cachesim.Counts) -> str:
    counts = f"{t.accesses:>10}{t.hits:>10}{t.misses:>9}"
    return f"{short(name, 8):9}{counts}{t.miss_ratio:>8.1%}{t.evictions:>9}"


def footprint_table(run: CacheRun, most: int = 9) -> list[str]:
    """Return a table of the cache lines that an iteration accesses, for at most `most` loops."""
    buffer_names = [b.name for b in run.trace.buffers][:3]
    more = len(run.trace.buffers) > len(buffer_names)
    heads = [*labels(run.trace)[:3], *(["others"] if more else [])]
    head = "".join(f"{short(name, 6):>7}" for name in heads)
    rows = [USED, f"{'loop':18}{'iterations':>10}{head}{'all':>7}  fit?"]
    for f in run.footprints[:most]:
        name = "  " * len(f.around) + (f.loop or "the program")
        line_counts = [f.lines.get(b, 0) for b in buffer_names]
        total = sum(f.lines.values())
        line_counts += [total - sum(line_counts), total] if more else [total]
        counts = "".join(
            f"{lines:>7.3g}" if lines < 10 else f"{lines:>7.0f}" for lines in line_counts
        )
        fits = "yes" if total <= run.cache.lines else "no"
        rows.append(f"{short(name, 17):18}{f.iterations:>10}{counts}  {fits}")
    if len(run.footprints) > most:
        rows.append(f"… {len(run.footprints) - most} more loops")
    return rows
