"""Reuse distances: exact, and what they say about every cache at once is what simulating says."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.base import ArgumentError
from minitvm.cachesim import (
    HIT,
    Cache,
    footprint,
    histogram,
    miss_ratio_curve,
    previous,
    reuse_distances,
    simulate,
)

addresses = st.lists(st.integers(0, 60), max_size=150)


def slow(lines: list[int]) -> list[int]:
    """For each entry, the distinct ones since it was there last."""
    found: list[int] = []
    for n, line in enumerate(lines):
        before = [k for k in range(n) if lines[k] == line]
        found.append(len(set(lines[before[-1] + 1 : n])) if before else -1)
    return found


@given(addresses, st.sampled_from([1, 4, 16]), st.sampled_from([1, 1 << 20, 3 << 40]))
def test_distances_are_those_that_one_counts(run: list[int], line: int, stride: int) -> None:
    far = [a * stride for a in run]
    assert reuse_distances(far, line).tolist() == slow([a // line for a in far])


@given(addresses)
def test_the_last_use_is_the_one_before(run: list[int]) -> None:
    wanted = [max([k for k in range(n) if run[k] == run[n]], default=-1) for n in range(len(run))]
    assert previous(run, 1).tolist() == wanted


@given(addresses, st.integers(1, 70))
def test_a_fully_associative_cache_hits_what_is_nearer_than_its_size(
    run: list[int], lines: int
) -> None:
    near = reuse_distances(run, 1)
    found = simulate(Cache(lines, 1, None), run)
    assert (found.outcome == HIT).tolist() == [0 <= d < lines for d in near.tolist()]
    if run:
        curve = miss_ratio_curve(near)
        assert curve[min(lines, len(curve) - 1)] == pytest.approx(found.miss_ratio, abs=1e-12)


def test_many_lines_are_told_apart() -> None:
    row = np.arange(300_000) * 4096
    assert footprint(np.concatenate([row, row[::-1]])) == 300_000
    assert reuse_distances(np.concatenate([row, row]))[-1] == 299_999


def test_an_example() -> None:
    assert reuse_distances([0, 64, 128, 0]).tolist() == [-1, -1, -1, 2]


def test_bins_double() -> None:
    h = histogram([-1, -1, 0, 1, 1, 2, 3, 4, 7, 8])
    assert (h.cold, h.low.tolist(), h.counts.tolist()) == (2, [0, 1, 2, 4, 8], [1, 2, 2, 2, 1])
    assert str(h).splitlines()[:2] == ["cold 2", ">= 0: 1"]


@given(st.lists(st.integers(-1, 5000)))
def test_every_access_is_in_one_bin(found: list[int]) -> None:
    h = histogram(found)
    assert h.cold + h.counts.sum() == len(found)
    assert all(
        n == sum(low <= d < max(1, 2 * low) for d in found)
        for low, n in zip(h.low.tolist(), h.counts.tolist(), strict=True)
    )


def test_without_room_everything_misses_and_with_enough_only_first_uses_do() -> None:
    curve = miss_ratio_curve(reuse_distances([0, 64, 128] * 4))
    assert curve.tolist() == [1, 1, 1, 0.25]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: miss_ratio_curve([]), "miss_ratio_curve: there are no accesses"),
        (
            lambda: miss_ratio_curve([-2]),
            "distances of type int64, 1 dimensions: not a one-dimensional",
        ),
        (
            lambda: histogram([0.5]),
            "distances of type float64, 1 dimensions: not a one-dimensional",
        ),
        (lambda: reuse_distances([1], 65), "line=65: not a power of two"),
        (lambda: footprint([-5]), "addresses from -5 to -5: not in 0 .."),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(ArgumentError) as e:
        call()
    assert str(e.value).startswith(message)


def test_importing_the_room_does_not_import_numba() -> None:
    code = "import sys, minitvm.cachesim; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "what"),
    [(reuse_distances, "addresses"), (histogram, "distances"), (miss_ratio_curve, "distances")],
)
def test_a_masked_array_is_refused(call, what: str) -> None:
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.raises(ArgumentError, match=f"{what} of a masked array: its mask would be lost"):
        call(masked)
