"""RooflineDot: where a schedule stands, what its roof is, and what is said about it."""

import io
import math

import pytest
from PIL import Image

from minitvm import te, viz
from minitvm.accesses import arithmetic_intensity, record
from minitvm.base import ArgumentError
from minitvm.cachesim import Cache
from minitvm.viz import roofline
from minitvm.viz.chart import Scale
from minitvm.viz.roofline_scene import Point, roofline_scene, touching
from minitvm.viz.scene import Text

from .programs import matmul

MACHINE = viz.Machine(100.0, 20.0, "a textbook")
SMALL = Cache(1024, 64, 2)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list:
    """The number of steps of each schedule that is measured; nothing is built."""
    found: list = []
    monkeypatch.setattr(roofline, "seconds", lambda s, *_: found.append(len(s.steps)) or 1e-3)
    monkeypatch.setattr(viz.Machine, "measured", lambda *_: MACHINE)
    return found


def test_later_steps_of_a_schedule_are_not_measured(built: list) -> None:
    s, (_, _, C) = matmul(8, split=False)
    view = viz.RooflineDot(s, machine=MACHINE)
    s[C].vectorize(C.op.axis[1])
    view.event("measure")
    assert (built, view.refused) == ([0], False)


def blocked(n: int, tile: int) -> te.Schedule:
    """A matmul in tiles of tile * tile * tile."""
    s, (_, _, C) = matmul(n, split=False)
    (k,) = C.op.reduce_axis
    io, jo, ii, ji = s[C].tile(*C.op.axis, tile, tile)
    ko, ki = s[C].split(k, factor=tile)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    return s


def three() -> viz.RooflineDot:
    """No tiles, and two kinds of them; the speeds of two are given."""
    schedules = {"naive": matmul(32, split=False)[0], "4": blocked(32, 4), "8": blocked(32, 8)}
    return viz.RooflineDot(schedules, machine=MACHINE, gflops={"naive": 0.4, "8": 7.5}, cache=SMALL)


def test_as_text(golden) -> None:
    golden(repr(three()))


def test_a_dot_is_as_high_as_its_speed_and_its_line_leads_to_its_ideal() -> None:
    view = three()
    shapes = view.scene().shapes
    dots = [s for s in shapes if s.key.startswith("dot:")]
    speeds = [d.gflops or d.roof(MACHINE) for d in view.dots]
    intensities = [d.intensity.actual for d in view.dots]
    assert [dot.kind for dot in dots] == ["blue", "store", "blue"]
    high = (dots[0].y - dots[2].y) / math.log(speeds[2] / speeds[0])
    wide = (dots[2].x - dots[0].x) / math.log(intensities[2] / intensities[0])
    assert dots[0].y - dots[1].y == pytest.approx(high * math.log(speeds[1] / speeds[0]))
    assert dots[1].x - dots[0].x == pytest.approx(wide * math.log(intensities[1] / intensities[0]))
    lines = {(s.points[0], s.points[-1]) for s in shapes if isinstance(s, viz.Line)}
    for d, dot in zip(view.dots, dots, strict=True):
        ideal = dot.x + wide * math.log(d.intensity.ideal / d.intensity.actual)
        ends = [b for a, b in lines if a == (dot.x, dot.y) and b[1] == dot.y]
        assert ends == [(pytest.approx(ideal), dot.y)]


def test_the_roof_and_the_areas_have_names() -> None:
    texts = {s.text for s in three().scene().shapes if isinstance(s, Text)}
    inside = {s.text for s in viz.scene.walk_shapes(three().scene().shapes) if isinstance(s, Text)}
    assert {"100 GFLOP/s", "20 GB/s", "naive", "4", "8"} <= texts
    assert {"memory bound", "arithmetic bound"} <= inside


def test_as_png() -> None:
    made = three().png()
    assert Image.open(io.BytesIO(made)).size == (1294, 820)
    assert len(made) < 15_000


def test_the_roof_is_bandwidth_then_peak() -> None:
    assert MACHINE.ridge == 5.0
    assert [MACHINE.attainable(x) for x in (0.5, 5.0, 50.0)] == [10.0, 100.0, 100.0]


def test_a_dot_stands_where_the_simulated_cache_puts_it() -> None:
    s, args = matmul(16)
    (dot,) = viz.RooflineDot(s, args, cache=SMALL).dots
    expected = arithmetic_intensity(record(s, args), SMALL)
    assert dot.intensity == expected
    assert dot.intensity.flops == 2 * 16**3


def test_without_a_speed_a_dot_stands_on_the_roof() -> None:
    (dot,) = viz.RooflineDot(matmul(16)[0], machine=MACHINE).dots
    assert dot.gflops is None
    assert dot.roof(MACHINE) == MACHINE.attainable(dot.intensity.actual)


def test_each_schedule_is_a_frame() -> None:
    frames = three().view["frames"]
    assert [f["marks"] for f in frames][1] == {"dot:1": "now", "row:1": "now"}
    verdict = frames[0]["caption"].split("\n")[1]
    assert verdict == "naive: bound by memory, at most 0.445 GFLOP/s; it reaches 90% of that"


def test_a_dot_above_the_roof_is_explained() -> None:
    view = viz.RooflineDot([matmul(16)[0]], machine=MACHINE, gflops=[99.0], cache=SMALL)
    view.event("click", "dot:0")
    last = view.message.split("\n")[-1]
    assert last == "above the roof: the real cache keeps more than the simulated one"


def test_measuring_fills_in_the_speeds() -> None:
    view = viz.RooflineDot({"a": matmul(8)[0]})
    view.measure(repeat=1)
    assert view.machine.name == "this machine"
    assert view.dots[0].gflops > 0
    assert view.machine.gflops > 0


def test_dots_that_touch_share_a_name() -> None:
    assert touching([(0, 0), (50, 0), (4, 3), (58, 0)]) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("at", [2.4, 2.8, 3.0, 3.2, 3.6])
def test_the_names_of_close_dots_leave_that_of_the_slope_alone(at) -> None:
    points = [Point(name, x, 8, 20 * x, False) for name, x in (("low", at), ("high", at * 1.14))]
    scene = roofline_scene(points, 100, 20, "a textbook")
    texts = {s.text: s for s in scene.shapes if isinstance(s, Text)}
    slope, high = texts["20 GB/s"], texts["high"]  # the first ends at its x, the other is centred
    left, right = high.x - 15, high.x + 15
    beside = left >= slope.x or right <= slope.x - 48
    assert beside or abs(high.y - slope.y) >= 14


@pytest.mark.parametrize(
    ("span", "base", "pixels", "found"),
    [
        ((0.25, 8), 2, 570, [0.25, 0.5, 1, 2, 4, 8]),
        ((1, 1024), 2, 200, [1, 8, 64, 512]),
        ((0.5, 200), 10, 300, [1, 10, 100]),
    ],
)
def test_marks_on_an_axis_keep_apart(span, base, pixels, found) -> None:
    assert Scale(*span, 0, pixels, log=True).powers(base) == found


def test_names_are_letters_where_none_are_given() -> None:
    s = matmul(8)[0]
    assert [d.name for d in viz.RooflineDot([s, s, s]).dots] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda s: viz.RooflineDot(3), "neither a schedule nor a list"),
        (lambda s: viz.RooflineDot([]), "there is nothing to draw"),
        (lambda s: viz.RooflineDot({"a": 3}), "neither a schedule nor a program"),
        (lambda s: viz.RooflineDot(s, machine=100), "machine=100: not a Machine"),
        (lambda s: viz.RooflineDot(s, cache=1024), "not a Cache"),
        (lambda s: viz.RooflineDot(s, gflops={"b": 1.0}), "gflops: 'b': no such schedule"),
        (lambda s: viz.RooflineDot(s, gflops=[1.0, 2.0]), "one number for each of a is needed"),
        (lambda s: viz.RooflineDot(s, gflops=[-1.0]), "gflops: a: -1.0: not a number above 0"),
        (lambda s: viz.Machine(float("nan"), 1.0), "not a number above 0"),
        (lambda s: viz.Machine(1.0, "fast"), "not a number above 0"),
        (lambda s: viz.RooflineDot([s] * 27), "more than 26 dots"),
    ],
)
def test_nonsense_is_refused(make, why) -> None:
    with pytest.raises(ArgumentError, match=why):
        make(matmul(8)[0])


def test_a_program_without_arithmetic_has_no_place() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i], name="B")
    with pytest.raises(ArgumentError, match="the program has no arithmetic on tensors"):
        viz.RooflineDot(te.create_schedule(B.op))
