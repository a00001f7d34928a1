"""TuningCurve and SpaceMap: recorded trials as pictures and text, and a search while it runs."""

import threading
from itertools import accumulate, pairwise

import numpy as np
import pytest

from minitvm import te, topi, tune, viz
from minitvm.base import ArgumentError, Target
from minitvm.schedule import Split


def task() -> tune.Task:
    """Tile both axes of a product of 64 x 64."""
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    c = topi.matmul(a, b)
    state = te.create_schedule(c.op).state
    i, j = (axis.name for axis in c.op.axis)
    steps = (Split(c.name, i, 8), Split(c.name, j, 8))
    parameters = tuple(tune.Parameter(n, "factor", ((n, 1),)) for n in range(2))
    space = tune.Space((tune.split_knob("tile_i", 64, 2), tune.split_knob("tile_j", 64, 2)))
    sketch = tune.Sketch("tiles", (a, b, c), state, steps, parameters, space)
    return tune.Task("matmul", (64, 64, 64), Target("llvm"), (a, b, c), 2.0 * 64**3, (sketch,))


def trials(count: int = 40) -> list[tune.Trial]:
    """Trials that become faster; every eighth fails."""
    rng = np.random.default_rng(1)
    found = []
    for n, row in enumerate(task().sketches[0].space.sample(rng, count).tolist()):
        seconds = 1e-5 * (1 + 4 * np.exp(-n / 10) + rng.random())
        failed = tune.Result((), "crash", "signal 11 (SIGSEGV)\nin main")
        result = failed if n % 8 == 3 else tune.Result((float(f"{seconds:.3g}"),))
        found.append(tune.Trial(tune.Candidate(0, tuple(row)), result))
    return found


class Fake:
    """A measurer that compiles nothing; it waits for `go` after a few programs."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.waiting = threading.Event()
        self.reference_cost = 2e-6

    def measure(self, programs):
        for n, _ in enumerate(programs):
            if n == 4:
                self.waiting.set()
                self.go.wait(20)
            yield tune.Result((1e-5 / (n + 1),))

    def remeasure(self, programs, rounds=10):
        return [tune.Result((1e-6,)) for _ in programs] + [tune.Result((2e-6,))]


# --- recorded trials -----------------------------------------------------------------------------


def test_a_curve_as_text(golden) -> None:
    golden(repr(viz.TuningCurve.from_trials(task(), trials(), {"FMA peak": 60.0})))


def test_a_trial_is_a_dot_at_its_number_and_speed_or_a_red_stroke() -> None:
    shapes = viz.TuningCurve.from_trials(task(), trials(), {"FMA peak": 60.0}).scene().shapes
    marks = [s for s in shapes if s.key.startswith("trial:")]
    level = next(s for s in shapes if s.key == "level:FMA peak")
    assert len(marks) == 40
    dots = {n: dot for n, dot in enumerate(marks) if isinstance(dot, viz.Circle)}
    bottom = {s.points[0][1] for s in marks if isinstance(s, viz.Line) and s.kind == "red"}.pop()
    pixels = (bottom - level.points[0][1]) / 60.0  # of one GFLOP/s
    speeds = [float(dot.tip.split(": ")[1].split()[0]) for dot in dots.values()]
    assert [(bottom - dot.y) / pixels for dot in dots.values()] == pytest.approx(speeds, abs=0.01)
    assert {n for n in range(40) if n not in dots} == {3, 11, 19, 27, 35}
    ways = {round((b.x - a.x) / (n - m), 3) for (m, a), (n, b) in pairwise(dots.items())}
    assert len(ways) == 1


def test_the_line_of_the_best_rises_at_each_record() -> None:
    shapes = viz.TuningCurve.from_trials(task(), trials()).scene().shapes
    dots = [s for s in shapes if isinstance(s, viz.Circle) and s.key]
    records = list(accumulate((dot.y for dot in dots), min))
    corners = next(s for s in shapes if s.key == "best").points
    assert [y for _, y in corners][::2] == [*dict.fromkeys(records), records[-1]]


def test_a_curve_tells_what_failed_and_why() -> None:
    svg = viz.TuningCurve.from_trials(task(), trials()).svg()
    assert "5 failed: 5 crash" in svg
    assert "trial 4: crash, signal 11 (SIGSEGV); tile_i" in svg


def test_no_trials_make_an_empty_curve() -> None:
    curve = viz.TuningCurve.from_trials(task(), [])
    assert repr(curve) == "tuning of matmul 64 64 64: 0 trials, best 0 GFLOP/s"
    assert speeds(curve) == {"0", "0.5", "1"}


def speeds(curve: viz.TuningCurve) -> set[str]:
    """The numbers beside the vertical axis."""
    texts = (s for s in curve.scene().shapes if isinstance(s, viz.Text))
    return {s.text for s in texts if s.anchor == "end" and s.x < 100}


def test_trials_that_all_failed_have_the_axis_of_an_empty_curve() -> None:
    failed = [t for t in trials() if t.result.error]
    assert speeds(viz.TuningCurve.from_trials(task(), failed)) == {"0", "0.5", "1"}


def test_a_level_is_a_speed() -> None:
    with pytest.raises(ArgumentError, match="level 'peak': -1: not a speed in GFLOP/s"):
        viz.TuningCurve.from_trials(task(), [], {"peak": -1})


def test_a_map_as_text(golden) -> None:
    golden(repr(viz.SpaceMap(task(), trials())))


def test_the_side_of_a_square_is_the_best_speed_of_its_cell() -> None:
    shapes = viz.SpaceMap(task(), trials()).scene().shapes
    squares = {s.tip: s for s in shapes if isinstance(s, viz.Rect) and s.tip and not s.key}
    speeds = [float(tip.split("best ")[1].split()[0]) for tip in squares]
    full = next(s.width for s in squares.values() if s.kind == "orange")
    assert [s.width / full for s in squares.values()] == pytest.approx(
        [speed / max(speeds) for speed in speeds], abs=0.01
    )
    cells = [s.tip for s in shapes if s.key.startswith("cell:")]
    assert len(cells) == 7 * 7
    assert sum("best" in tip for tip in cells) == len(squares)
    crosses = {s.tip for s in shapes if s.kind == "crossed"}
    assert crosses == {tip for tip in cells if tip.endswith("all failed")}
    assert len(crosses) == 2


def test_the_knobs_of_a_map_can_be_chosen() -> None:
    shown = viz.SpaceMap(task(), trials())
    assert [c.value for c in shown.layout().controls] == ["tile_i[1]", "tile_j[1]"]
    shown.event("across", "tile_i[0]")
    assert not shown.refused
    assert "tile_i[0]: percent of the best speed" in repr(shown)
    with pytest.raises(ArgumentError, match=r"knob 'tile_k': no such knob\n  try: one of tile_i"):
        viz.SpaceMap(task(), trials(), across="tile_k")


def test_a_map_plays_the_batches() -> None:
    frames = viz.SpaceMap(task(), trials(), batch=10).layout().frames
    assert len(frames) == 1 + 4
    assert frames[1].caption.startswith("batch 1: 10 trials, best ")
    assert set(frames[1].marks.values()) == {"now"}


# --- a search while it runs ----------------------------------------------------------------------


def test_a_search_is_drawn_while_it_runs_and_stops() -> None:
    fake = Fake()
    search = tune.Search(task(), trials=40, batch=8, measurer=fake)
    curve = viz.TuningCurve(search)
    assert [c.enabled for c in curve.layout().controls] == [True, False]
    curve.event("start")
    assert fake.waiting.wait(20)
    assert [c.enabled for c in curve.layout().controls] == [False, True]
    curve.event("stop")
    assert curve.message == "stopping when the programs under way are measured"
    fake.go.set()
    outcome = search.wait(20)
    assert outcome.ended == "stopped"
    assert 4 <= len(outcome.trials) < 40
    assert [c.enabled for c in curve.layout().controls] == [False, False]
    assert f"trial:{len(outcome.trials) - 1}" in viz.svg(curve.scene())


def test_a_saved_notebook_shows_no_live_search() -> None:
    curve = viz.TuningCurve(tune.Search(task(), trials=4, measurer=Fake()))
    assert repr(curve).splitlines()[0] == "tuning of matmul 64 64 64"
    assert "a live search" in curve.svg()


# --- bars ----------------------------------------------------------------------------------------


def test_bars_of_shares_start_at_zero() -> None:
    scene = viz.shares_scene({"a": 0.5, "b": -0.25}, "shares")
    bars = {s.key: s for s in scene.shapes if isinstance(s, viz.Rect)}
    assert bars["b"].x + bars["b"].width == bars["a"].x
    assert abs(bars["a"].width - 2 * bars["b"].width) < 1e-6
    assert "<svg" in viz.svg(viz.shares_scene({}, "nothing"))
