"""simulate: exact, against lists that are searched from end to end."""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.base import ArgumentError
from minitvm.cachesim import (
    CAPACITY,
    COMPULSORY,
    CONFLICT,
    HIT,
    OUTCOMES,
    Cache,
    Replay,
    footprint,
    simulate,
)

# --- the oracle: one ordered dictionary a set, line -> is it dirty? ------------------------------


@dataclass
class Slow:
    """A cache in a few obvious lines. `below` is the next level, a list of calls otherwise."""

    cache: Cache
    below: "Slow | None" = None
    seen: set[int] = field(default_factory=set)
    outcome: list[int] = field(default_factory=list)
    evictions: int = 0
    writebacks: int = 0

    def __post_init__(self) -> None:
        self.sets = [OrderedDict[int, bool]() for _ in range(self.cache.sets)]

    def use(self, line: int, write: bool) -> bool:
        """Was it a hit?"""
        here = self.sets[line % len(self.sets)]
        hit = line in here
        self.outcome.append(HIT if hit else CAPACITY if line in self.seen else COMPULSORY)
        self.seen.add(line)
        if hit:
            if self.cache.policy == "lru":
                here.move_to_end(line)
        else:
            if len(here) == self.cache.lines // self.cache.sets:
                old, dirty = here.popitem(last=False)
                self.evictions += 1
                if dirty:
                    self.write_back(old)
            if self.below is not None:
                self.below.use(line * self.cache.line // self.below.cache.line, False)
            here[line] = False
        here[line] |= write
        return hit

    def write_back(self, line: int) -> None:
        self.writebacks += 1
        if self.below is not None:
            self.below.receive(line * self.cache.line // self.below.cache.line)

    def receive(self, line: int) -> None:
        here = self.sets[line % len(self.sets)]
        if line in here:
            here[line] = True
        else:
            self.write_back(line)

    @property
    def dirty(self) -> int:
        return sum(sum(here.values()) for here in self.sets)


def slow(cache: Cache, lines: list[int], writes: list[bool]) -> tuple[list[int], Slow]:
    """Outcomes, conflicts told from the rest by a fully associative LRU cache of the same size."""
    one, ideal = Slow(cache), Slow(Cache(cache.bytes, cache.line, None))
    for line, write in zip(lines, writes, strict=True):
        one.use(line, write)
        ideal.use(line, write)
    pairs = zip(one.outcome, ideal.outcome, strict=True)
    return [CONFLICT if (a, b) == (CAPACITY, HIT) else a for a, b in pairs], one


caches = st.builds(
    lambda sets, ways, line, policy: Cache(sets * ways * line, line, ways, policy),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 5),
    st.sampled_from([1, 8, 64]),
    st.sampled_from(["lru", "fifo"]),
)
full = st.builds(lambda lines: Cache(lines * 16, 16, None), st.integers(1, 40))
runs = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=200)


@given(caches | full, runs, st.sampled_from([1, 7, 64, 4096]))
def test_every_outcome_is_that_of_the_obvious_cache(
    cache: Cache, run: list[tuple[int, bool]], stride: int
) -> None:
    addresses, writes = [a * stride for a, _ in run], [w for _, w in run]
    found = simulate(cache, np.array(addresses), np.array(writes, bool))
    wanted, oracle = slow(cache, [a // cache.line for a in addresses], writes)
    assert found.outcome.tolist() == wanted
    assert found.at.tolist() == list(range(len(run)))
    counts = (found.hits, found.compulsory, found.capacity, found.conflict)
    assert counts == tuple(wanted.count(kind) for kind in range(len(OUTCOMES)))
    assert (found.evictions, found.writebacks) == (oracle.evictions, oracle.writebacks)
    assert found.dirty == oracle.dirty


@given(st.lists(caches, min_size=2, max_size=3), runs)
def test_each_level_sees_the_misses_and_the_dirty_lines_of_the_one_above(
    shapes: list[Cache], run: list[tuple[int, bool]]
) -> None:
    line = shapes[0].line
    levels = [Cache(c.lines * line, line, c.ways, c.policy) for c in shapes]
    chain: Slow | None = None
    oracles: list[Slow] = []
    for cache in reversed(levels):
        chain = Slow(cache, chain)
        oracles.insert(0, chain)
    for a, write in run:
        oracles[0].use(a, write)
    found = simulate(levels, [a * line for a, _ in run], np.array([w for _, w in run], bool))
    for got, want in zip(found, oracles, strict=True):
        assert (got.outcome == HIT).tolist() == [o == HIT for o in want.outcome]
        assert (got.outcome == COMPULSORY).tolist() == [o == COMPULSORY for o in want.outcome]
        assert got.evictions == want.evictions
        assert (got.writebacks, got.dirty) == (want.writebacks, want.dirty)
    for above, below in pairwise(found):
        assert below.at.tolist() == above.at[above.outcome != HIT].tolist()


@given(runs, st.lists(st.integers(1, 9), min_size=200, max_size=200))
def test_an_access_that_crosses_lines_looks_up_each(
    run: list[tuple[int, bool]], many: list[int]
) -> None:
    cache, sizes = Cache(64, 4, 2), many[: len(run)]
    found = simulate(cache, [a for a, _ in run], np.array([w for _, w in run], bool), sizes=sizes)
    pairs = [
        (n, line, w)
        for n, ((a, w), size) in enumerate(zip(run, sizes, strict=True))
        for line in range(a // 4, (a + size - 1) // 4 + 1)
    ]
    wanted, _ = slow(cache, [line for _, line, _ in pairs], [w for _, _, w in pairs])
    assert found.outcome.tolist() == wanted
    assert found.at.tolist() == [n for n, _, _ in pairs]
    assert footprint([a for a, _ in run], 4, sizes) == len({line for _, line, _ in pairs})


# --- one fact each -------------------------------------------------------------------------------


def test_a_row_read_once_misses_once_a_line() -> None:
    found = simulate(Cache.l1(), np.arange(1024) * 4, sizes=4)
    assert (found.misses, found.compulsory, found.hits) == (64, 64, 960)


def test_two_lines_of_one_set_conflict_in_a_direct_mapped_cache() -> None:
    found = simulate(Cache(1024, 64, 1), [0, 1024] * 4)
    assert [OUTCOMES[k] for k in found.outcome] == ["compulsory"] * 2 + ["conflict"] * 6


def test_more_lines_than_there_is_room_for_miss_for_want_of_capacity() -> None:
    found = simulate(Cache(256, 64, None), [0, 64, 128, 192, 256] * 2)
    assert [OUTCOMES[k] for k in found.outcome] == ["compulsory"] * 5 + ["capacity"] * 5


def test_a_dirty_line_is_written_back_when_it_is_driven_out() -> None:
    found = simulate(Cache(64, 64, 1), [0, 64, 128], np.array([True, False, True]))
    assert (found.evictions, found.writebacks, found.dirty) == (2, 1, 1)
    assert found.bytes_moved == (3 + 1 + 1) * 64


def test_a_dirty_line_that_comes_down_makes_the_line_below_dirty() -> None:
    l1, l2 = simulate([Cache(64, 64, 1), Cache(256, 64, 4)], [0, 64], writes=True)
    assert (l1.writebacks, l2.writebacks, l2.dirty) == (1, 0, 1)


def test_longer_lines_below_are_found_by_their_address() -> None:
    _, l2 = simulate([Cache(32, 16, 1), Cache(256, 64, 4)], [0, 16, 32, 48, 64])
    assert [OUTCOMES[k] for k in l2.outcome] == ["compulsory", *["hit"] * 3, "compulsory"]


def test_no_access_is_no_miss() -> None:
    found = simulate(Cache.l1(), [])
    assert (found.accesses, found.misses, found.miss_ratio, found.bytes_moved) == (0, 0, 0.0, 0)


def test_a_replay_says_what_happened() -> None:
    assert str(simulate(Cache(64, 64, 1), [0, 0, 64, 0])) == (
        "4 accesses, 1 hits, 3 misses (75.00%: 2 compulsory, 1 capacity, 0 conflict), "
        "2 evictions, 0 write-backs"
    )


def test_a_recorded_run_brings_its_own_writes_and_sizes() -> None:
    class Recorded:
        address = np.array([0, 60, 128])
        size = np.array([4, 8, 4])
        write = np.array([False, True, False])

    found = simulate(Cache.l1(), Recorded())
    assert (found.at.tolist(), found.dirty) == ([0, 1, 1, 2], 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"line": 48}, "Cache: line: it is 48, which is not a power of two\n  try: 32 or 64"),
        ({"bytes": 1000}, "Cache(bytes=1000, line=64, ways=8): 1000 is not a multiple of ways"),
        (
            {"bytes": 3 * 512},
            "Cache: the number of sets: 1536 / (line 64 * ways 8) = 3, which is not a power",
        ),
        ({"ways": 0}, "Cache(ways=0): not an integer >= 1"),
        ({"bytes": 32768.0}, "Cache(bytes=32768.0): not an integer"),
        ({"bytes": 1 << 40}, "Cache(bytes=1099511627776): the maximum is 1073741824"),
        ({"policy": "random"}, "Cache(policy='random'): no such policy\n  try: one of lru, fifo"),
    ],
)
def test_caches_that_nobody_builds_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ArgumentError) as e:
        Cache(**arguments)
    assert str(e.value).startswith(message)


def test_levels_grow() -> None:
    sizes = [c.bytes for c in (Cache(), Cache.l1(), Cache.l2(), Cache.l3())]
    assert sizes == [32 << 10, 32 << 10, 512 << 10, 2 << 20]


def test_twelve_ways_and_sixty_four_sets_are_a_cache() -> None:
    assert Cache(48 << 10, 64, 12).sets == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Cache.l1(), [-1, 4]), "addresses from -1 to 4: not in 0 .."),
        (
            (Cache.l1(), [0.5]),
            "addresses of type float64, 1 dimensions: not a one-dimensional array",
        ),
        (
            (Cache.l1(), [[1, 2]]),
            "addresses of type int64, 2 dimensions: not a one-dimensional array",
        ),
        (
            (Cache.l1(), [1, 2], [True]),
            "writes of type bool, shape (1,): writes= must say whether each of the 2",
        ),
        (
            (Cache.l1(), [1, 2], [0, 1]),
            "writes of type int64, shape (2,): writes= must say whether each of the 2",
        ),
        (([], [1]), "simulate([], ...): neither a cache nor a list"),
        ((5, [1]), "simulate(5, ...): neither a cache nor a list"),
        (("l1", [1]), "simulate('l1', ...): neither a cache nor a list"),
    ],
)
def test_what_is_no_run_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ArgumentError) as e:
        simulate(*arguments)
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([4], ""),
        ([4, 4, 4], "3 sizes: there are 2 accesses"),
        ([4, 0], "sizes from 0 to 4: not in 1 .."),
        (1 << 50, "35184372088834 look-ups of lines: the maximum is"),
    ],
)
def test_sizes_are_positive_and_one_for_each_or_for_all(sizes, message: str) -> None:
    if not message:
        assert isinstance(simulate(Cache.l1(), [1, 2], sizes=sizes), Replay)
        return
    with pytest.raises(ArgumentError) as e:
        simulate(Cache.l1(), [1, 2], sizes=sizes)
    assert str(e.value).startswith(message)
