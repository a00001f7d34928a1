"""Diagram: the parts of a system, and what flows between them."""

import pytest

from minitvm import viz
from minitvm.viz.scene import Line, Rect, Text, walk_shapes

PARTS = {"a": (0, 0, "serial", "one"), "b": (1, 0, "memory", "two"), "c": (1, 1, "memory", "x\ny")}


def shown(*flow: str) -> tuple[viz.Diagram, list[viz.Shape]]:
    view = viz.Diagram("system", PARTS, [(flow[0], flow[1], "label")], {"memory": "data"})
    return view, [*walk_shapes(view.scene().shapes)]


@pytest.mark.parametrize("flow", ["ab", "ba", "bc", "cb"])
def test_an_arrow_leads_from_the_edge_of_a_part_to_the_edge_of_the_other(flow: str) -> None:
    _, shapes = shown(*flow)
    (arrow,) = (s for s in shapes if isinstance(s, Line))
    names = [s.text for s in shapes if isinstance(s, Text)]
    boxes = [s for s in shapes if isinstance(s, Rect) and s.width > 100]
    parts = dict(zip("abc", boxes, strict=True))
    for name, (x, y) in zip(flow, arrow.points, strict=True):
        box = parts[name]
        assert x in (box.x, box.x + box.width / 2, box.x + box.width)
        assert y in (box.y, box.y + box.height / 2, box.y + box.height)
    assert {"a", "b", "c", "label", "x", "y", "data"} <= {*names}


def test_the_text_lists_what_flows() -> None:
    assert repr(shown(*"ab")[0]) == "a -> b: label"
