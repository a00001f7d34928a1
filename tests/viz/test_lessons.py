"""The still pictures of notebooks 03, 04 and 05: dependences, sets of a cache, rows that live."""

import pytest

from minitvm import te, viz
from minitvm.base import ArgumentError
from minitvm.cachesim import Cache


@pytest.mark.parametrize(
    ("step", "backward"), [((1, -1), 8), ((1, 0), 0), ((1, 1), 0), ((2, -1), 4)]
)
def test_arrows_point_backward_if_the_swap_runs_the_reader_first(step, backward) -> None:
    picture = viz.Dependences(3, 5, step)
    assert all(forward for _, _, forward in picture.arrows(swapped=False))
    assert [forward for _, _, forward in picture.arrows(swapped=True)].count(False) == backward


def test_a_stride_of_a_power_of_two_fills_one_set() -> None:
    lines = viz.CacheSets(Cache(4096, 64, 8), {"128": 512, "144": 576}, 32).ascii().splitlines()
    assert lines[1:] == ["128: 32 0 0 0 0 0 0 0", "144: 4 4 4 4 4 4 4 4"]


def test_rows_are_kept_or_computed_again() -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((6, 4), lambda y, x: B[y, x] + B[y + 2, x], name="C")
    schedules: dict[str, te.Schedule] = {}
    for name in ("root", "at", "at, store_at"):
        s = schedules[name] = te.create_schedule(C.op)
        strip, y = s[C].split(C.op.axis[0], nparts=1)
        if "at" in name.split(", "):
            s[B].compute_at(s[C], y)
        if "store_at" in name:
            s[B].store_at(s[C], strip)
    picture = viz.RowLives(schedules, A, C)
    assert picture.ascii().splitlines() == [
        "root: 8 rows of memory, 8 rows computed",
        "at: 3 rows of memory, 18 rows computed",
        "at, store_at: 4 rows of memory, 8 rows computed",
    ]
    assert picture.lives["at, store_at"][0][3, 1] == "write"
    assert picture.lives["at, store_at"][0][3, 2] == "seen"
    assert picture.lives["at"][0][3, 2] == "race"


@pytest.mark.parametrize(
    "draw",
    [
        lambda: viz.Dependences(3, 5, (-1, 1)),
        lambda: viz.CacheSets(Cache(4096, 64, None), {"128": 512}, 32),
        lambda: viz.RowLives({}, *[te.placeholder((4, 4), name="A")] * 2).lives["root"],
    ],
    ids=["later", "no sets", "no schedule"],
)
def test_what_cannot_be_drawn_is_refused(draw) -> None:
    with pytest.raises((ArgumentError, KeyError)):
        draw()
