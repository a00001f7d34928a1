"""Replay recorded accesses through one cache or several levels of caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from minitvm.base import ArgumentError

from .cache import Cache
from .kernels import CAPACITY, CONFLICT, HIT, NONE, READ, WRITE, WRITE_BACK, Ints, compiled, replay
from .lines import Given, addresses_of, lookups, numbered, sizes_of, writes_of

OUTCOMES = ("hit", "compulsory", "capacity", "conflict")  # names of the codes 0 .. 3


@dataclass(frozen=True, slots=True)
class Counts:
    """How many look-ups of cache lines hit and missed, by the kind of miss (see Replay.outcome).

    evictions    lines that were evicted to make room for other lines
    """

    hits: int
    compulsory: int
    capacity: int
    conflict: int
    evictions: int

    @property
    def misses(self) -> int:
        """The number of look-ups that missed and fetched a line."""
        return self.compulsory + self.capacity + self.conflict

    @property
    def accesses(self) -> int:
        """The number of look-ups, hits and misses."""
        return self.hits + self.misses

    @property
    def miss_ratio(self) -> float:
        """The share of look-ups that missed; 0 if there were no look-ups."""
        return self.misses / self.accesses if self.accesses else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Replay(Counts):
    """The outcomes of the look-ups in one cache.

    outcome      uint8[n]: HIT, or the kind of miss (Hill and Smith 1989):
                 COMPULSORY   the line is used for the first time
                 CAPACITY     a fully associative LRU cache of the same size misses as well
                 CONFLICT     a fully associative LRU cache hits: too many lines share the set
    at           int64[n]: the position of the access that caused each look-up. An access that
                 crosses the end of a line causes several look-ups, and an access that hits in a
                 level nearer to the processor causes none
    writebacks   dirty lines that were evicted, and write-backs from the level above that miss
    dirty        lines that are dirty at the end and still have to be written back
    """

    cache: Cache
    outcome: Ints
    at: Ints
    writebacks: int
    dirty: int

    @property
    def bytes_moved(self) -> int:
        """The bytes moved between this cache and the next level.

        These are the lines that were fetched or written back, and those still dirty at the end.
        """
        return (self.misses + self.writebacks + self.dirty) * self.cache.line

    def __str__(self) -> str:
        kinds = f"{self.compulsory} compulsory, {self.capacity} capacity, {self.conflict} conflict"
        return (
            f"{self.accesses} accesses, {self.hits} hits, "
            f"{self.misses} misses ({self.miss_ratio:.2%}: {kinds}), "
            f"{self.evictions} evictions, {self.writebacks} write-backs"
        )


class _Stream(NamedTuple):
    """The requests to one cache.

    lines    the line of each request
    kinds    READ, WRITE or WRITE_BACK
    at       the position of the access that caused each request
    """

    lines: Ints
    kinds: Ints
    at: Ints


@overload
def simulate(
    caches: Cache, accesses: Given, writes: Any = None, *, sizes: Any = None
) -> Replay: ...


@overload
def simulate(
    caches: Sequence[Cache], accesses: Given, writes: Any = None, *, sizes: Any = None
) -> tuple[Replay, ...]: ...


def simulate(
    caches: Cache | Sequence[Cache], accesses: Given, writes: Any = None, *, sizes: Any = None
) -> Replay | tuple[Replay, ...]:
    """Replay accesses, in order, through an empty cache, or through several levels of caches.

    caches     a Cache, or a list: the level nearest to the processor first
    accesses   addresses in bytes, or a recorded run, which also has writes and sizes
    writes     which accesses are stores: a bool array, or one bool for all; False by default
    sizes      the bytes of each access, or one number for all; by default the sizes in the run,
               or 1. An access that crosses the end of a line looks up every line that it uses

    Returns a Replay for one cache, or a tuple of them for several levels.

    The misses of level n are looked up in level n + 1. A dirty line that is evicted from level n is
    written to level n + 1 before the new line is fetched: if level n + 1 contains the line, the
    line becomes dirty, which does not count as a use. Otherwise the line is written to the level
    below; a level need not contain all lines of the level above.
    """
    levels = tuple(caches) if isinstance(caches, Sequence) else (caches,)
    if not levels or not all(isinstance(c, Cache) for c in levels):  # pyright: ignore[reportUnnecessaryIsInstance]
        why = "neither a cache nor a list of caches"
        raise ArgumentError(f"simulate({caches!r}, ...)", why, "Cache()")
    row = addresses_of(accesses)
    lines, at = lookups(row, sizes_of(accesses, sizes), levels[0].line)
    kinds = np.where(writes_of(accesses, writes, len(row)), WRITE, READ).astype(np.uint8)[at]
    stream, replays = _Stream(lines, kinds, at), list[Replay]()
    for n, cache in enumerate(levels):
        result, outcome, sent = _level(cache, stream)
        replays.append(result)
        if n + 1 < len(levels):
            stream = _below(stream, outcome, sent, cache.line, levels[n + 1].line)
    return replays[0] if isinstance(caches, Cache) else tuple(replays)


def _level(cache: Cache, stream: _Stream) -> tuple[Replay, Ints, Ints]:
    """Replay the requests to one level.

    Returns the result, the outcome of each request, and the dirty line that each request sends to
    the next level, or -1.
    """
    ids, names = numbered(stream.lines)
    n = len(ids)
    outcome, sent = np.empty(n, np.uint8), np.empty(n, np.int32)
    run, set_of = compiled(replay), names % cache.sets
    ways, lru = cache.lines // cache.sets, cache.policy == "lru"
    evictions, dirty = run(ids, stream.kinds, set_of, cache.sets, ways, lru, outcome, sent)
    if cache.sets > 1 or not lru:
        ideal, unused = np.empty(n, np.uint8), np.empty(n, np.int32)
        set_zero = np.zeros(len(names), np.int64)
        run(ids, stream.kinds, set_zero, 1, cache.lines, True, ideal, unused)
        outcome[(outcome == CAPACITY) & (ideal == HIT)] = CONFLICT
    lookup = stream.kinds != WRITE_BACK
    hits, compulsory, capacity, conflict = (
        int(np.count_nonzero((outcome == kind) & lookup)) for kind in range(len(OUTCOMES))
    )
    result = Replay(
        hits,
        compulsory,
        capacity,
        conflict,
        evictions,
        cache,
        outcome[lookup],
        stream.at[lookup],
        writebacks=int(np.count_nonzero(sent != NONE)),
        dirty=dirty,
    )
    return result, outcome, np.append(names, NONE)[sent]  # of -1: the last entry


def _below(stream: _Stream, outcome: Ints, sent: Ints, line: int, below: int) -> _Stream:
    """Return the requests to the next level, whose lines may be longer or shorter.

    The dirty line that a miss evicts comes before the line that it fetches.
    """
    driven = np.flatnonzero(sent != NONE)
    missed = np.flatnonzero((outcome != HIT) & (stream.kinds != WRITE_BACK))
    order = np.concatenate([driven, missed])
    sorter = np.argsort(order, kind="stable")
    lines = np.concatenate([sent[driven], stream.lines[missed]])[sorter]
    kinds = np.repeat(np.array([WRITE_BACK, READ], np.uint8), [len(driven), len(missed)])[sorter]
    lines, requests = lookups(lines * line, line, below)
    return _Stream(lines, kinds[requests], stream.at[order[sorter]][requests])
