"""SearchPath: the steps of a graph search, and what it started and ended with."""

import pytest

from minitvm import graph, viz
from minitvm.base import TVMError
from minitvm.graph.networks.layers import Layers
from minitvm.viz.scene import Circle, Group, Polygon, Text, walk_shapes


def found() -> graph.Searched:
    net = Layers("fire", 0)
    x = net.b.input("x", (1, 16, 14, 14))
    one = net.b.relu(net.conv(x, "one", 64, 1, bias=True))
    three = net.b.relu(net.conv(x, "three", 64, 3, bias=True, padding=1))
    return graph.search(net.b.graph(net.b.concatenate(one, three, axis=1)))


def test_a_step_that_is_worse_is_a_triangle_and_the_others_are_discs() -> None:
    shapes = [*walk_shapes(viz.SearchPath(found()).scene().shapes)]
    steps = {s.key: type(s) for s in shapes if isinstance(s, Circle | Polygon) and s.key}
    assert steps == {"step:0": Circle, "step:1": Polygon, "step:2": Circle, "step:3": Circle}


def test_the_text_names_each_step_and_what_it_changes() -> None:
    result = found()
    view = viz.SearchPath(result)
    texts = [s.text for s in walk_shapes(view.scene().shapes) if isinstance(s, Text)]
    assert "enlarge kernel: one" in texts
    costs = [result.costs[0], *(step.cost for step in result.steps)]
    change = (costs[1] - costs[0]) / costs[0]
    assert f"{change:+.2%}" in texts
    assert repr(view) == str(result)


def test_three_kernels_become_one() -> None:
    shapes = walk_shapes(viz.SearchPath(found()).scene().shapes)
    keys = {s.key for s in shapes if isinstance(s, Group) and ":" in s.key}
    assert keys == {*(f"before:{n}" for n in range(4)), "after:0", "after:1"}


def test_a_search_without_a_step_has_a_picture() -> None:
    b = graph.Builder()
    nothing = graph.search(b.graph(b.tanh(b.input("x", (4, 4)))))
    assert len(viz.SearchPath(nothing).png()) > 1000


def test_anything_else_is_refused() -> None:
    with pytest.raises(TVMError, match="SearchPath"):
        viz.SearchPath(5)  # pyright: ignore[reportArgumentType]
