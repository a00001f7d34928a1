"""MemoryPlan: tensors in time and memory, by three plans."""

import io

import pytest
from PIL import Image

from minitvm import graph, viz
from minitvm.base import ArgumentError
from minitvm.graph import passes
from minitvm.viz.scene import Group, Rect, walk_shapes

from .networks import TARGET, residual


def fused(level: int = 1) -> graph.Graph:
    return graph.optimized(residual(), TARGET) if level else residual()


def boxes(view: viz.MemoryPlan) -> dict[str, list[Rect]]:
    """The rectangles of each tensor, in the order of the plans."""
    found: dict[str, list[Rect]] = {}
    for shape in walk_shapes(view.scene().shapes):
        if isinstance(shape, Group):
            found.setdefault(shape.key, []).append(
                next(s for s in shape.shapes if isinstance(s, Rect))
            )
    return found


def test_as_text(golden) -> None:
    golden(repr(viz.MemoryPlan(fused())))


@pytest.mark.parametrize("n", range(3))
def test_a_box_is_as_wide_as_its_life_and_as_tall_as_its_size(n: int) -> None:
    view = viz.MemoryPlan(fused())
    shown = [boxes(view)[f"tensor:{k}"][n] for k in range(len(view.tensors))]
    lives = [t.last + 1 - t.first for t in view.tensors]
    sizes = [t.node.type.bytes for t in view.tensors]
    call, byte = shown[0].width / lives[0], shown[0].height / sizes[0]
    assert [box.width for box in shown] == pytest.approx([call * life for life in lives])
    assert [box.height for box in shown] == pytest.approx([max(1, byte * s) for s in sizes])


def test_png_is_small() -> None:
    data = viz.MemoryPlan(fused()).png()
    assert Image.open(io.BytesIO(data)).size[0] == 1616
    assert len(data) < 40_000


def test_the_totals_are_those_of_the_plans() -> None:
    net = fused()
    view = viz.MemoryPlan(net)
    assert view.plans[0].bytes == graph.naive_bytes(net)
    assert view.plans[1].bytes == graph.pool_plan(net).bytes
    assert view.plans[2].bytes == graph.offset_plan(net).bytes
    assert view.bound == graph.live_bytes(net)
    assert f"{graph.naive_bytes(net):,} bytes" in repr(view)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("in_place", [False, True])
def test_boxes_do_not_overlap_unless_one_lies_over_the_other(level, in_place) -> None:
    view = viz.MemoryPlan(fused(level), in_place=in_place)
    for n in range(3):
        found = [(boxes(view)[f"tensor:{k}"][n], t) for k, t in enumerate(view.tensors)]
        for k, (a, _) in enumerate(found):
            for b, tensor in found[k + 1 :]:
                beside = a.x + a.width <= b.x + 0.01 or b.x + b.width <= a.x + 0.01
                apart = a.y + a.height <= b.y + 1 or b.y + b.height <= a.y + 1
                assert beside or apart or tensor.over[n]


def test_results_over_inputs_save_memory_and_are_marked() -> None:
    b = graph.Builder("chain")
    x = b.input("x", (64, 64))
    alone = (("fuse", lambda net, _: passes.fuse(net, level=0)),)
    net = graph.optimized(b.graph(b.softmax(b.exp(b.tanh(b.softmax(x))))), TARGET, passes=alone)
    apart, over = viz.MemoryPlan(net), viz.MemoryPlan(net)
    over.event("in_place", True)
    assert over.plans[2].bytes < apart.plans[2].bytes
    kinds = {rects[2].kind for rects in boxes(over).values()}
    assert kinds == {"pale_sky", "bind"}
    assert {rects[2].kind for rects in boxes(apart).values()} == {"pale_sky"}


def test_one_plan_alone_has_its_own_scale() -> None:
    view = viz.MemoryPlan(fused())
    high = boxes(view)["tensor:0"][2].height
    view.event("plan", "offsets")
    (alone,) = boxes(view)["tensor:0"]
    assert alone.height > high
    view.event("plan", "none")
    assert view.refused


def test_there_is_a_frame_for_each_call() -> None:
    net = fused()
    view = viz.MemoryPlan(net)
    frames = view.layout().frames
    assert len(frames) == len(net.calls)
    assert frames[1].marks == {"tensor:0": "read", "tensor:1": "now"}
    assert frames[1].caption.startswith("call 1: conv2d_add_relu")
    used = [
        sum(view.tensors[int(key.split(":")[1])].node.type.bytes for key in frame.marks)
        for frame in frames
    ]
    assert view.bound - 64 * len(net.calls) <= max(used) <= view.bound


def test_a_click_describes_a_tensor() -> None:
    view = viz.MemoryPlan(fused())
    view.event("click", "tensor:1")
    assert view.message.startswith("1 conv2d_add_relu: float32[1, 14, 14, 16], 12,544 bytes, calls")


def test_a_network_of_one_call_has_no_tensors() -> None:
    b = graph.Builder("one")
    net = b.graph(b.relu(b.input("x", (4,))))
    assert repr(viz.MemoryPlan(net)).startswith(
        "0 tensors in 1 call\nown memory            0 bytes\n"
    )
    assert "0 tensors" in viz.MemoryPlan(net).svg()


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not a Graph"):
        viz.MemoryPlan(graph.Builder())  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="no such plan"):
        viz.MemoryPlan(fused(), "best")
