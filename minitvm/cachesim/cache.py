"""The parameters of a cache."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, cast

from minitvm.base import ArgumentError

MAX_BYTES = 1 << 30
POLICIES = ("lru", "fifo")


@dataclass(frozen=True, slots=True)
class Cache:
    """The parameters of a set-associative cache, which is write-allocate and write-back.

    bytes    the capacity: sets * ways * line
    line     the bytes of a cache line, a power of two
    ways     the number of lines per set; None for a fully associative cache
    policy   which line is evicted from a full set: "lru", the least recently used line, or "fifo",
             the line that was fetched first

    Line number L (address // line) is stored in set L % sets. Raises ArgumentError if a parameter
    is out of range, or the number of sets is not a power of two.
    """

    bytes: int = 32768
    line: int = 64
    ways: int | None = 8
    policy: str = "lru"

    def __post_init__(self) -> None:
        for name in ("bytes", "line", "ways"):
            object.__setattr__(self, name, _count(name, getattr(self, name)))
        if self.policy not in POLICIES:
            what = f"Cache(policy={self.policy!r})"
            raise ArgumentError(what, "no such policy", f"one of {', '.join(POLICIES)}")
        _power_of_two("line", self.line, f"it is {self.line}")
        if self.bytes > MAX_BYTES:
            raise ArgumentError(f"Cache(bytes={self.bytes})", f"the maximum is {MAX_BYTES}")
        row = self.line * (self.ways or 1)
        if self.bytes % row:
            what = f"Cache(bytes={self.bytes}, line={self.line}, ways={self.ways})"
            why = f"{self.bytes} is not a multiple of ways * line = {row}"
            raise ArgumentError(what, why, f"bytes={max(1, self.bytes // row) * row}")
        if self.ways is not None:
            quotient = f"{self.bytes} / (line {self.line} * ways {self.ways}) = {self.sets}"
            _power_of_two("the number of sets", self.sets, quotient)

    @property
    def lines(self) -> int:
        """The number of lines in the cache."""
        return self.bytes // self.line

    @property
    def sets(self) -> int:
        """The number of sets in the cache; 1 if it is fully associative."""
        return 1 if self.ways is None else self.bytes // (self.line * self.ways)

    @classmethod
    def l1(cls) -> Cache:
        """Make a typical first-level cache: 32 KiB, 8 ways."""
        return cls(32 << 10, 64, 8)

    @classmethod
    def l2(cls) -> Cache:
        """Make a second-level cache: 512 KiB, 8 ways."""
        return cls(512 << 10, 64, 8)

    @classmethod
    def l3(cls) -> Cache:
        """Make one core's share of a third-level cache: 2 MiB, 16 ways."""
        return cls(2 << 20, 64, 16)


def _count(name: str, value: Any) -> int | None:
    """Return `value`, the parameter called `name`, as an int; `ways` may also be None.

    Raises ArgumentError unless it is an integer >= 1.
    """
    if value is None and name == "ways":
        return None
    try:
        n = 0 if isinstance(value, bool) else operator.index(cast("int", value))
    except TypeError:
        n = 0
    if n < 1:
        raise ArgumentError(f"Cache({name}={value!r})", "not an integer >= 1")
    return n


def _power_of_two(what: str, n: int, value: str) -> None:
    if n & (n - 1):
        next_power = 1 << n.bit_length()
        why = f"{value}, which is not a power of two"
        raise ArgumentError(f"Cache: {what}", why, f"{next_power // 2} or {next_power}")
