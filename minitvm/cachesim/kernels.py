"""The loops over millions of accesses, compiled by numba on first use.

numba ships no types, hence `Any`; it is imported late because that takes longer than minitvm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pickle import UnpicklingError
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]
F = TypeVar("F", bound=Callable[..., Any])

HIT, COMPULSORY, CAPACITY, CONFLICT, PASSED = range(5)  # outcomes of an access
READ, WRITE, WRITE_BACK = range(3)  # kinds of accesses; the last comes from the level above
NEW, GONE, CLEAN, DIRTY = range(4)  # states of a line
NONE = -1
SCATTER = -7046029254386353131  # 2**64 / golden ratio: neighbours end up far apart


@cache
def compiled(f: F) -> F:
    """Compile `f` to machine code that runs with the GIL released.

    numba stores the code beside this file or, if that is read-only, in the user's cache folder. If
    neither is writable, or the stored code cannot be read, `f` is compiled again.
    """
    import numba

    njit = cast("Any", numba).njit
    plain = njit(nogil=True)(f)
    try:
        kept = njit(nogil=True, cache=True)(f)
    except RuntimeError:  # there is no place to keep it
        return cast("F", plain)

    @wraps(f)
    def run(*args: Any) -> Any:
        try:
            return kept(*args)
        except (OSError, EOFError, UnpicklingError):  # a full disk, a file cut short
            return plain(*args)

    return cast("F", run)


def number(
    lines: Ints, begin: int, ids: Ints, names: Ints, slots: Ints, count: int
) -> tuple[int, int]:
    """Set ids[n] to the number of the distinct line lines[n], from `begin` on; names[id] = line.

    Return where it stops, at the end or when `names` is full, and the number of ids.
    `slots` is a hash table of ids with open addressing. Blocks of eight lines are scattered, but
    the lines of a block stay together, so that their slots share cache lines.
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
    """Set seen[n] to the position of the previous access to the same id, or -1."""
    last = np.full(count, NONE, np.int64)
    for n in range(len(ids)):
        seen[n] = last[ids[n]]
        last[ids[n]] = n


def distances(seen: Ints, found: Ints) -> None:
    """Set found[n] to the distinct lines used between seen[n] and n; -1 where seen[n] is -1.

    A Fenwick tree marks, for each line, the position of its last use so far: the marks after
    seen[n] are the lines used since. Sums and changes take O(log n) (Bennett and Kruskal 1975).
    """
    size, live = len(seen), 0
    tree = np.zeros(size + 1, np.int32)
    for n in range(size):
        found[n] = NONE
        if seen[n] == NONE:
            live += 1
        else:
            upto, at = 0, seen[n] + 1
            while at > 0:  # marks at 0 .. seen[n]
                upto += tree[at]
                at &= at - 1
            found[n] = live - upto
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
    """Simulate one cache; return (evictions, lines left dirty) and fill `outcome` and `sent`.

    set_of[id] is the set of a line; sent[n] is the dirty line that access n evicts, or -1. Each set
    is a ring of lines, most recently used first, with a sentinel: the line before it is evicted.
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
