"""The tiles that ex04.2 compares with are among those drawn, and their misses are what it says."""

import pytest

from .course import module

EX04 = module("ex04")
BEST, drawn, misses_of = EX04.BEST, EX04.drawn, EX04.misses_of


@pytest.mark.parametrize("cache_bytes", BEST)
def test_the_stored_tiles_were_drawn_and_have_the_stored_misses(cache_bytes: int) -> None:
    tiles, misses = BEST[cache_bytes]
    assert tiles in drawn(500)
    assert misses_of(tiles, cache_bytes) == misses


@pytest.mark.parametrize("tiles", drawn(500)[100:400:100])
def test_other_tiles_that_were_drawn_are_no_better(tiles: tuple[int, int, int]) -> None:
    assert all(misses_of(tiles, cache_bytes) >= best for cache_bytes, (_, best) in BEST.items())
