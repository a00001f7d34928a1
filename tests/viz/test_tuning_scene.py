"""Pictures of searches: one mark for each trial, and a bar for each share."""

from minitvm import tune, viz
from tests.tune.fakes import Machine, search, task


def outcome() -> tune.Outcome:
    bad = tune.Result((), "crash", "signal 11")
    machine = Machine(task(), lambda number: bad if number % 5 == 0 else None)
    return search(machine.task, machine=machine, trials=40)


def test_the_curve_has_a_mark_for_each_trial() -> None:
    found = outcome()
    scene = viz.curve_scene(found.task, found.trials, default=2e-3, batch=16)
    keys = viz.keys_of(scene)
    assert [f"trial:{n}" in keys for n in range(1, 41)] == [True] * 40
    assert "best" in keys
    assert "default" in keys
    marks = {s.key: s for s in scene.shapes if getattr(s, "key", "").startswith("trial:")}
    assert isinstance(marks["trial:5"], viz.Line)
    assert marks["trial:5"].tip == "trial 5: crash: signal 11"
    assert isinstance(marks["trial:1"], viz.Circle)
    assert "GFLOP/s" in marks["trial:1"].tip
    assert scene.description.startswith("40 trials, 8 failures, best ")
    assert viz.svg(scene) == viz.svg(viz.curve_scene(found.task, found.trials, 2e-3, 16))


def test_the_best_line_only_rises() -> None:
    found = outcome()
    scene = viz.curve_scene(found.task, found.trials)
    (line,) = [s for s in scene.shapes if getattr(s, "key", "") == "best"]
    assert isinstance(line, viz.Line)
    heights = [y for _, y in line.points]
    assert heights == sorted(heights, reverse=True)
    assert len(line.points) == 80


def test_a_search_in_which_all_failed_has_a_curve_too() -> None:
    found = outcome()
    failed = [t for t in found.trials if t.result.error]
    for trials in (failed, failed[:1], []):
        assert "<svg" in viz.svg(viz.curve_scene(found.task, trials))


def test_bars_of_shares_start_at_zero() -> None:
    scene = viz.shares_scene({"a": 0.5, "b": -0.25}, "shares")
    bars = {s.key: s for s in scene.shapes if isinstance(s, viz.Rect)}
    assert bars["b"].x + bars["b"].width == bars["a"].x
    assert abs(bars["a"].width - 2 * bars["b"].width) < 1e-6
    assert "<svg" in viz.svg(viz.shares_scene({}, "nothing"))
