"""ModelLens and TransferLab: what a cost model predicts, and what a history saves."""

import threading
from itertools import product

import numpy as np
import pytest

from minitvm import tune, viz
from minitvm.base import ArgumentError
from minitvm.viz.model_lens import compared

KNOBS = {"tile": (1, 2, 4, 8), "order": ("ij", "ji"), "fixed": ("only",)}
ROWS = [[tile, order, 0] for tile, order in product(range(4), range(2)) if (tile, order) != (3, 1)]
MEASURED = [0.1, 0.2, 0.4, 0.3, 1.0, 0.8, 0.0]


def predict(rows) -> list[float]:
    """Prefer large tiles, and the second order slightly."""
    return [tile + 0.25 * order for tile, order, _ in rows]


def features(row) -> dict[str, float]:
    return {"elements": 16.0 * KNOBS["tile"][row[0]], "strides": float(row[1])}


def lens(**arguments) -> viz.ModelLens:
    return viz.ModelLens(KNOBS, ROWS, MEASURED, predict, features, **arguments)


def texts(widget: viz.Visual) -> set[str]:
    return {s.text for s in widget.scene().shapes if isinstance(s, viz.Text)}


# --- ModelLens -----------------------------------------------------------------------------------


def test_a_lens_as_text(golden) -> None:
    golden(repr(lens(number=4)))


def test_a_configuration_is_a_dot_at_its_measured_share_and_its_score() -> None:
    dots = [s for s in lens().scene().shapes if s.key.startswith("row:")]
    assert [d.key for d in dots] == [f"row:{n}" for n in range(7)]
    across = np.polyfit(MEASURED, [d.x for d in dots], 1)
    up = np.polyfit(predict(ROWS), [d.y for d in dots], 1)
    assert across[0] > 0 > up[0]
    assert np.polyval(across, MEASURED) == pytest.approx([d.x for d in dots])
    assert np.polyval(up, predict(ROWS)) == pytest.approx([d.y for d in dots])
    assert dots[4].tip == "configuration 4: measured 100.0%, predicted 2"


def test_the_chosen_configuration_has_a_ring() -> None:
    for number in (0, 4):
        shapes = {s.key: s for s in lens(number=number).scene().shapes}
        ring, dot = shapes["chosen"], shapes[f"row:{number}"]
        assert (ring.x, ring.y) == (dot.x, dot.y)
        assert ring.radius > dot.radius


def test_a_slider_shows_the_options_the_features_and_both_speeds() -> None:
    shown = lens(number=4)
    assert {"configuration 4", "4", "ij", "predicted: 2", "64", "0"} <= texts(shown)
    shown.event("knob1", 1)
    assert {"configuration 5", "ji", "predicted: 2.25", "1"} <= texts(shown)
    assert "measured: 80.0% of the best speed" in texts(shown)


def test_a_configuration_that_is_not_recorded_has_a_prediction_alone() -> None:
    shown = lens(number=6)
    shown.event("knob1", 1)
    assert (shown.now.number, shown.selected) == (None, "")
    assert {"predicted: 3.25", "measured: not recorded"} <= texts(shown)
    line = next(s for s in shown.scene().shapes if s.key == "chosen")
    assert line.kind == "dashed"
    assert "not recorded" in repr(shown)


def test_a_knob_without_a_choice_has_no_slider() -> None:
    controls = lens(number=5).layout().controls
    assert [(c.label, c.high, c.value) for c in controls] == [("tile", 3, 2), ("order", 1, 1)]


def test_a_click_on_a_dot_moves_the_sliders() -> None:
    shown = lens()
    shown.event("click", "row:5")
    assert [c.value for c in shown.layout().controls] == [2, 1]
    assert shown.message == "configuration 5: measured 80.0%, predicted 2.25"


@pytest.mark.parametrize(("number", "elements"), [(0, 16), (6, 128)])
def test_the_bars_of_a_feature_have_the_ratio_of_its_values(number: int, elements: int) -> None:
    shapes = lens(number=number).scene().shapes
    bar = next(s for s in shapes if s.key == "feature:elements")
    fastest = next(s for s in shapes if isinstance(s, viz.Rect) and s.kind == "grey" and s.tip)
    assert bar.width / fastest.width == pytest.approx(elements / 64)
    assert bar.tip == f"elements: {elements}; of the fastest recorded one: 64"


def test_the_share_of_ordered_pairs_is_that_of_the_searchers() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, scores = rng.integers(0, 6, (2, 30)) / 6
        share, pairs, _ = compared(labels, scores)
        assert share == pytest.approx(tune.pairwise_accuracy(scores, labels))
        assert pairs == sum(a != b for n, a in enumerate(labels) for b in labels[:n])


def test_the_worst_pairs_have_the_largest_gaps_and_no_configuration_twice() -> None:
    shown = lens()
    assert shown.worst[0] == (4, 6)  # the fastest one and the one that failed
    assert shown.worst[1] == (2, 3)  # without these two, only this pair is in the wrong order
    assert len(shown.worst) == 2
    assert "line:1" in shown.svg()


def test_a_pair_lights_up_with_its_configurations() -> None:
    links = lens().layout().links
    assert links["pair:0"] == ("row:4", "row:6")
    assert links["row:6"] == ("pair:0",)


def test_a_right_order_has_no_worst_pairs() -> None:
    shown = viz.ModelLens(KNOBS, ROWS, MEASURED, lambda rows: (MEASURED * 2)[: len(rows)])
    assert "pairs in the right order: 100.0% of 21; guessing has 50%" in texts(shown)
    assert "worst" not in repr(shown)


def test_one_speed_alone_has_no_pairs() -> None:
    shown = viz.ModelLens(KNOBS, ROWS[:1], [1.0], predict)
    assert "there are no two configurations with different speeds" in repr(shown)


def test_an_exception_of_the_model_leaves_the_widget_as_it_is() -> None:
    def broken(rows) -> list[float]:
        if len(rows) == 1:
            raise ValueError("not trained")
        return predict(rows)

    shown = viz.ModelLens(KNOBS, ROWS, MEASURED, broken, number=6)
    shown.event("knob1", 1)
    assert (shown.refused, shown.message) == (True, "ValueError: not trained")
    assert [c.value for c in shown.layout().controls] == [3, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"knobs": {}}, "no knob"),
        ({"knobs": {"tile": 3}}, "knob 'tile': no name, or no list of options"),
        ({"rows": [[0, 0]]}, r"rows: int64\[1, 2\]: not int\[configurations, 3\]"),
        ({"rows": [[0.5, 0, 0]]}, "rows: float64"),
        ({"rows": [[0, 0, 0], [1]]}, "rows: they differ in length"),
        ({"rows": [[4, 0, 0]] * 7}, "rows: 4 to 4 for tile: the numbers of its options are 0 to 3"),
        ({"rows": np.zeros((0, 3), int)}, "0 configurations"),
        ({"measured": [1.0]}, r"measured: float\[1\]: its shape is not \[7\]"),
        ({"measured": [float("nan")] * 7}, "measured: some numbers are NaN or infinite"),
        ({"measured": [80.0] * 7}, "measured: not shares of the best speed"),
        ({"predict": 3}, "predict=3: not a function"),
        ({"predict": lambda rows: rows}, r"predict\(rows\): float\[7, 3\]"),
        ({"predict": lambda rows: [np.inf] * len(rows)}, r"predict\(rows\): some numbers are NaN"),
        ({"features": lambda row: {"a": np.nan}}, r"features\(row\): some numbers are NaN"),
        ({"number": 7}, "number=7: the configurations are 0 to 6"),
    ],
)
def test_a_lens_refuses_nonsense(change, message) -> None:
    arguments = {"knobs": KNOBS, "rows": ROWS, "measured": MEASURED, "predict": predict}
    with pytest.raises(ArgumentError, match=message):
        viz.ModelLens(**{**arguments, **change})


# --- TransferLab ---------------------------------------------------------------------------------

SLOW = [[0.1, 0.2, 0.5, 0.9, 1.0], [0.1, 0.4, 0.6, 0.9, 1.0], [0.1, 0.1, 0.1, 0.1, 0.95]]
QUICK = [[0.5, 0.95, 1.0, 1.0, 1.0], [0.3, 0.92, 0.92, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4, 0.5]]


class Curves:
    """Curves of three seeds; counts its calls, and waits for `go` for a target named "slow"."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.go, self.waiting = threading.Event(), threading.Event()

    def __call__(self, source: str, target: str):
        self.calls.append((source, target))
        if target == "slow":
            self.waiting.set()
            self.go.wait(20)
        if target == "absent":
            raise ValueError("no records of absent")
        return {"no history": SLOW, f"history of {source}": QUICK}


def lab(curves=None, **arguments) -> viz.TransferLab:
    return viz.TransferLab(curves or Curves(), ["C1", "C2"], ["C7", "slow", "absent"], **arguments)


def test_a_lab_as_text(golden) -> None:
    golden(repr(lab()))


def test_a_mark_shows_where_the_median_reaches_the_goal() -> None:
    shapes = {s.key: s for s in lab().scene().shapes if s.key}
    first, history = shapes["goal:no history"], shapes["goal:history of C1"]
    assert first.tip == "no history: the median reaches the goal at trial 4"
    assert history.tip == "history of C1: the median reaches the goal at trial 2"
    level = shapes["goal"].points[0][1]
    assert first.y == level  # the median is 0.9 there
    for mark, name in ((first, "no history"), (history, "history of C1")):
        line = shapes[f"median:{name}"].points
        center = mark.x + getattr(mark, "width", 0) / 2
        assert any(x == pytest.approx(center) and y <= level for x, y in line)
        assert all(y > level for x, y in line if x < center - 1)


def test_the_band_is_between_the_quartiles() -> None:
    shapes = lab().scene().shapes
    band = next(s for s in shapes if isinstance(s, viz.Polygon) and s.kind == "pale_orange")
    median = next(s for s in shapes if s.key == "median:no history").points
    quartiles = np.quantile(SLOW, [0.25, 0.75], axis=0)
    pixels = (median[-1][1] - median[0][1]) / (1.0 - 0.1)  # of the whole share, upwards
    drawn = [(y - median[0][1]) / pixels + 0.1 for _, y in band.points]
    assert {*np.round(drawn, 6)} == {*np.round(quartiles.ravel(), 6)}


def test_the_table_has_trials_their_quartiles_and_their_ratio() -> None:
    line = next(line for line in repr(lab()).splitlines() if line.startswith("history of C1"))
    assert line.split() == ["history", "of", "C1", "2", "2", "to", "-", "2.00", "2", "of", "3"]


def test_a_goal_that_is_not_reached_has_no_mark_and_no_ratio() -> None:
    shown = viz.TransferLab(lambda s, t: {"a": [[0.2, 0.5]], "b": [[0.95, 0.95]]}, ["x"], ["y"])
    keys = {s.key for s in shown.scene().shapes}
    assert "goal:a" not in keys
    assert "goal:b" in keys
    rows = [line.split() for line in repr(shown).splitlines() if line[0] in "ab"]
    assert rows == [
        ["a", "-", "-", "to", "-", "-", "0", "of", "1"],
        ["b", "1", "1", "to", "1", "-", "1", "of", "1"],
    ]


def test_each_pair_is_computed_once() -> None:
    curves = Curves()
    shown = lab(curves, source="C2")
    for source in ("C1", "C2", "C1"):
        shown.event("source", source)
        shown.join(20)
    assert curves.calls == [("C2", "C7"), ("C1", "C7")]
    assert "history of C1, search of C7" in texts(shown)


def test_a_long_call_says_that_it_works_and_then_shows_its_curves() -> None:
    curves = Curves()
    shown = lab(curves)
    shown.event("target", "slow")
    assert curves.waiting.wait(20)
    assert (shown.message, shown.refused) == ("computing the curves of 'C1' and 'slow' ...", False)
    assert "median:" not in shown.view["svg"]
    curves.go.set()
    shown.join(20)
    assert "median:history of C1" in shown.view["svg"]
    assert shown.view["message"] == ""


def test_what_is_chosen_during_a_long_call_is_shown_at_its_end() -> None:
    curves = Curves()
    shown = lab(curves)
    shown.event("target", "slow")
    assert curves.waiting.wait(20)
    shown.event("source", "C2")
    curves.go.set()
    shown.join(20)
    assert curves.calls[1:] == [("C1", "slow"), ("C2", "slow")]
    assert "median:history of C2" in shown.view["svg"]


def test_an_exception_is_shown_in_the_widget() -> None:
    curves = Curves()
    shown = lab(curves, target="absent")
    problem = "curves of 'C1' and 'absent': ValueError: no records of absent"
    assert problem in texts(shown)
    assert problem in repr(shown)
    shown.event("source", "C2")
    shown.join(20)
    assert shown.view["refused"]
    assert "no records of absent" in shown.view["message"]
    shown.event("target", "C7")
    shown.join(20)
    assert (shown.view["refused"], shown.view["message"]) == (False, "")


def test_a_pair_that_failed_is_tried_again() -> None:
    curves = Curves()
    shown = lab(curves)
    for target in ("absent", "C7", "absent"):
        shown.event("target", target)
        shown.join(20)
    assert curves.calls[1:] == [("C1", "absent")] * 2


@pytest.mark.parametrize(
    ("curves", "problem"),
    [
        ([1.0], "not float[seeds, trials] by name"),
        ({}, "not float[seeds, trials] by name"),
        ({"a": [0.5, 0.6]}, "its shape is not [n, n]"),
        ({"a": [[]]}, "its shape is not [n, n]"),
        ({"a": [[0.5, float("nan")]]}, "NaN"),
        ({"a": [[0.5, 0.4]]}, "does not fall"),
        ({str(n): [[0.5]] for n in range(6)}, "at most 5 can be told apart"),
    ],
)
def test_curves_that_are_none_are_refused_in_the_widget(curves, problem) -> None:
    assert problem in repr(viz.TransferLab(lambda s, t: curves, ["C1"], ["C7"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"curves": 3}, "curves=3: not a function"),
        ({"sources": []}, r"sources=\[\]: not a list of different names"),
        ({"targets": "C7"}, "targets='C7': not a list of different names"),
        ({"targets": ["C7", "C7"]}, "not a list of different names"),
        ({"source": "C7"}, "source 'C7': no such source"),
        ({"goal": 90}, "goal=90: not a share above 0 and up to 1"),
        ({"goal": float("nan")}, "goal=nan"),
    ],
)
def test_a_lab_refuses_nonsense(change, message) -> None:
    arguments = {"curves": Curves(), "sources": ["C1"], "targets": ["C7"]}
    with pytest.raises(ArgumentError, match=message):
        viz.TransferLab(**{**arguments, **change})
