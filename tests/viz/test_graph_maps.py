"""LayoutCut and Dominators: the sides of a minimum cut, and kernels beside post-dominators."""

from itertools import product

import numpy as np
import pytest

from minitvm import graph, viz
from minitvm.base import ArgumentError, Target
from minitvm.graph import passes
from minitvm.viz.scene import Group, Line, walk_shapes

from .networks import TARGET, wide


def block() -> graph.Graph:
    """Two convolutions, two branches that join again, and a mean."""
    b = graph.Builder("block")
    y = b.input("data", (1, 32, 28, 28))
    for name in "uv":
        y = b.conv2d(y, b.param(name, np.ones((32, 32, 3, 3), np.float32)), padding=1)
    return b.graph(b.mean(b.add(b.exp(y), b.tanh(y)), axis=(2, 3)))


def test_the_cut_as_text() -> None:
    assert repr(viz.LayoutCut(block(), TARGET)).splitlines() == [
        "232.1 thousand cycles with 1 transposed image; 254.6 if all are in NCHW",
        "NCHW; transpose 50.2               input data: float32[1, 32, 28, 28]",
        "NHWC 90.9 (127.3)                  conv2d padding=1 -> float32[1, 32, 28, 28]",
        "NHWC 90.9 (127.3)                  conv2d padding=1 -> float32[1, 32, 28, 28]",
        "NHWC                               exp -> float32[1, 32, 28, 28]",
        "NHWC                               tanh -> float32[1, 32, 28, 28]",
        "NHWC                               add -> float32[1, 32, 28, 28]",
        "NHWC                               mean axis=(2, 3) -> float32[1, 32]",
    ]


def test_the_tree_as_text() -> None:
    assert repr(viz.Dominators(block())).splitlines() == [
        "6 operators in 3 kernels",
        "  0 kernel 0 -> 1      conv2d padding=1 -> float32[1, 32, 28, 28]",
        "  1 kernel 1 -> 4      conv2d padding=1 -> float32[1, 32, 28, 28]",
        "  2 kernel 1 -> 4      exp -> float32[1, 32, 28, 28]",
        "  3 kernel 1 -> 4      tanh -> float32[1, 32, 28, 28]",
        "  4 kernel 1 -> 5      add -> float32[1, 32, 28, 28]",
        "  5 kernel 2 an output mean axis=(2, 3) -> float32[1, 32]",
    ]


def test_no_other_layouts_are_cheaper() -> None:
    """The price of every assignment of the network's images, where the input stays in NCHW."""
    net = block()
    cut = passes.layout_cut(net, Target(TARGET))
    prices = list[float]()
    for sides in product((False, True), repeat=len(net.calls)):
        nhwc = dict(zip(net.calls, sides, strict=True))
        moved = {
            x
            for node in net.calls
            for x in node.inputs
            if x in cut.transposes and nhwc.get(x, False) != nhwc[node]
        }
        prices.append(
            sum(both[nhwc[node]] for node, both in cut.operators.items())
            + sum(cut.transposes[x] for x in moved)
        )
    assert cut.cycles == min(prices)


def test_a_cut_line_is_dashed_and_red() -> None:
    view = viz.LayoutCut(block(), TARGET)
    lines = [s for s in walk_shapes(view.scene().shapes) if isinstance(s, Line)]
    assert [s.kind for s in lines].count("removed") == 1 + len(view.cut.crossings)  # and a sample


def test_an_operator_and_its_place_in_the_tree_light_up_together() -> None:
    view = viz.Dominators(block())
    keys = {s.key for s in walk_shapes(view.scene().shapes) if isinstance(s, Group) and s.key}
    assert set(view.layout().links) <= keys
    assert view.layout().links["network:1"] == ("post-dominators:0",)


@pytest.mark.parametrize("widget", [viz.LayoutCut, viz.Dominators])
def test_what_cannot_be_drawn_is_refused(widget) -> None:
    with pytest.raises(ArgumentError, match="not a Graph"):
        widget("net")
    with pytest.raises(ArgumentError, match="it has 43 calls; 1 to 40 can be drawn"):
        widget(wide(22))
    b = graph.Builder()
    with pytest.raises(ArgumentError, match="it has 0 calls"):
        widget(b.graph(b.input("x", (1,))))
