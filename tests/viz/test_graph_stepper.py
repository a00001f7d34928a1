"""GraphStepper: what a pass changed in a network, and what it saved."""

import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from minitvm import graph, viz
from minitvm.base import ArgumentError
from minitvm.viz import graph_rows
from minitvm.viz.scene import Group, Rect, walk_shapes

from .networks import TARGET, residual, wide

COUNT = len(graph.PASSES)


def stepper(at=None, net=None) -> viz.GraphStepper:
    return viz.GraphStepper(net or residual(), TARGET, at=at)


def boxes(view: viz.GraphStepper, side: str) -> dict[str, tuple[str, list[Rect]]]:
    """The boxes of one side: key -> (kind of the box, its rectangles)."""
    found = {}
    for shape in walk_shapes(view.scene().shapes):
        if isinstance(shape, Group) and shape.key.startswith(side):
            rects = [s for s in shape.shapes if isinstance(s, Rect)]
            found[shape.key] = rects[0].kind, rects
    return found


def test_as_text(golden) -> None:
    golden(repr(stepper("fuse")))


def test_an_arrow_leads_from_the_box_of_a_call_to_that_of_its_reader() -> None:
    view = stepper("fuse")
    net = graph_rows.drawn(view.now.after)
    places = {key: rects[0] for key, (_, rects) in boxes(view, "after").items()}
    lines = {s.points for s in view.scene().shapes if isinstance(s, viz.Line) and s.kind == "arrow"}
    for a, b in net.lines:
        if not (a.passing or b.passing):
            upper, lower = (places[f"after:{net.nodes.index(slot.node)}"] for slot in (a, b))
            start = upper.x + upper.width / 2, upper.y + upper.height
            assert (start, (lower.x + lower.width / 2, lower.y)) in lines


def test_a_cell_for_each_cost_says_what_the_pass_saved() -> None:
    view = stepper("fuse")
    texts = [s.text for s in walk_shapes(view.scene().shapes) if isinstance(s, viz.Text)]
    for old, new, unit in view.now.saved():
        at = texts.index(unit)
        assert texts[at - 1] == (old if old == new else f"{old} → {new}")


def test_png_is_small() -> None:
    data = stepper("fuse").png()
    assert Image.open(io.BytesIO(data)).size[0] == 1616
    assert len(data) < 60_000


def test_it_begins_at_the_first_pass_that_changed_something() -> None:
    assert repr(stepper()).startswith(
        f"pass 4 of {COUNT}: fold_batch_norm, 10 -> 10 calls\nReplace batch"
    )


def test_a_fused_kernel_is_a_box_around_its_operators() -> None:
    added = [rects for kind, rects in boxes(stepper("fuse"), "after").values() if kind != "memory"]
    assert max(len(rects) for rects in added) == 1 + 4  # conv2d, add, add, relu
    whole, *inside = max(added, key=len)
    assert whole.kind == "pale_green"
    for a in inside:
        assert whole.x < a.x
        assert a.x + a.width < whole.x + whole.width
        assert whole.y < a.y
        assert a.y + a.height < whole.y + whole.height


def test_both_sides_show_what_is_different() -> None:
    view = stepper("fold_batch_norm")
    before, after = (
        [kind for kind, _ in boxes(view, side).values()] for side in ("before", "after")
    )
    assert before.count("pale_red") == after.count("pale_green") == 2
    assert before.count("pale_sky") == after.count("pale_sky") == 8
    assert "- batch_norm -> float32[1, 16, 14, 14]" in repr(view).splitlines()


def test_boxes_do_not_overlap() -> None:
    for at in range(1, COUNT + 1):
        for side in ("before", "after"):
            found = [rects[0] for _, rects in boxes(stepper(at), side).values()]
            for n, a in enumerate(found):
                for b in found[n + 1 :]:
                    beside = a.x + a.width <= b.x or b.x + b.width <= a.x
                    assert beside or a.y + a.height <= b.y or b.y + b.height <= a.y


def test_what_a_pass_saved_is_that_of_the_counts() -> None:
    view = stepper("choose_formulas")
    old, new = next(s for s in view.stages if s.name == "choose_formulas").costs
    assert new.multiplications < old.multiplications
    assert f"{old.multiplications / 1e6:.2f} -> {new.multiplications / 1e6:.2f} M mult" in repr(
        view
    )
    for a, b in pairwise(view.stages):
        assert a.costs[1] == b.costs[0]


def test_a_pass_without_an_effect_says_so() -> None:
    view = stepper("merge_parallel")
    assert repr(view).splitlines()[0] == f"pass 6 of {COUNT}: merge_parallel, nothing changed"
    assert {kind for kind, _ in boxes(view, "after").values()} == {"memory", "pale_sky"}


def test_the_buttons_go_to_the_next_change_and_back() -> None:
    view = stepper()
    seen = []
    for name in ("next", "next", "back"):
        view.event(name)
        seen.append(view.selected)
    assert seen == ["pass:assign_layouts", "pass:cancel_transposes", "pass:assign_layouts"]


def test_slider_and_click_choose_a_pass() -> None:
    view = stepper()
    view.event("pass", COUNT)
    assert repr(view).startswith(f"pass {COUNT} of {COUNT}: fuse")
    view.event("click", "pass:simplify")
    assert repr(view).startswith(f"pass 1 of {COUNT}: simplify, nothing changed")


def test_a_large_network_is_shown_in_parts() -> None:
    b = graph.Builder("deep")
    x = b.input("x", (4, 4))
    y = x
    for _ in range(30):
        y = b.exp(b.tanh(y))
    y = b.relu(b.relu(y))
    view = viz.GraphStepper(b.graph(y), TARGET, at="simplify")
    shown = boxes(view, "after")
    assert len(shown) < 18
    assert "after:61" in shown  # the last one, where the change is
    assert [kind for kind, _ in boxes(view, "before").values()].count("pale_red") == 1
    view.event("row", 1)
    assert "after:0" in boxes(view, "after")
    assert "before:0" in boxes(view, "before")


def test_equal_calls_of_both_sides_light_up_together() -> None:
    view = stepper("fold_batch_norm")
    assert view.layout().links["before:0"] == ("after:0",)
    assert "before:2" not in view.layout().links  # batch_norm


def test_joined_layers() -> None:
    view = stepper("merge_parallel", wide())
    assert repr(view).count("- dense") == 3
    assert repr(view).count("+ dense") == 1


def test_rows_are_below_their_inputs() -> None:
    net = graph.optimized(residual(), TARGET, passes=graph.PASSES[:8])
    found = graph_rows.drawn(net)
    for node in found.nodes:
        assert all(found.row[n] < found.row[node] for n in node.inputs if n in found.row)
    for a, b in found.lines:
        numbers = [next(n for n, row in enumerate(found.rows) if s in row) for s in (a, b)]
        assert numbers[1] == numbers[0] + 1


def test_what_is_computed_from_parameters_is_just_above_its_readers() -> None:
    b = graph.Builder()
    y = b.input("x", (1, 4, 8, 8))
    for n in range(20):
        p = b.param(f"p{n}", np.ones((1, 8, 8, 4), np.float32))
        y = b.relu(b.add(y, b.exp(b.transpose(p, axes=(0, 3, 1, 2)))))
    found = graph_rows.drawn(b.graph(y))
    assert max(map(len, found.rows)) == 2
    readers = b.graph(y).readers()
    for node in found.nodes:
        if node.op in ("transpose", "exp"):
            assert [found.row[r] - found.row[node] for r in readers[node]] == [1]


@pytest.mark.parametrize("at", ["nothing", 0, COUNT + 1, True])
def test_an_unknown_pass_is_refused(at) -> None:
    with pytest.raises(ArgumentError, match=f"pass {at!r}"):
        stepper(at)


def test_a_schedule_is_no_network() -> None:
    with pytest.raises(ArgumentError, match="not a Graph"):
        viz.GraphStepper(graph.Builder())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="there is no pass"):
        viz.GraphStepper(residual(), passes=())
