"""Find the cache lines that accesses use, and the previous access to each line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from minitvm.base import ArgumentError, check_unmasked

from .kernels import NONE, Ints, compiled, last_seen, number

MAX_LOOKUPS = 1 << 28  # the largest number of line look-ups in one call
HIGHEST = 1 << 60  # all addresses and sizes are smaller


class Accesses(Protocol):
    """A recorded run: arrays with one element per access, in program order."""

    @property
    def address(self) -> Ints:
        """The address of the first byte of each access."""
        ...

    @property
    def size(self) -> Ints:
        """The size of each access in bytes."""
        ...

    @property
    def write(self) -> Ints:
        """Whether each access is a store."""
        ...


Given: TypeAlias = "Ints | Iterable[int] | Accesses"


class Lookups(NamedTuple):
    """The cache lines that accesses look up; access at[k] looks up lines[k]."""

    lines: Ints
    at: Ints


def addresses_of(source: Any) -> Ints:
    """Return the addresses as int64[n]; `source` is a recorded run or a sequence of addresses."""
    return whole("addresses", getattr(source, "address", source), 0)


def sizes_of(source: Any, sizes: Any) -> Any:
    """Return `sizes`; if it is None, return the sizes in the recorded run `source`.

    The result is None for mere addresses without sizes; each access is then one byte long.
    """
    return getattr(source, "size", None) if sizes is None and hasattr(source, "address") else sizes


def writes_of(source: Any, writes: Any, n: int) -> Ints:
    """Return a bool[n] that says for each of `n` accesses whether it is a store.

    The default of `writes`, None, means source.write for a recorded run, and False for addresses.
    """
    if writes is None:
        writes = source.write if hasattr(source, "address") else False
    stores = np.asarray(check_unmasked("writes", writes))
    if stores.dtype != np.bool_ or stores.shape not in ((), (n,)):
        why = f"writes= must say whether each of the {n} accesses is a store"
        fix = "a bool array with one element per access, or one bool for all accesses"
        raise ArgumentError(f"writes of type {stores.dtype}, shape {stores.shape}", why, fix)
    return np.broadcast_to(stores, (n,))


def whole(what: str, values: Any, least: int) -> Ints:
    """Return `values` as int64[n]; raise ArgumentError unless they are integers >= `least`.

    `what` names the values in the message.
    """
    row = np.asarray(check_unmasked(what, values))
    if not row.size:
        row = row.astype(np.int64)
    if row.ndim != 1 or row.dtype.kind not in "iu":
        kind = f"{what} of type {row.dtype}, {row.ndim} dimensions"
        raise ArgumentError(kind, "not a one-dimensional array of integers")
    if row.size and (row.min() < least or row.max() >= HIGHEST):
        ends = f"{what} from {row.min()} to {row.max()}"
        raise ArgumentError(ends, f"not in {least} .. 2**60 - 1")
    return row.astype(np.int64, copy=False)


def checked_line(line: Any) -> int:
    """Return `line`, the bytes of a cache line; raise ArgumentError unless it is a power of two."""
    if type(line) is not int or line < 1 or line & (line - 1):
        raise ArgumentError(f"line={line!r}", "not a power of two", "line=64")
    return line


def lookups(addresses: Ints, sizes: Any, line: int) -> Lookups:
    """Return the lines that accesses look up; an access across the end of a line looks up several.

    sizes: the bytes of each access, or of all, or None for one byte. line: the bytes of a line.
    """
    first, at = addresses // line, np.arange(len(addresses))
    if sizes is None or not len(first):
        return Lookups(first, at)
    size = whole("sizes", np.atleast_1d(sizes), 1)
    if len(size) not in (1, len(addresses)):
        why = f"there are {len(addresses)} accesses"
        raise ArgumentError(f"{len(size)} sizes", why, "one size for each access, or one for all")
    line_counts = (addresses + size - 1) // line - first + 1
    total = int(line_counts.sum(dtype=np.float64))
    if total == len(first):
        return Lookups(first, at)
    if total > MAX_LOOKUPS:
        why = f"the maximum is {MAX_LOOKUPS}"
        raise ArgumentError(f"{total} look-ups of lines", why, "smaller or fewer accesses")
    at = np.repeat(at, line_counts)
    start = np.cumsum(line_counts) - line_counts
    return Lookups(first[at] + np.arange(total) - start[at], at)


def numbered(lines: Ints) -> tuple[Ints, Ints]:
    """Number the distinct lines in order of appearance; return (ids, names).

    ids[n] is the number of lines[n], and names[id] is the line with that number.
    """
    ids, names = np.empty(len(lines), np.int32), np.empty(0, np.int64)
    run, position, capacity = compiled(number), 0, 1 << 10
    while True:
        known, names = names, np.empty(capacity, np.int64)
        slots = np.full(2 * capacity, NONE, np.int32)
        _, count = run(known, 0, np.empty(len(known), np.int32), names, slots, 0)  # the same ids
        position, count = run(lines, position, ids, names, slots, count)
        if position == len(lines):
            return ids, names[:count]
        capacity *= 4


def previous(addresses: Given, line: int = 64) -> Ints:
    """Return, for each access, the position of the previous access to its line, or -1: int64[n].

    From this, the distinct lines of any part of the run can be counted: in a part that begins at
    position b, an access is the first to its line exactly if its previous access is before b.
    """
    row = addresses_of(addresses) // checked_line(line)
    ids, names = numbered(row)
    positions = np.empty(len(row), np.int64)
    compiled(last_seen)(ids, len(names), positions)
    return positions


def footprint(addresses: Given, line: int = 64, sizes: Any = None) -> int:
    """Return the number of distinct cache lines that the accesses use.

    line: the bytes of a cache line. sizes: the bytes of each access, or one number for all; by
    default the sizes in the recorded run, or one byte per access.
    """
    row = addresses_of(addresses)
    line_numbers = lookups(row, sizes_of(addresses, sizes), checked_line(line)).lines
    return len(numbered(line_numbers)[1])
