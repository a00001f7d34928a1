"""TaskAllocation: the rounds of a task scheduler as a picture and text, and while they run."""

import math
import threading
from itertools import pairwise

import numpy as np
import pytest

from minitvm import auto_scheduler, te, tune, viz
from minitvm.auto_scheduler import TaskRound
from minitvm.base import ArgumentError, MeasureError, Target
from minitvm.schedule import Split
from minitvm.viz.allocation_scene import Lane, Progress, why
from minitvm.viz.boxes import picture


def task(n: int) -> tune.Task:
    """A task with 49 candidates."""
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    knobs = (tune.split_knob("tile_i", 64, 2), tune.split_knob("tile_j", 64, 2))
    steps = (Split("B", "i", 8), Split("B", "j", 8))
    parameters = tuple(tune.Parameter(k, "factor", ((k, 1),)) for k in range(2))
    state = te.create_schedule(b.op).state
    sketch = tune.Sketch("tiles", (a, b), state, steps, parameters, tune.Space(knobs))
    return tune.Task("double", (64, n), Target("llvm"), (a, b), 64.0**2 * 4**n, (sketch,))


class Gate:
    """Makes measurers wait for `go`; `waiting` is set when the first one does."""

    def __init__(self) -> None:
        self.go, self.waiting = threading.Event(), threading.Event()


class Fake:
    """A measurer that compiles nothing: the m-th program takes base / m seconds."""

    def __init__(self, base: float, gate: Gate | None = None) -> None:
        self.base, self.gate, self.count = base, gate, 0
        self.reference_cost = base

    def measure(self, programs):
        for _ in programs:
            self.count += 1
            if self.gate is not None:
                self.gate.waiting.set()
                self.gate.go.wait(20)
            yield tune.Result((self.base / self.count,))

    def remeasure(self, programs, rounds=10):
        return [tune.Result((self.base,)) for _ in [*programs, None]]


def scheduler(strategy: auto_scheduler.Strategy = "gradient", gate: Gate | None = None):
    tasks = [task(n) for n in range(3)]
    fakes = {each: Fake(1e-3 * 2**n, gate) for n, each in enumerate(tasks)}
    return auto_scheduler.TaskScheduler(
        tasks,
        [4, 1, 2],
        strategy=strategy,
        policy=tune.RandomPolicy,
        measurers=fakes.__getitem__,
        rng=np.random.default_rng(7),
    )


def recorded(strategy: auto_scheduler.Strategy = "gradient") -> viz.TaskAllocation:
    return viz.TaskAllocation.from_outcome(scheduler(strategy).tune(trials=48, batch=4))


# --- tuning that has ended -----------------------------------------------------------------------


def test_rounds_as_text(golden) -> None:
    golden(repr(recorded()))


def test_a_round_is_as_wide_as_its_trials_and_a_gradient_as_its_gain() -> None:
    shapes = drawn(rounds()).shapes
    found = {s.key: s for s in shapes if isinstance(s, viz.Rect) and s.key}
    bars = [found[f"round:{n}"] for n in (1, 2, 3, 4)]
    ends = [bar.x + bar.width for bar in bars]
    assert [bar.x for bar in bars[1:]] == pytest.approx(ends[:-1])
    assert bars[0].y == bars[2].y > bars[1].y == bars[3].y
    assert found["gradient:0"].width / found["gradient:1"].width == pytest.approx(0.5)
    lines = [s for s in shapes if s.key.startswith("latency")]
    assert [line.points[-1][0] for line in lines] == pytest.approx([ends[-1]] * 3)


def test_the_latency_falls_from_round_to_round() -> None:
    shapes = recorded().scene().shapes
    line = next(s for s in shapes if s.key == "latency")
    points = [s for s in shapes if s.key.startswith("total:")]
    assert [(p.x + p.width / 2, p.y + p.height / 2) for p in points] == [*line.points[::2]]
    assert all(before.y < after.y for before, after in pairwise(points))
    assert {"0.8333 ms", "3 tasks", "83.3 µs"} <= {
        s.text for s in shapes if isinstance(s, viz.Text)
    }


def test_a_round_says_what_it_did_and_why() -> None:
    svg = recorded().svg()
    assert "round 1, 4 trials: 1 ms; in turn" in svg
    assert "its gradient was the lowest" in svg
    assert "a round was expected to change the objective by -" in svg


def test_without_gradients_there_are_no_bars() -> None:
    view = recorded("round-robin")
    assert "gradient:" not in view.svg()
    assert "#" not in repr(view)
    assert view.layout().controls == ()


def rounds() -> list[TaskRound]:
    """A round of each of two tasks, one by the gradient, and one at random."""
    unknown = math.inf
    return [
        TaskRound(1, 1, (), (8, 16), (unknown, 2e-3), unknown, unknown, 1.0),
        TaskRound(2, 0, (), (16, 16), (1e-3, 2e-3), 3e-3, 3e-3, 2.0),
        TaskRound(3, 1, (-1e-4, -2e-4), (16, 24), (1e-3, 1e-3), 2e-3, 2e-3, 3.0),
        TaskRound(4, 0, (-1e-4, -2e-4), (24, 24), (1e-3, 1e-3), 2e-3, 2e-3, 4.0),
    ]


def drawn(given: list[TaskRound]) -> viz.Scene:
    """Draw rounds of two tasks after 16 earlier trials."""
    return picture(Progress([Lane("a", 1), Lane("b", 1)], given, earlier=16).box(), "rounds")


def test_a_random_round_is_marked() -> None:
    assert [why(r) for r in rounds()] == ["turn", "turn", "gradient", "random"]
    scene = drawn(rounds())
    kinds = {s.key: s.kind for s in scene.shapes if isinstance(s, viz.Rect)}
    assert [kinds[f"round:{n}"] for n in (1, 2, 3, 4)] == ["grey", "grey", "pale_sky", "unroll"]


def test_earlier_trials_are_left_of_the_axis() -> None:
    scene = drawn(rounds())
    bars = [s for s in scene.shapes if isinstance(s, viz.Rect) and s.key.startswith("round:")]
    places = {s.key: (s.x, s.width) for s in bars}
    assert len({round(width, 6) for _, width in places.values()}) == 1  # 8 trials each
    assert places["round:1"][0] < places["round:2"][0] < places["round:3"][0]
    svg = viz.svg(scene)
    assert "round 1, 8 trials: 2 ms; in turn" in svg
    assert "round 3, 8 trials: 2 ms -&gt; 1 ms; its gradient was the lowest" in svg


def test_gains_are_shares_of_the_largest() -> None:
    lanes = [Lane("a", 1), Lane("b", 1)]
    assert Progress(lanes, rounds()).gains() == [0.5, 1.0]
    assert Progress(lanes, []).gains() == [0.0, 0.0]
    assert Progress(lanes, rounds()[:1]).gains() == [0.0, 0.0]


def test_a_latency_that_is_not_known_is_not_drawn() -> None:
    svg = viz.svg(drawn(rounds()[:1]))
    assert "latency:0" not in svg
    assert "total:" not in svg
    assert "latency:1" in svg


def test_of_many_tasks_those_that_take_longest_are_drawn() -> None:
    lanes = [Lane(f"t{n}", 1) for n in range(50)]
    latencies = tuple(1e-3 * (n + 1) for n in range(50))
    one = TaskRound(1, 49, (), (8,) * 50, latencies, 1.0, 1.0, 1.0)
    progress = Progress(lanes, [one], "done")
    svg = viz.svg(picture(progress.box(), ""))
    assert "30 more tasks, which take less time" in svg
    assert "t49 x 1" in svg
    assert "t29 x 1" not in svg
    lines = progress.lines()
    assert len(lines) <= 25
    assert lines[-1] == "... 30 more tasks"


# --- tuning while it runs ------------------------------------------------------------------------


def test_rounds_are_drawn_while_they_run_until_stop() -> None:
    gate = Gate()
    view = viz.TaskAllocation(scheduler(gate=gate), trials=48, batch=4)
    assert [c.enabled for c in view.layout().controls] == [True, False]
    view.event("start")
    assert gate.waiting.wait(20)
    assert [c.enabled for c in view.layout().controls] == [False, True]
    with pytest.raises(ArgumentError, match="tuning has not ended"):
        view.wait(0.01)
    view.event("stop")
    assert view.message == "stopping when the programs under way are measured"
    gate.go.set()
    outcome = view.wait(20)
    assert outcome.ended == "stopped"
    assert [c.enabled for c in view.layout().controls] == [False, False]
    assert f"round:{len(outcome.rounds)}" in view.view["svg"]


def test_a_listener_without_a_scheduler() -> None:
    view = viz.TaskAllocation()
    outcome = scheduler().tune(trials=48, batch=4, on=view.hear)
    assert f"round:{len(outcome.rounds)}" in view.view["svg"]
    with pytest.raises(ArgumentError, match="tuning has not ended"):
        view.wait()


def test_a_failure_is_shown_and_raised() -> None:
    def refused(given: tune.Task) -> tune.Measures:
        raise MeasureError(given.name, "no machine")

    broken = auto_scheduler.TaskScheduler([task(0)], measurers=refused)
    view = viz.TaskAllocation(broken, trials=4)
    view.event("start")
    with pytest.raises(MeasureError, match="no machine"):
        view.wait(20)
    assert "no machine" in view.view["svg"]


def test_a_saved_notebook_shows_no_live_tuning() -> None:
    view = viz.TaskAllocation(scheduler(), trials=8)
    assert repr(view).splitlines()[0] == "rounds of a task scheduler"
    assert "live tuning" in view.svg()
