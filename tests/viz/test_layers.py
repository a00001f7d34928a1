"""Rooflines, waterfalls, overlap and Amdahl's law: rows of numbers in, pictures out."""

import math
from dataclasses import replace
from itertools import combinations, groupby, pairwise

import pytest

from minitvm import viz
from minitvm.accel import Stall, Unit, parse, serial, simulate, vta_pynq
from minitvm.base import ArgumentError
from minitvm.viz.chart import seconds_text
from minitvm.viz.layers_rows import ridge
from minitvm.viz.scene import Rect, Text

from .accelerator_programs import talk

LOAD, COMPUTE, STORE = Unit
OVERLAP = {(LOAD,): 100, (COMPUTE,): 300, (LOAD, COMPUTE): 550, (COMPUTE, STORE): 50, (): 0}
ROWS = [
    viz.LayerRow(
        name="C2",
        operations=2 * 256 * 800,
        bytes_moved=4096,
        baseline_cycles=1400,
        cycles=1000,
        roof=0.9,
        overlap=OVERLAP,
    ),
    viz.LayerRow(
        name="C3",
        operations=2 * 256 * 400,
        bytes_moved=6400,
        baseline_cycles=1300,
        cycles=1000,
        roof=0.55,
        overlap={(LOAD,): 500, (COMPUTE,): 500},
    ),
]
WORKS = [
    viz.NetworkPart("convolutions", 3.4e9, 0.04),
    viz.NetworkPart("first", 0.24e9),
    viz.NetworkPart("rest", 2e7),
]


# --- pictures -------------------------------------------------------------------------------------


def test_a_roofline_as_text(golden) -> None:
    golden(repr(viz.LayerRoofline(ROWS)))


def test_a_waterfall_as_text(golden) -> None:
    golden(repr(viz.StallWaterfall(talk())))


def test_the_parts_of_a_waterfall_follow_each_other_and_have_their_share_of_the_width() -> None:
    fall = viz.StallWaterfall(talk())
    scene = fall.scene()
    bars = [s for s in scene.shapes if isinstance(s, Rect) and s.key.startswith("part:")]
    total = sum(fall.parts.values())
    full = sum(bar.width for bar in bars)
    assert [bar.width / full for bar in bars] == pytest.approx(
        [cycles / total for cycles in fall.parts.values()], abs=0.005
    )
    for bar, after in pairwise(bars):
        assert after.x == pytest.approx(bar.x + bar.width, abs=1)
        assert after.y > bar.y
    texts = [s.text for s in scene.shapes if isinstance(s, Text)]
    assert {"all cycles", *fall.parts, f"{total:,}"} <= {*texts}


def test_overlap_as_text(golden) -> None:
    golden(repr(viz.OverlapBars(ROWS)))


def test_the_parts_of_a_layer_fill_its_share_of_the_time_of_the_baseline() -> None:
    layer = next(s for s in viz.OverlapBars(ROWS).scene().shapes if s.key == "layer:0")
    assert isinstance(layer, viz.Group)
    baseline, *parts = [s for s in viz.scene.walk_shapes(layer.shapes) if isinstance(s, Rect)]
    assert [part.kind for part in parts] == ["pale_sky", "pale_orange", "sky", "orange"]
    assert sum(part.width for part in parts) / baseline.width == pytest.approx(1000 / 1400)
    assert [s.text for s in viz.scene.walk_shapes(layer.shapes) if isinstance(s, Text)] == [
        "L", "C", "LC", "CS"
    ]  # fmt: skip


def test_amdahls_law_as_text(golden) -> None:
    golden(repr(viz.AmdahlBar(WORKS)))


def test_each_bar_is_as_long_as_its_time() -> None:
    bar, a = viz.AmdahlBar(WORKS), viz.amdahl(tuple(WORKS), viz.CORTEX_A9)
    rects = [s for s in viz.scene.walk_shapes(bar.scene().shapes) if isinstance(s, Rect)]
    rows = [[*row] for _, row in groupby([r for r in rects if r.height > 20], lambda r: r.y)]
    wide = [sum(r.width for r in row) for row in rows[:3]]
    assert [w / wide[0] for w in wide] == pytest.approx(
        [1, a.together / a.alone, a.limit / a.alone], rel=0.05
    )
    assert [row[0].kind for row in rows[:3]] == ["pale_sky", "bind", "pale_pink"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: viz.LayerRoofline(ROWS),
        lambda: viz.StallWaterfall(talk()),
        lambda: viz.OverlapBars(ROWS),
        lambda: viz.AmdahlBar(WORKS),
    ],
)
def test_their_pngs_are_small(make) -> None:
    assert len(make().png()) < 15_000


# --- two roofs ------------------------------------------------------------------------------------

RESNET = [  # operations, bytes, cycles of the baseline and of the program, own roof, baseline bytes
    ("C2", 231211008, 745928, 631135, 550357, 0.835, 502948),
    ("C3", 25690112, 258120, 193144, 146951, 0.360, 229540),
    ("C4", 115605504, 718560, 348021, 282597, 0.835, 508416),
    ("C5", 12845056, 245368, 110281, 83167, 0.360, 216064),
    ("C6", 231211008, 725784, 576492, 502727, 0.909, 512028),
    ("C7", 115605504, 799104, 319166, 256101, 0.909, 499708),
    ("C8", 12845056, 218560, 74161, 56443, 0.529, 155872),
    ("C9", 231211008, 791992, 570630, 478810, 0.952, 694268),
    ("C10", 115605504, 1282752, 396747, 244229, 0.952, 1232544),
    ("C11", 12845056, 218560, 62255, 43525, 0.690, 175264),
    ("C12", 231211008, 2412224, 768667, 469809, 0.974, 2392480),
]


def resnet() -> viz.LayerRoofline:
    """The layers of ResNet-18: arrows side by side, roofs one above the other."""
    names = (
        "name",
        "operations",
        "bytes_moved",
        "baseline_cycles",
        "cycles",
        "roof",
        "baseline_bytes",
    )
    return viz.LayerRoofline(
        [viz.LayerRow(**dict(zip(names, row, strict=True)), against="one thread") for row in RESNET]
    )


def labels(scene: viz.Scene) -> list[viz.Rect]:
    """The boxes behind names."""
    return [s for s in scene.shapes if isinstance(s, viz.Rect) and s.kind == "paper"]


def test_no_two_names_of_eleven_layers_overlap() -> None:
    boxes = labels(resnet().scene())
    assert len(boxes) >= 11
    for a, b in combinations(boxes, 2):
        apart = a.x + a.width <= b.x or b.x + b.width <= a.x
        assert apart or a.y + a.height <= b.y or b.y + b.height <= a.y


def test_every_layer_has_a_name_within_the_axes() -> None:
    scene = resnet().scene()
    bold = [s.text for s in scene.shapes if isinstance(s, viz.Text) and s.bold]
    assert bold[1:] == [row[0] for row in RESNET]
    axes = [s.points for s in scene.shapes if isinstance(s, viz.Line) and s.kind == "axis"]
    (left, bottom), (right, _) = max(axes, key=lambda ends: ends[1][0] - ends[0][0])
    assert all(b.x >= left and b.x + b.width <= right for b in labels(scene))
    assert all(b.y + b.height <= bottom for b in labels(scene))


def test_an_arrow_leads_up_from_a_disc_to_a_square_below_the_roof_of_the_layer() -> None:
    layers = [s for s in resnet().scene().shapes if s.key.startswith("layer:")]
    assert len(layers) == len(RESNET)
    for layer in layers:
        assert isinstance(layer, viz.Group)
        _, disc, arrow, square, roof = layer.shapes
        assert (disc.x, disc.y) == arrow.points[0]
        assert (square.x + square.width / 2, square.y + square.height / 2) == arrow.points[1]
        assert roof.y <= square.y <= disc.y


def test_an_arrow_starts_at_the_intensity_of_its_baseline() -> None:
    lean = replace(ROWS[0], baseline_bytes=2 * ROWS[0].bytes_moved)
    (layer,) = [s for s in viz.LayerRoofline([lean]).scene().shapes if s.key == "layer:0"]
    assert isinstance(layer, viz.Group)
    (arrow,) = [s for s in layer.shapes if isinstance(s, viz.Line) and s.arrow]
    (left, _), (right, _) = arrow.points
    assert left < right  # the baseline moves twice as much: half as many operations a byte


def test_the_baseline_is_below_the_roof_of_its_own_bytes() -> None:
    slow, fast = talk(8, 1), talk(4, 2)
    row = viz.layer_row("talk", fast, baseline=slow)
    assert row.baseline_bytes == viz.layer_row("talk", slow).bytes_moved
    assert row.baseline_intensity == row.operations / row.baseline_bytes
    assert row.utilisation(vta_pynq, hiding=False) <= row.baseline_intensity / ridge(vta_pynq)


def test_bytes_of_a_baseline_are_a_number_above_0() -> None:
    with pytest.raises(ArgumentError, match="baseline_bytes: -1"):
        replace(ROWS[0], baseline_bytes=-1)


def test_the_same_program_one_unit_at_a_time_moves_the_same_bytes() -> None:
    row = viz.layer_row("talk", talk())
    assert (row.baseline_intensity, row.against) == (row.intensity, "one unit at a time")


def test_what_a_layer_is_compared_with_has_a_name() -> None:
    other = viz.layer_row("talk", talk(4, 2), baseline=talk(8, 1), against="one thread")
    same = viz.layer_row("talk", talk(4, 2))
    assert repr(viz.LayerRoofline([other])).endswith("\nbaseline: one thread")
    assert repr(viz.LayerRoofline([same])).endswith("\nbaseline: one unit at a time")
    assert repr(viz.LayerRoofline([same, other])).endswith("\nbaseline: the baseline of each")
    assert repr(viz.OverlapBars([other])).endswith(
        f"{other.speedup:.2f} times as fast as one thread"
    )


# --- rows -----------------------------------------------------------------------------------------


def test_utilisation_is_the_useful_part_of_all_multiply_adds() -> None:
    assert ROWS[0].utilisation(vta_pynq) == 0.8
    assert ROWS[0].utilisation(vta_pynq, hiding=False) == 800 / 1400


def test_a_layer_has_two_roofs() -> None:
    assert ROWS[0].intensity == 100  # right of the ridge, at 64 operations a byte
    assert (ROWS[0].dram_roof(vta_pynq), ROWS[0].bound(vta_pynq)) == (1.0, 0.9)
    assert ROWS[1].intensity == 32
    assert (ROWS[1].dram_roof(vta_pynq), ROWS[1].bound(vta_pynq)) == (0.5, 0.5)


def test_a_row_is_what_the_simulator_counts() -> None:
    program = talk()
    row, run = viz.layer_row("talk", program), simulate(program)
    assert row.cycles == run.cycles
    assert row.baseline_cycles == simulate(serial(program)).cycles
    assert row.utilisation(vta_pynq) == pytest.approx(run.utilisation)
    assert row.bytes_moved == 6 * 16 + 256 + 2 * 4  # more than it writes
    assert row.overlap == run.overlap


def test_no_layer_is_above_its_roofs() -> None:
    for threads in (1, 2, 3):
        row = viz.layer_row("talk", talk(4, threads))
        assert row.utilisation(vta_pynq) <= row.bound(vta_pynq)


def test_the_baseline_may_be_another_program() -> None:
    row = viz.layer_row("talk", talk(4, 2), baseline=talk(8, 1))
    assert row.baseline_cycles == simulate(talk(8, 1)).cycles


@pytest.mark.parametrize("unit", Unit)
def test_the_parts_of_a_waterfall_add_up(unit: Unit) -> None:
    run = simulate(talk())
    assert sum(viz.cycle_parts(run, unit).values()) == run.cycles


def test_a_waterfall_names_waiting_by_its_reason() -> None:
    run = simulate(talk())
    assert viz.cycle_parts(run)["waits: l2g"] == run.stalls[COMPUTE][Stall.L2G]


def test_one_unit_at_a_time_waits_more() -> None:
    fall = viz.StallWaterfall(talk())
    hidden = fall.parts["waits: l2g"]
    fall.event("hiding", False)
    assert fall.parts["waits: l2g"] > hidden
    assert "one unit at a time" in fall.scene().title


def test_a_waterfall_says_how_much_units_overlap() -> None:
    alone = viz.StallWaterfall(serial(talk())).scene().title
    assert alone.endswith("cycles; units overlap in 0.0% of them")
    run = simulate(talk())
    several = sum(n for units, n in run.overlap.items() if len(units) > 1)
    title = viz.StallWaterfall(talk()).scene().title
    assert title.endswith(
        f"as it runs: {run.cycles:,} cycles; units overlap in {several / run.cycles:.1%} of them"
    )


def test_a_waterfall_shows_each_unit() -> None:
    fall = viz.StallWaterfall(talk())
    fall.event("unit", "load")
    assert list(fall.parts)[:2] == ["load wgt", "load inp"]
    fall.event("click", "part:0")
    assert fall.message.startswith("load wgt: ")


# --- Amdahl's law ---------------------------------------------------------------------------------


def test_what_stays_on_the_cpu_limits_the_whole() -> None:
    works = (viz.NetworkPart("fast", 9e9, 0.5), viz.NetworkPart("stays", 1e9))
    found = viz.amdahl(works, viz.Cpu("one", 1.0))
    assert (found.alone, found.together, found.limit) == (10.0, 1.5, 1.0)
    assert (found.speedup, found.most) == (pytest.approx(6.667, abs=1e-3), 10.0)


def test_without_a_rest_there_is_no_limit() -> None:
    assert viz.amdahl((viz.NetworkPart("all", 1e9, 0.1),), viz.CORTEX_A9).most == math.inf
    assert "infinitely" not in viz.AmdahlBar([viz.NetworkPart("all", 1e9, 0.1)]).svg()


def test_all_bars_stand_inside_the_picture_where_the_accelerator_is_slower_than_the_cpu() -> None:
    scene = viz.AmdahlBar(WORKS, viz.Cpu("fast", 1e4)).scene()
    ends = [shape.x + shape.width for shape in scene.shapes if isinstance(shape, Rect)]
    assert max(ends) <= scene.width


@pytest.mark.parametrize("gflops", [1.0, 50.0, 88.0, 101.0, 1e3, 1e4])
def test_no_text_beside_a_bar_is_cut(gflops: float) -> None:
    cpu = viz.Cpu("a machine whose name is much longer than any other, and longer still", gflops)
    scene = viz.AmdahlBar(WORKS, cpu).scene()
    texts = [shape for shape in scene.shapes if isinstance(shape, Text)]
    wide = [viz.text_width(t.text, t.size) * (1.12 if t.bold else 1) for t in texts]
    half = {"start": 1, "middle": 0.5, "end": 0}
    ends = [t.x + w * half[t.anchor] for t, w in zip(texts, wide, strict=True)]
    assert max(ends) <= scene.width


def test_another_speed_can_be_typed() -> None:
    bar = viz.AmdahlBar(WORKS)
    bar.event("gflops", "22")
    assert bar.cpu == viz.Cpu("another CPU", 22.0)
    assert bar.message.startswith("CPU alone 166 ms")
    bar.event("cpu", "Cortex-A9")
    assert bar.cpu == viz.CORTEX_A9


def test_a_faster_cpu_is_helped_less() -> None:
    slow, fast = (viz.amdahl(tuple(WORKS), viz.Cpu("c", g)).speedup for g in (2.0, 20.0))
    assert fast < slow


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.656, "1.66 s"), (0.0123, "12.3 ms"), (4e-6, "4 µs"), (1e-9, "1 ns")]
)
def test_times_have_units(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


# --- clicks and refusals --------------------------------------------------------------------------


def test_a_clicked_layer_says_what_limits_it() -> None:
    roof = viz.LayerRoofline(ROWS)
    roof.event("click", "layer:0")
    assert roof.message.endswith("at most 90.0%: the limit is resets and ALU operations")
    roof.event("click", "layer:1")
    assert roof.message.endswith("at most 50.0%: the limit is the bandwidth of DRAM")


def test_each_layer_is_a_frame() -> None:
    frames = viz.LayerRoofline(ROWS).view["frames"]
    assert [f["marks"] for f in frames] == [
        {f"layer:{n}": "now", f"row:{n}": "now"} for n in range(2)
    ]


def test_a_clicked_part_of_the_network_says_its_times() -> None:
    bar = viz.AmdahlBar(WORKS)
    bar.event("click", "work:0")
    assert bar.message == "convolutions: 1.55 s on the CPU, 40 ms on the accelerator"


@pytest.mark.parametrize("rows", [[], None, 3, "C2", [1], ROWS * 30])
@pytest.mark.parametrize("visual", [viz.LayerRoofline, viz.OverlapBars, viz.AmdahlBar])
def test_only_rows_are_drawn(visual, rows) -> None:
    with pytest.raises(ArgumentError, match=r"not a list of|at most 40"):
        visual(rows)


def test_overlap_needs_counts_of_it() -> None:
    row = viz.LayerRow(name="C2", operations=1, bytes_moved=1, baseline_cycles=1, cycles=1)
    with pytest.raises(ArgumentError, match="the row has no overlap"):
        viz.OverlapBars([row])


@pytest.mark.parametrize(
    ("field", "value"),
    [("cycles", 0), ("bytes_moved", -1), ("operations", "many"), ("roof", 1.5), ("roof", math.nan)],
)
def test_a_row_has_numbers_that_can_be(field: str, value) -> None:
    good = {"operations": 1, "bytes_moved": 1, "baseline_cycles": 1, "cycles": 1}
    with pytest.raises(ArgumentError, match=r"LayerRow\('C2'\): "):
        viz.LayerRow(name="C2", **{**good, field: value})


def test_a_program_that_deadlocks_has_no_row() -> None:
    with pytest.raises(ArgumentError, match="deadlock: compute waits"):
        viz.layer_row("stuck", parse("ex nop pop ld\nex finish"))


def test_a_program_that_multiplies_nothing_has_no_row() -> None:
    with pytest.raises(ArgumentError, match="the program has no GEMM"):
        viz.layer_row("idle", parse("ex finish"))


@pytest.mark.parametrize("text", ["fast", "", "-3", "0", "nan", "inf"])
def test_a_speed_is_a_number_above_0(text: str) -> None:
    bar = viz.AmdahlBar(WORKS)
    bar.event("gflops", text)
    assert bar.refused
    assert "Error" not in bar.message
    assert bar.cpu == viz.CORTEX_A9


@pytest.mark.parametrize("gflops", [0, -1, "2", None])
def test_a_cpu_has_a_speed(gflops) -> None:
    with pytest.raises(ArgumentError, match="not a number above 0"):
        viz.Cpu("c", gflops)


def test_unknown_events_are_refused() -> None:
    made = [viz.LayerRoofline(ROWS), viz.OverlapBars(ROWS), viz.AmdahlBar(WORKS)]
    for visual in [*made, viz.StallWaterfall(talk())]:
        visual.event("shout")
        assert visual.message.endswith("does not offer this event")
