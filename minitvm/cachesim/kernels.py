"""The loops over millions of accesses, which numba compiles on first use.

numba has no type annotations, hence `Any`. numba is imported only when it is needed, because that
takes longer than importing minitvm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pickle import UnpicklingError
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]
F = TypeVar("F", bound=Callable[..., Any])

# outcomes of an access; PASSED: a write-back of a line that is not in this cache
HIT, COMPULSORY, CAPACITY, CONFLICT, PASSED = range(5)
READ, WRITE, WRITE_BACK = range(3)  # kinds of accesses; write-backs come from the level above
NEW, GONE, CLEAN, DIRTY = range(4)  # states of a line; NEW: never fetched, GONE: evicted
NONE = -1
SCATTER = -7046029254386353131  # 2**64 / golden ratio: products of close numbers are far apart


@cache
def compiled(f: F) -> F:
    """Compile `f` to machine code that releases Python's global interpreter lock while it runs.

    numba stores the machine code beside this file or, if that folder is read-only, in the user's
    cache folder. If numba cannot write or read the code, `f` is compiled again.
    """
    import numba

    njit = cast("Any", numba).njit
    plain = njit(nogil=True)(f)
    try:
        stored = njit(nogil=True, cache=True)(f)
    except RuntimeError:  # there is no place to keep it
        return cast("F", plain)

    @wraps(f)
    def run(*args: Any) -> Any:
        try:
            return stored(*args)
        except (OSError, EOFError, UnpicklingError):  # a full disk, a file cut short
            return plain(*args)

    return cast("F", run)


def number(
    lines: Ints, begin: int, ids: Ints, names: Ints, slots: Ints, count: int
) -> tuple[int, int]:
    """Number the distinct lines in order of appearance, starting at lines[begin].

    Sets ids[n] to the id of lines[n] and names[id] to the line; `count` ids exist already. Stops at
    the end of `lines`, or earlier when `names` is full; returns (position, number of ids).

    `slots` is a hash table of ids with open addressing. The hash function scatters blocks of eight
    neighbouring lines, but keeps the lines of a block together, so that their slots share cache
    lines.
    """
    last = len(slots) - 1
    for n in range(begin, len(lines)):
        line = lines[n]
        at = (((line >> 3) * SCATTER >> 24 << 3) + (line & 7)) & last
        while slots[at] != NONE and names[slots[at]] != line:
            at = (at + 1) & last
        if slots[at] == NONE:
            if count == len(names):
                return n, count
            slots[at], names[count] = count, line
            count += 1
        ids[n] = slots[at]
    return len(lines), count


def last_seen(ids: Ints, count: int, seen: Ints) -> None:
    """Set seen[n] to the position of the previous access with the same id as ids[n], or -1.

    `count` is the number of ids.
    """
    last = np.full(count, NONE, np.int64)
    for n in range(len(ids)):
        seen[n] = last[ids[n]]
        last[ids[n]] = n


def distances(seen: Ints, distance: Ints) -> None:
    """Set distance[n] to the number of distinct lines used between accesses seen[n] and n.

    seen[n] is the position of the previous access to the line of access n. If seen[n] is -1, so is
    distance[n]. A Fenwick tree marks, for each line, the position of its last use so far: the marks
    after seen[n] are the lines used since. Sums and changes take O(log n) (Bennett and Kruskal
    1975).
    """
    size, live = len(seen), 0
    tree = np.zeros(size + 1, np.int32)
    for n in range(size):
        distance[n] = NONE
        if seen[n] == NONE:
            live += 1
        else:
            upto, at = 0, seen[n] + 1
            while at > 0:  # marks at 0 .. seen[n]
                upto += tree[at]
                at &= at - 1
            distance[n] = live - upto
            at = seen[n] + 1
            while at <= size:  # the line's mark moves from there ...
                tree[at] -= 1
                at += at & -at
        at = n + 1
        while at <= size:  # ... to here
            tree[at] += 1
            at += at & -at


def replay(
    ids: Ints, kinds: Ints, set_of: Ints, sets: int, ways: int, lru: bool, outcome: Ints, sent: Ints
) -> tuple[int, int]:
    """Simulate one cache; return how many lines it evicts, and how many are dirty at the end.

    ids, kinds: the line and the kind (READ, WRITE, WRITE_BACK) of each access. set_of[id] is the
    set of a line. Stores the outcome of access n in outcome[n], and in sent[n] the dirty line that
    access n sends to the next level, or -1. This is the line that access n evicts or, for a
    write-back that misses, the line of access n itself.

    Each set is a ring of lines, the most recently used line first ("fifo": the last fetched), with
    a sentinel; the line before the sentinel is evicted.
    """
    lines = len(set_of)
    after, before = np.arange(lines + sets), np.arange(lines + sets)
    state, free = np.zeros(lines, np.uint8), np.full(sets, ways, np.int64)
    evictions = 0
    for n in range(len(ids)):
        x = ids[n]
        top = lines + set_of[x]
        sent[n], outcome[n] = NONE, HIT
        present = state[x] >= CLEAN
        if kinds[n] == WRITE_BACK:
            if present:
                state[x] = DIRTY
            else:
                sent[n], outcome[n] = x, PASSED
            continue
        if not present:
            outcome[n] = COMPULSORY if state[x] == NEW else CAPACITY
            if free[set_of[x]]:
                free[set_of[x]] -= 1
            else:
                old = before[top]
                before[top], after[before[old]] = before[old], top
                if state[old] == DIRTY:
                    sent[n] = old
                state[old] = GONE
                evictions += 1
            state[x] = CLEAN
        elif lru:
            after[before[x]], before[after[x]] = after[x], before[x]
        if lru or not present:
            first = after[top]
            after[top], before[first], after[x], before[x] = x, x, first, top
        if kinds[n] == WRITE:
            state[x] = DIRTY
    return evictions, int((state == DIRTY).sum())
