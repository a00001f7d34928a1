"""TokenGantt: what runs when, what the tokens mean, what an edit of them does."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from minitvm import viz
from minitvm.accel import Program, Queue, Stall, Unit, parse, serial, simulate, verify, vta_pynq
from minitvm.base import ArgumentError
from minitvm.viz.accelerator_use import uses
from minitvm.viz.chart import Scale
from minitvm.viz.gantt_run import (
    Segment,
    SimulatedRun,
    Span,
    simulated,
    toggled,
    virtual_threads,
)
from minitvm.viz.gantt_shares import columns_of, most_within
from minitvm.viz.kinds import KINDS
from minitvm.viz.scene import Group, Line, Rect, Text, keys_of

from .accelerator_programs import numbers, talk


@pytest.fixture
def gantt() -> viz.TokenGantt:
    return viz.TokenGantt(talk())


def panel(gantt: viz.TokenGantt, title: str) -> list[str]:
    """The lines of a panel."""
    (found,) = [p for p in gantt.view["panels"] if p["title"] == title]
    return [line["text"] for line in found["lines"]]


def button(gantt: viz.TokenGantt, name: str) -> dict:
    (found,) = [c for c in gantt.view["controls"] if c["name"] == name]
    return found


def whole(seen: SimulatedRun) -> Span:
    """All of the time."""
    return Span(0, seen.run.cycles, True)


def columns(gantt: viz.TokenGantt) -> list[str]:
    """The keys of the columns of a picture from afar."""
    return [key for key in keys_of(gantt.scene()) if key.startswith("c:")]


# --- pictures -------------------------------------------------------------------------------------


def test_as_text(golden) -> None:
    golden(repr(viz.TokenGantt(talk())))


def boxes_of(gantt: viz.TokenGantt) -> dict[int, Group]:
    """The instructions of a picture."""
    groups = [s for s in gantt.scene().shapes if isinstance(s, Group) and s.key.startswith("i:")]
    return {int(group.key[2:]): group for group in groups}


def test_an_instruction_begins_at_its_cycle_in_the_lane_of_its_unit(gantt) -> None:
    seen = simulated(talk(), vta_pynq)
    events = [e for e in seen.events(whole(seen)) if e.start < e.end]
    boxes = {n: group.shapes[0] for n, group in boxes_of(gantt).items()}
    first, last = events[0], max(events, key=lambda e: e.start)
    cycle = (boxes[last.index].x - boxes[first.index].x) / (last.start - first.start)
    for e in events:
        box = boxes[e.index]
        assert box.x - boxes[first.index].x == pytest.approx(cycle * (e.start - first.start))
        assert box.width <= cycle * (e.end - e.start) + 0.01
    lanes = {unit: {boxes[e.index].y for e in events if e.unit is unit} for unit in Unit}
    (load,), (compute,), (store,) = (lanes[unit] for unit in (Unit.LOAD, Unit.COMPUTE, Unit.STORE))
    assert load < compute < store


def test_a_token_is_an_arrow_from_the_lane_of_its_push_to_that_of_its_pop(gantt) -> None:
    boxes = {n: group.shapes[0] for n, group in boxes_of(gantt).items()}
    arrows = [s for s in gantt.scene().shapes if isinstance(s, Line) and s.arrow and s.tip]
    for arrow in arrows:
        words = arrow.tip.split()
        push, pop = (
            boxes[int(words[words.index("by", at) + 1])] for at in (0, words.index("popped"))
        )
        (x0, y0), (x1, _) = arrow.points
        assert push.x <= x0 <= push.x + push.width
        assert y0 in (push.y, push.y + push.height)
        assert pop.x - 5 <= x1 <= pop.x + pop.width + 5
    taken = sum(int((t.taken >= 0).sum()) for t in simulated(talk(), vta_pynq).tokens.values())
    assert len(arrows) == taken


def test_the_bars_of_a_queue_are_as_high_as_its_tokens(gantt) -> None:
    bars = [s for s in gantt.scene().shapes if isinstance(s, Rect) and s.kind == "pale_blue"]
    for queue in {s.tip.split()[2] for s in bars if " in " in s.tip}:
        mine = {
            int(s.tip.split()[0]): s.height for s in bars if s.tip.split()[1:3] == ["in", queue]
        }
        assert len({round(high / count, 3) for count, high in mine.items()}) == 1


def test_a_deadlock_is_drawn_beside_the_lanes() -> None:
    gantt = viz.TokenGantt(talk(2))
    load = numbers(gantt.program, "load inp")[1]
    gantt.event("click", f"f:{load}:push_next")
    scene = gantt.scene()
    stuck = [b.shapes for b in boxes_of(gantt).values() if b.shapes[0].kind == "guard"]
    end = max(s.x + s.width for s in scene.shapes if isinstance(s, Rect) and s.kind == "frame")
    assert stuck
    assert all(rect.x > end and words.text.startswith("waits: ") for rect, _, words in stuck)
    assert scene.title.startswith("deadlock after")
    assert any(s.key.startswith("x:") for s in scene.shapes)


def test_one_unit_at_a_time_as_text(golden) -> None:
    gantt = viz.TokenGantt(talk())
    gantt.event("hiding", False)
    golden(repr(gantt))


def test_a_png_is_no_larger_than_a_photograph_of_a_cat(gantt) -> None:
    assert len(gantt.png()) < 30_000


# --- what is seen ---------------------------------------------------------------------------------


def test_every_instruction_that_ran_is_a_box(gantt) -> None:
    boxes = {key for key in keys_of(gantt.scene()) if key.startswith("i:")}
    assert boxes == {f"i:{n}" for n in range(len(gantt.program.instructions))}


def test_every_token_leads_from_its_push_to_its_pop() -> None:
    seen = simulated(talk(), vta_pynq)
    tokens = seen.tokens[Queue.L2G]
    loads, gemms = numbers(seen.program, "load inp"), numbers(seen.program, "gemm")
    assert (tokens.push[:6].tolist(), tokens.pop[:6].tolist()) == (loads, gemms)
    assert (tokens.taken > tokens.sent).all()


def test_work_and_waiting_fill_the_time_of_a_unit_without_a_gap() -> None:
    seen = simulated(talk(), vta_pynq)
    for unit in Unit:
        mine = [s for s in seen.segments(whole(seen)) if s.unit is unit]
        assert mine[0].begin == 0
        assert all(a.end == b.begin for a, b in pairwise(mine))


def test_waiting_adds_up_to_what_the_simulator_counts() -> None:
    seen = simulated(talk(), vta_pynq)
    compute = [s for s in seen.segments(whole(seen)) if s.unit is Unit.COMPUTE]
    waits = [s for s in compute if s.stall is Stall.L2G]
    assert sum(s.end - s.begin for s in waits) == seen.run.stalls[Unit.COMPUTE][Stall.L2G]


def test_threads_are_what_shares_elements_of_inputs() -> None:
    program = talk(3, 2)
    threads = virtual_threads(uses(program, vta_pynq))
    assert [threads[n] for n in numbers(program, "load inp")] == [0, 1, 0, 1, 0, 1]
    assert [threads[n] for n in numbers(program, "gemm")] == [0, 1, 0, 1, 0, 1]
    assert [threads[n] for n in numbers(program, "shr")] == [-1]  # of both


def test_one_thread_is_not_named() -> None:
    program = talk(3, 1)
    assert set(virtual_threads(uses(program, vta_pynq))) == {-1}


def test_colours_can_be_those_of_the_threads(gantt) -> None:
    gantt.event("colour", "virtual thread")
    assert "virtual thread 1" in gantt.svg()


def test_a_frame_says_what_runs_and_what_waits(gantt) -> None:
    gemm = numbers(gantt.program, "gemm")[0]
    start = simulate(gantt.program).trace[gemm].start
    (frame,) = [f for f in gantt.view["frames"] if f["caption"].startswith(f"cycle {start}\n")]
    assert frame["marks"][f"i:{gemm}"] == "now"
    assert f"compute  runs {gemm} (gemm) until" in frame["caption"]
    assert "store    waits for g2s before" in frame["caption"]


def test_ticks_are_round_numbers() -> None:
    assert Scale(0, 507, 0, 1).ticks(9, 1) == [0, 100, 200, 300, 400, 500]
    assert Scale(1234, 1290, 0, 1).ticks(5, 1) == [1240, 1260, 1280]


def test_the_other_way_to_run_it_is_named(gantt) -> None:
    slow, fast = simulate(serial(gantt.program)).cycles, simulate(gantt.program).cycles
    assert f"one unit at a time: {slow:,} cycles" in repr(gantt)
    assert f"{slow / fast:.2f} times as fast" in repr(gantt)


# --- zoom -----------------------------------------------------------------------------------------


def test_a_long_program_from_afar_is_columns_that_can_be_clicked() -> None:
    shapes = viz.TokenGantt(talk(60)).scene().shapes
    touch = [s for s in shapes if s.key.startswith("c:")]
    lane = next(s for s in shapes if isinstance(s, Rect) and s.kind == "frame")
    assert {s.kind for s in touch} == {"touch"}
    assert [s.x for s in touch[1:]] == pytest.approx([s.x + s.width for s in touch[:-1]])
    assert (lane.x, lane.width) == (touch[0].x, pytest.approx(sum(s.width for s in touch)))
    areas = {s.kind for s in shapes if isinstance(s, viz.Polygon)}
    assert {"pale_sky", "pale_orange", "pale_green", "faint"} <= areas
    texts = {s.text for s in shapes if isinstance(s, Text)}
    assert {"I", "G", "load", "73% busy", "in l2g"} <= texts


def test_a_long_program_from_afar_as_text(golden) -> None:
    golden(repr(viz.TokenGantt(talk(60))))


def test_a_short_program_cannot_be_zoomed(gantt) -> None:
    assert [c["name"] for c in gantt.view["controls"] if c["type"] == "Slider"] == []


def test_a_long_program_is_seen_whole_at_first() -> None:
    gantt = viz.TokenGantt(talk(60))
    assert "window" not in gantt.scene().title
    assert not [key for key in keys_of(gantt.scene()) if key.startswith("i:")]
    assert "zoomed out: a column is " in gantt.svg()


def test_a_picture_from_afar_does_not_grow_with_the_program() -> None:
    short, long = (viz.TokenGantt(talk(steps)).view["svg"] for steps in (60, 600))
    assert len(long) < 1.2 * len(short) < 100_000


def test_a_click_on_a_column_shows_the_instructions_that_run_there() -> None:
    gantt = viz.TokenGantt(talk(60))
    gantt.event("click", columns(gantt)[-1])
    assert "window 4 of 4: cycles " in gantt.scene().title
    last = len(gantt.program.instructions) - 1
    assert f"i:{last}" in keys_of(gantt.scene())


def test_zooming_in_shows_the_beginning_of_the_window_before() -> None:
    gantt = viz.TokenGantt(talk(300))
    gantt.event("zoom", 1)
    gantt.event("window", 1)
    begin = gantt.scene().title.rpartition("cycles ")[2].split(" to ")[0]
    gantt.event("zoom", 3)
    assert f"window 17 of 20: cycles {begin} to " in gantt.scene().title


def test_at_the_last_zoom_all_instructions_are_drawn_in_some_window() -> None:
    gantt = viz.TokenGantt(talk(60))
    gantt.event("zoom", 1)
    keys: set[str] = set()
    for window in range(4):
        gantt.event("window", window)
        keys |= {key for key in keys_of(gantt.scene()) if key.startswith("i:")}
    assert keys == {f"i:{n}" for n in range(len(gantt.program.instructions))}


@pytest.mark.parametrize("hiding", [True, False])
@pytest.mark.parametrize("count", [1, 7, 100])
def test_shares_of_columns_are_those_of_the_single_stretches(hiding: bool, count: int) -> None:
    program = talk(20)
    seen = simulated(program if hiding else serial(program), vta_pynq)
    found = columns_of(seen, whole(seen), count, seen.names)
    for unit in Unit:
        mine = [s for s in seen.segments(whole(seen)) if s.unit is unit]
        works = [s for s in mine if s.stall is None and seen.names[s.index] == "gemm"]
        waits = [s for s in mine if s.stall in tuple(map(Stall, ("l2g", "g2l", "g2s", "s2g")))]
        none = np.zeros(count)
        assert np.allclose(found.work[unit].get("gemm", none), shared(works, found.edges))
        assert np.allclose(found.waits[unit]["tokens"], shared(waits, found.edges))


def shared(segments: list[Segment], edges: np.ndarray) -> list[float]:
    """The share of each column that segments fill, one by one."""
    return [
        sum(max(0.0, min(s.end, high) - max(s.begin, low)) for s in segments) / (high - low)
        for low, high in pairwise(edges.tolist())
    ]


def test_a_unit_that_waits_for_ever_waits_to_the_end_of_the_picture() -> None:
    gantt = viz.TokenGantt(talk(60))
    gantt.event("click", f"f:{numbers(gantt.program, 'load inp')[0]}:push_next")
    seen = simulated(gantt.program, vta_pynq)
    assert Unit.STORE in [b.unit for b in seen.run.blocked]
    assert columns_of(seen, whole(seen), 50, seen.names).waits[Unit.STORE]["tokens"][-1] == 1


def test_the_most_tokens_of_a_column_count() -> None:
    assert most_within([(0, 1), (3, 2), (4, 0)], np.array([0.0, 5, 10])) == [(0, 2), (5, 0)]
    assert most_within([(7, 1)], np.array([0.0, 5, 10, 15])) == [(0, 0), (5, 1), (10, 1)]


def test_a_column_is_explained_where_time_is_played() -> None:
    gantt = viz.TokenGantt(talk(60))
    caption = gantt.view["frames"][30]["caption"]
    assert "compute  gemm 100%" in caption
    assert "tokens   at most l2g 1  g2l 1  g2s 0  s2g 0" in caption


def test_a_dropped_token_is_marked_from_afar_and_can_be_restored_there() -> None:
    gantt = viz.TokenGantt(talk(60))
    push = f"f:{numbers(gantt.program, 'load inp')[50]}:push_next"
    gantt.event("click", push)
    assert push in keys_of(gantt.scene())
    gantt.event("click", push)
    assert gantt.program == talk(60)


@pytest.mark.parametrize(
    ("name", "value"),
    [("zoom", 2), ("zoom", -1), ("zoom", "near"), ("window", 1), ("click", "c:999")],
)
def test_nonsense_about_zooming_is_refused(name: str, value) -> None:
    gantt = viz.TokenGantt(talk(60))
    before = gantt.view["svg"]
    gantt.event(name, value)
    assert gantt.refused
    assert "Error" not in gantt.message
    assert gantt.view["svg"] == before


# --- edited tokens --------------------------------------------------------------------------------


def test_a_push_that_is_dropped_makes_a_deadlock_that_is_named(gantt) -> None:
    load = numbers(gantt.program, "load inp")[0]
    gantt.event("click", f"f:{load}:push_next")
    assert not gantt.refused
    assert f"dropped push_next of instruction {load} (load inp)" in gantt.message
    assert "deadlock: " in gantt.message
    assert "for a token of l2g" in " ".join(panel(gantt, "verdict"))
    assert gantt.scene().title.startswith("deadlock after")


def test_a_pop_that_is_dropped_makes_a_race_with_a_witness(gantt) -> None:
    gemm = numbers(gantt.program, "gemm")[0]
    gantt.event("click", f"f:{gemm}:pop_prev")
    verdict = " ".join(panel(gantt, "verdict"))
    assert "leak: 1 token stays in l2g" in verdict
    assert "both touch INP[0]" in verdict
    assert "an order that the tokens allow" in verdict


def test_the_witness_is_an_order_in_which_the_second_comes_first() -> None:
    program = talk()
    gemm = numbers(program, "gemm")[0]
    lines = simulated(toggled(program, gemm, "pop_prev"), vta_pynq).sentences
    at = next(n for n, line in enumerate(lines) if line.startswith("race"))
    order = lines[at + 1].removeprefix("an order that the tokens allow: ").split(",")[0].split()
    first, second = numbers(program, "load inp")[0], gemm
    assert order[-1] == str(second)
    assert str(first) not in order
    assert lines[at + 1].endswith(f"and instruction {first} (load inp) later")


def test_a_click_on_an_arrow_drops_both_ends_of_the_token(gantt) -> None:
    load, gemm = (numbers(gantt.program, name)[0] for name in ("load inp", "gemm"))
    gantt.event("click", "k:l2g:0")
    assert not gantt.program.instructions[load].flags.push_next
    assert not gantt.program.instructions[gemm].flags.pop_prev
    assert "race: " in gantt.message


def test_a_second_click_restores_the_token(gantt) -> None:
    load = numbers(gantt.program, "load inp")[0]
    before = gantt.program
    gantt.event("click", f"f:{load}:push_next")
    assert f"f:{load}:push_next" in keys_of(gantt.scene())
    gantt.event("click", f"f:{load}:push_next")
    assert gantt.program == before
    assert gantt.message.endswith("ok: no deadlock, no race, no token left over, no hazard")


def test_the_buttons_edit_the_selected_instruction(gantt) -> None:
    gemm = numbers(gantt.program, "gemm")[0]
    gantt.event("push_next", None, f"i:{gemm}")
    assert gantt.program.instructions[gemm].flags.push_next
    assert "leak: 1 token stays in g2s" in panel(gantt, "verdict")


def test_the_program_given_stays_as_it_is() -> None:
    program = talk()
    same = talk()
    viz.TokenGantt(program).event("click", "f:8:push_next")
    assert program == same


def test_restore_brings_all_tokens_back(gantt) -> None:
    before = gantt.program
    assert not button(gantt, "restore")["enabled"]
    gantt.event("click", "k:l2g:0")
    gantt.event("click", "k:g2l:2")
    assert button(gantt, "restore")["enabled"]
    gantt.event("restore")
    assert gantt.program == before


def test_every_single_edit_is_drawn_and_judged_as_the_verifier_judges_it() -> None:
    gantt = viz.TokenGantt(talk(2))
    for n in range(len(gantt.program.instructions)):
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next"):
            gantt.event(flag, None, f"i:{n}")
            if not gantt.refused:
                ok = panel(gantt, "verdict")[0].startswith("ok")
                assert ok == verify(gantt.program).ok
                gantt.event(flag, None, f"i:{n}")
    assert gantt.program == talk(2)


# --- removed tokens -------------------------------------------------------------------------------


def removed(gantt: viz.TokenGantt) -> list[str]:
    """The keys of the crossed-out arrows."""
    return [key for key in keys_of(gantt.scene()) if key.startswith("x:")]


def test_a_removed_token_stays_as_a_crossed_out_arrow(gantt) -> None:
    gantt.event("click", "k:g2l:2")
    assert removed(gantt) == ["x:g2l:2"]
    (group,) = [s for s in gantt.scene().shapes if s.key == "x:g2l:2"]
    assert isinstance(group, Group)
    lines = [s for s in group.shapes if isinstance(s, Line)]
    assert [(s.kind, s.arrow) for s in lines] == [("removed", True), ("red", False), ("red", False)]
    assert KINDS["removed"].dash


def test_an_arrow_is_crossed_out_where_only_its_push_was_dropped(gantt) -> None:
    load = numbers(gantt.program, "load inp")[0]
    gantt.event("click", f"f:{load}:push_next")
    assert removed(gantt) == ["x:l2g:0"]


def test_a_crossed_out_arrow_says_between_which_instructions_it_was(gantt) -> None:
    gantt.event("click", "k:l2g:0")
    load, gemm = (numbers(gantt.program, name)[0] for name in ("load inp", "gemm"))
    assert f"token 0 of l2g, from {load} to {gemm}, removed: click to restore" in gantt.svg()
    assert f"removed: token 0 of l2g ({load} to {gemm})" in repr(gantt)


def test_a_click_on_a_crossed_out_arrow_restores_what_was_dropped_of_it(gantt) -> None:
    before = gantt.program
    gantt.event("click", "k:l2g:0")
    gantt.event("click", "x:l2g:0")
    assert gantt.program == before
    assert removed(gantt) == []
    gantt.event("click", f"f:{numbers(before, 'load inp')[1]}:push_next")
    gantt.event("click", "x:l2g:1")
    assert gantt.program == before


def test_only_a_removed_token_can_be_restored(gantt) -> None:
    gantt.event("click", "x:l2g:0")
    assert gantt.refused
    assert "this token was not removed" in gantt.message


def test_of_many_removed_tokens_the_first_are_named(gantt) -> None:
    for _ in range(5):
        gantt.event("click", "k:l2g:0")
    assert "removed: token 0 of l2g (" in repr(gantt)
    assert ", and 2 more\n" in repr(gantt)


def test_a_removed_token_is_crossed_out_from_afar() -> None:
    gantt = viz.TokenGantt(talk(60))
    gantt.event("click", f"f:{numbers(gantt.program, 'load inp')[50]}:push_next")
    assert removed(gantt) == ["x:l2g:50"]
    assert "removed" in [s.text for s in gantt.scene().shapes if isinstance(s, Text)]


def test_boxes_carry_the_number_by_which_the_verdict_names_them(gantt) -> None:
    for n in numbers(gantt.program, "gemm"):
        (box,) = [s for s in gantt.scene().shapes if s.key == f"i:{n}"]
        assert isinstance(box, Group)
        assert str(n) in [s.text for s in box.shapes if isinstance(s, Text)]


def test_all_instructions_before_nops_leave_room_for_them(gantt) -> None:
    groups = [s for s in gantt.scene().shapes if isinstance(s, Group)]
    boxes = {g.key: s for g in groups for s in g.shapes if isinstance(s, Rect)}
    nop = numbers(gantt.program, "nop")[0]
    assert boxes["i:0"].x + boxes["i:0"].width <= boxes[f"i:{nop}"].x


# --- refused --------------------------------------------------------------------------------------


def test_tokens_pass_between_neighbours_only(gantt) -> None:
    load = numbers(gantt.program, "load inp")[0]
    before = gantt.program
    gantt.event("push_prev", None, f"i:{load}")
    assert gantt.refused
    assert "its flags name the unit before load" in gantt.message
    assert gantt.program is before


def test_finish_carries_no_tokens(gantt) -> None:
    last = len(gantt.program.instructions) - 1
    gantt.event("pop_prev", None, f"i:{last}")
    assert gantt.refused
    assert "cannot carry tokens" in gantt.message


def test_one_unit_at_a_time_cannot_be_edited(gantt) -> None:
    gantt.event("hiding", False)
    gantt.event("click", "f:8:push_next")
    assert gantt.refused
    assert "switch latency hiding on" in gantt.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("click", "f:999:push_next"),
        ("click", "f:3:colour"),
        ("click", "k:l2g:99"),
        ("click", "i:999"),
        ("window", 7),
        ("window", float("nan")),
        ("colour", "purple"),
        ("shout", None),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(gantt, name: str, value) -> None:
    before = gantt.view["svg"]
    gantt.event(name, value)
    assert gantt.refused
    assert "Error" not in gantt.message
    assert gantt.view["svg"] == before


def test_a_button_without_a_selection_says_so(gantt) -> None:
    gantt.event("push_next", None, "")
    assert "no instruction is selected" in gantt.message


@pytest.mark.parametrize("program", [None, "ex finish", 3, [1]])
def test_only_programs_are_drawn(program) -> None:
    with pytest.raises(ArgumentError, match="not a Program"):
        viz.TokenGantt(program)


def test_a_configuration_is_one() -> None:
    with pytest.raises(ArgumentError, match="not a Config"):
        viz.TokenGantt(talk(), "vta_pynq")  # type: ignore[arg-type]


def test_addresses_outside_a_memory_are_refused() -> None:
    with pytest.raises(ArgumentError, match="INP has 2048 elements"):
        viz.TokenGantt(parse("area A inp 9\nld inp[2047] = A[0] x=2\nex finish"))


@pytest.mark.parametrize("text", ["ex finish", "ex nop pop ld\nex finish"])
def test_a_program_that_does_nothing_has_a_picture(text: str) -> None:
    gantt = viz.TokenGantt(parse(text))
    assert isinstance(gantt.program, Program)
    assert gantt.png()
    assert "compute" in repr(gantt)


def test_a_memory_larger_than_any_shipped_one_is_seen_to_its_end() -> None:
    large = replace(vta_pynq, name="large", inp_bytes=1 << 22)
    text = "area A inp 100\nld  inp[65530] = A[0] x=40   push ex\nex  nop   pop ld\nex  finish"
    assert viz.TokenGantt(parse(text, large), large).ascii().startswith("118 cycles")
