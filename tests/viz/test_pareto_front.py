"""ParetoFront: accelerators as dots, those on the front with the reason for their cycles."""

import pytest

from minitvm import viz, vta
from minitvm.base import ArgumentError
from minitvm.viz.scene import Rect, Text

LAYERS: dict[str, vta.Layer] = {
    "conv": vta.Convolution(size=(8, 8), channels=(32, 64)),
    "fc": vta.Dense(channels=(64, 48)),
}
SPACE = {"block_in": (8, 16, 32), "block_out": (8, 16), "wgt_bytes": (1 << 13, 1 << 15)}


@pytest.fixture(scope="module")
def found() -> vta.Exploration:
    return vta.explore(LAYERS, {"conv": 2}, space=SPACE, budget=8, most=1)


def test_the_front_as_text(found: vta.Exploration) -> None:
    assert repr(viz.ParetoFront(found)) == found.table()


def test_every_design_is_drawn_and_smaller_ones_are_further_left(found: vta.Exploration) -> None:
    scene = viz.ParetoFront(found).scene()
    centres: dict[str, float] = {}
    for s in viz.scene.walk_shapes(scene.shapes):
        if isinstance(s, Rect | viz.Circle) and s.key:
            centres[s.key] = s.x + s.width / 2 if isinstance(s, Rect) else s.x
    lefts = [centres[f"design:{n}"] for n in range(len(found.designs))]
    assert lefts == sorted(lefts)
    circles = [s for s in scene.shapes if isinstance(s, viz.Circle) and s.radius < 5]
    assert len(circles) >= len(found.points) - len(found.designs)


def test_the_marked_designs_have_names(found: vta.Exploration) -> None:
    texts = [s.text for s in viz.ParetoFront(found).scene().shapes if isinstance(s, Text)]
    assert {"vdla_osdi18", "vta_pynq"} <= {*texts}


def test_a_frame_explains_a_design_and_says_that_it_is_dominated(found: vta.Exploration) -> None:
    frames = viz.ParetoFront(found).layout().frames
    for p, frame in zip(found.designs, frames, strict=True):
        assert frame.caption.startswith(p.explain())
        assert ("is dominated" in frame.caption) == bool(found.dominating(p))


def test_a_search_without_designs_is_refused() -> None:
    found = vta.explore(LAYERS, space={"wgt_bytes": (3000,)}, marked=(), budget=2)
    assert not found.points
    with pytest.raises(ArgumentError, match="there is no design to draw"):
        viz.ParetoFront(found)
    with pytest.raises(ArgumentError, match="not an Exploration"):
        viz.ParetoFront(5)  # type: ignore[arg-type]


def test_its_png_is_small(found: vta.Exploration) -> None:
    assert len(viz.ParetoFront(found).png()) < 15_000
