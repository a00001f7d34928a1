"""TimingLab: honest verdicts on given times, and measuring in the background."""

import io
import threading
from itertools import count

import numpy as np
import pytest
from PIL import Image

import minitvm as tvm
from minitvm import te, viz
from minitvm.base import ArgumentError, MeasureError
from minitvm.viz import TimedRun, TimingLab, compare_times, timing_lab
from minitvm.viz.chart import Scale, seconds_text
from minitvm.viz.plot import Axis
from minitvm.viz.timing_plot import axis_of, histogram
from minitvm.viz.timings import runs


def recorded(rounds: int = 30, second: float = 0.31) -> list[tuple[str, float, bool]]:
    """Two functions on a machine that drifts by 10 % and is now and then interrupted."""
    rng = np.random.default_rng(1)
    found = []
    for n in range(rounds + 3):
        for name, factor in (("naive", 1.0), ("tiled", second)):
            noise = 0.03 * abs(rng.standard_normal()) + 0.6 * (rng.random() < 0.05)
            seconds = (
                1.2e-3 * factor * (1 + 0.1 * np.sin(n / 8)) * np.exp(noise) * (4 if n == 0 else 1)
            )
            found.append((name, float(f"{seconds:.4g}"), n < 3))
    return found


# --- given times -------------------------------------------------------------------------------


def test_as_text(golden) -> None:
    golden(repr(TimingLab.from_records(recorded())))


def test_a_run_is_a_point_at_its_time_on_a_logarithmic_axis() -> None:
    rows = recorded()
    shapes = {s.key: s for s in TimingLab.from_records(rows).scene().shapes}
    points = [shapes[f"run:{n}"] for n in range(len(rows))]
    assert {p.kind for p in points} == {"blue", "orange"}
    shown = [(p, row[1]) for p, row in zip(points, rows, strict=True) if isinstance(p, viz.Circle)]
    (first, a), (last, b) = shown[5], shown[-1]
    octave = (first.y - last.y) / np.log2(b / a)
    heights = [first.y - p.y for p, _ in shown]
    assert heights == pytest.approx([octave * np.log2(t / a) for _, t in shown], abs=0.01)
    slow = [t for p, (_, t, _) in zip(points, rows, strict=True) if p.tip and is_arrow(p)]
    assert min(slow) > max(t for _, t in shown)


def is_arrow(shape: viz.Shape) -> bool:
    """Whether a shape is the arrow of a run above the axis."""
    return isinstance(shape, viz.Polygon) and len(shape.points) == 3


def test_a_bar_is_as_long_as_its_count() -> None:
    rows = recorded()
    scene = TimingLab.from_records(rows).scene()
    bars = [s for s in scene.shapes if isinstance(s, viz.Rect) and not s.key and s.kind == "blue"]
    axis = axis_of(TimingLab.from_records(rows).records)
    seconds = [t for name, t, warmup in rows if name == "naive" and not warmup]
    counts = [count for _, _, count in histogram(seconds, axis) if count]
    longest = max(bar.width for bar in bars)
    assert [bar.width / longest * max(counts) for bar in bars] == pytest.approx(counts)
    assert [bar.y for bar in bars] == sorted((bar.y for bar in bars), reverse=True)


def test_png_is_small() -> None:
    data = TimingLab.from_records(recorded()).png()
    assert Image.open(io.BytesIO(data)).size[0] == 1616
    assert len(data) < 15_000


def test_records_may_be_rows_or_timings() -> None:
    rows = recorded()
    lab = TimingLab.from_records([TimedRun(*row) for row in rows])
    assert repr(lab) == repr(TimingLab.from_records([list(row) for row in rows]))
    assert [(r.name, r.seconds, r.warmup) for r in lab.records] == rows


def test_equal_functions_are_not_told_apart() -> None:
    (verdict,) = TimingLab.from_records(recorded(second=1.0)).verdicts
    assert not verdict.shown
    assert str(verdict).startswith("tiled against naive: no difference is shown (ratio 0.9")


def test_a_slower_one_is_called_slower() -> None:
    (verdict,) = TimingLab.from_records(recorded(second=2.0)).verdicts
    assert verdict.shown
    assert str(verdict).startswith("tiled takes 2 times as long as naive")


def test_a_range_around_one_shows_its_digits() -> None:
    verdict = compare_times([1.0] * 10, [1.0] * 10, names=("a", "b"))
    assert str(verdict) == "b against a: no difference is shown (ratio 1.00 to 1.00 over 10 rounds)"


def test_few_rounds_tell_nothing() -> None:
    (verdict,) = TimingLab.from_records(recorded(rounds=9)).verdicts
    assert str(verdict) == "tiled against naive: 9 rounds tell nothing, 10 are the least"


def test_warm_up_does_not_count() -> None:
    rows = [("a", 1.0, True), ("b", 1.0, True)] + [("a", 2.0, False), ("b", 1.0, False)] * 10
    (verdict,) = TimingLab.from_records(rows).verdicts
    assert (verdict.ratio, verdict.low, verdict.high, verdict.rounds) == (2.0, 2.0, 2.0, 10)


def test_drift_cancels_within_rounds() -> None:
    drift = np.linspace(1, 3, 40)
    verdict = compare_times(1.1e-3 * drift, 1e-3 * drift)
    assert (verdict.low, verdict.high) == (pytest.approx(1.1), pytest.approx(1.1))


def test_equal_functions_are_rarely_told_apart() -> None:
    """At most 5 % of pairs of equal functions may look different; here with long tails."""
    rng = np.random.default_rng(0)

    def times():
        return np.exp(0.05 * abs(rng.standard_normal(30)) + 0.5 * (rng.random(30) < 0.1))

    wrong = sum(compare_times(times(), times(), seed).shown for seed in range(400))
    assert wrong / 400 < 0.07


def test_small_differences_are_found_in_many_rounds() -> None:
    rng = np.random.default_rng(0)
    noise = np.exp(0.05 * rng.standard_normal((2, 400)))
    verdict = compare_times(1.05 * noise[0], noise[1])
    assert 1 < verdict.low < 1.05 < verdict.high


def test_several_rivals_share_the_error() -> None:
    rng = np.random.default_rng(0)
    a, b = np.exp(0.1 * rng.standard_normal((2, 30)))
    two = compare_times(a, b, level=0.95)
    three = compare_times(a, b, level=0.975)
    assert three.low < two.low < two.high < three.high


def test_the_seed_decides_the_interval() -> None:
    rng = np.random.default_rng(0)
    a, b = np.exp(0.1 * rng.standard_normal((2, 30)))
    assert compare_times(a, b, 1) == compare_times(a, b, 1)
    assert compare_times(a, b, 1) != compare_times(a, b, 2)


def test_of_very_many_runs_some_are_drawn() -> None:
    svg = TimingLab.from_records(recorded(rounds=1000)).svg()
    assert "run, one of 3 drawn" in svg
    assert svg.count('data-key="run:') == -(-2006 // 3)


def test_a_histogram_counts_every_run() -> None:
    bins = histogram([1.0, 1.5, 3.0, 5.0, 16.0, 99.0], Axis(1.0, 16.0, log=True), bins=4)
    assert [count for _, _, count in bins] == [2, 1, 1, 2]
    assert [low for low, _, _ in bins] == pytest.approx([1, 2, 4, 8])


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.9e-3, 2.2e-3, [1e-3, 1.5e-3, 2e-3]),
        (1e-6, 1e-3, [1e-6, 1e-5, 1e-4, 1e-3]),
        (3e-6, 6e-5, [5e-6, 1e-5, 2e-5, 5e-5]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert Scale(low, high, 0, 1, log=True).ticks() == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (0.00123, "1.23 ms"), (4.5e-7, "450 ns"), (1e-3, "1 ms")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


# --- measuring ---------------------------------------------------------------------------------


def ticking():
    """A timer that runs on by a second each time it is read."""
    return map(float, count()).__next__


def test_rivals_take_turns() -> None:
    made = list(runs({"a": int, "b": int}, [], rounds=5, warmup=2, seed=0, timer=ticking()))
    rounds = [{made[n].name, made[n + 1].name} for n in range(0, 14, 2)]
    assert rounds == [{"a", "b"}] * 7
    assert [r.warmup for r in made] == [True] * 4 + [False] * 10


def test_the_order_within_rounds_is_drawn_from_the_seed() -> None:
    def order(seed: int) -> list[str]:
        return [r.name for r in runs({"a": int, "b": int}, [], 9, 1, seed, ticking())]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_quick_functions_are_called_several_times_in_a_run() -> None:
    calls: list[int] = []
    clock = map(float, np.arange(0, 1, 50e-6)).__next__  # each run seems to take 50 µs
    list(runs({"a": lambda: calls.append(1)}, [], 1, 1, 0, clock))
    assert len(calls) == 1 + 4


def test_a_live_measurement_lasts_long_enough_to_be_watched_and_stopped(monkeypatch) -> None:
    monkeypatch.setattr(timing_lab, "WATCHED", 0.4)
    lab = TimingLab({"a": lambda: calls.append(1)}, repeat=1, warmup=5)
    counts = list[int]()
    for measure in (lab.run, lab.start):
        calls = list[int]()
        measure()
        lab.wait(30)
        counts.append(len(calls))
    in_code, live = counts
    assert live > 9 * in_code


def test_run_measures_all_rounds() -> None:
    lab = TimingLab({"a": lambda x: None, "b": lambda x: None}, [1], repeat=12, warmup=2)
    (verdict,) = lab.run()
    assert verdict.rounds == 12
    assert [r.warmup for r in lab.records] == [True] * 4 + [False] * 24
    assert not lab.running


def test_start_and_stop_in_the_background() -> None:
    first, go_on = threading.Event(), threading.Event()

    def waits() -> None:
        first.set()
        go_on.wait(30)

    lab = TimingLab({"a": waits}, repeat=1000)
    lab.event("start")
    assert first.wait(30)
    assert lab.running
    assert [c["enabled"] for c in lab.view["controls"]] == [False, True]
    lab.event("stop")
    go_on.set()
    lab.wait(30)
    assert not lab.running
    assert len(lab.records) == 1
    assert [c["enabled"] for c in lab.view["controls"]] == [True, False]


def test_what_a_function_raises_is_shown() -> None:
    def fails() -> None:
        raise ValueError("no such thing")

    lab = TimingLab({"good": lambda: None, "bad": fails})
    lab.event("start")
    lab.wait(30)
    assert lab.message == "bad: ValueError: no such thing"
    assert lab.refused
    with pytest.raises(MeasureError, match="bad: ValueError: no such thing"):
        lab.run()


def test_what_is_measured_live_is_not_in_text_or_picture() -> None:
    lab = TimingLab({"a": lambda: None, "b": lambda: None}, repeat=3)
    text, picture = repr(lab), lab.svg()
    lab.run()
    assert (repr(lab), lab.svg()) == (text, picture)
    assert text.splitlines()[:2] == [
        "time of a call: a, b",
        "3 rounds of one run each in turns, after 3 of warm-up",
    ]
    assert "median:a" in lab.view["svg"]


CELL = """
factor = 2
def twice(x):
    return factor * x
made = {"a": lambda x: seen.append(twice(x) + extra)}
"""


def test_what_later_cells_assign_changes_no_rival() -> None:
    cell = {"__name__": "__main__", "seen": [], "extra": 1}
    exec(CELL, cell)
    lab = TimingLab(cell["made"], [3], repeat=1, warmup=0)
    seen = cell["seen"]
    exec("factor = extra = twice = seen = made = None", cell)
    lab.run()
    assert seen == [7]


def test_arrays_that_do_not_fit_are_refused_before_the_first_click() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    f = tvm.build(te.create_schedule(C.op), [A, C], "python")
    with pytest.raises(ArgumentError, match="A"):
        TimingLab({"a": f}, [np.zeros(9, "float32"), np.zeros(8, "float32")])


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [{}, [1], {"a": 3}, {1: int}, {"": int}, None])
def test_what_are_no_functions_is_refused(functions) -> None:
    with pytest.raises(ArgumentError, match="TimingLab"):
        TimingLab(functions)


def test_seven_rivals_are_too_many() -> None:
    with pytest.raises(ArgumentError, match="at most 6 can be told apart"):
        TimingLab({str(n): int for n in range(7)})


@pytest.mark.parametrize("option", [{"repeat": 0}, {"warmup": -1}, {"seed": 1.5}, {"repeat": True}])
def test_counts_are_whole_numbers(option) -> None:
    with pytest.raises(ArgumentError, match=next(iter(option))):
        TimingLab({"a": int}, **option)


def test_arguments_come_in_a_list() -> None:
    with pytest.raises(ArgumentError, match="args is not a list"):
        TimingLab({"a": int}, np.zeros(3))


@pytest.mark.parametrize(
    "records", [[], [("a",)], [("a", -1.0)], [(3, 1.0)], ["run"], [("a", float("nan"))], 5]
)
def test_what_are_no_runs_is_refused(records) -> None:
    with pytest.raises(ArgumentError, match="record"):
        TimingLab.from_records(records)


def test_given_runs_are_not_measured_again() -> None:
    with pytest.raises(ArgumentError, match="this lab shows recorded runs only"):
        TimingLab.from_records(recorded()).start()


def test_the_widget_has_the_usual_four_views() -> None:
    assert isinstance(TimingLab({"a": int}), viz.Visual)
