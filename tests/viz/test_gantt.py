"""TokenGantt: what runs when, what the tokens mean, what an edit of them does."""

from itertools import pairwise

import pytest

from minitvm import viz
from minitvm.accel import Program, Queue, Stall, Unit, parse, serial, simulate, verify, vta_pynq
from minitvm.base import ArgumentError
from minitvm.viz.accelerator_use import uses
from minitvm.viz.gantt_run import MOST, look, toggled, verdict_lines, virtual_threads
from minitvm.viz.gantt_scene import ticks
from minitvm.viz.scene import keys_of

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


# --- pictures -------------------------------------------------------------------------------------


def test_as_text(golden) -> None:
    golden(repr(viz.TokenGantt(talk())))


def test_as_svg(golden) -> None:
    golden(viz.TokenGantt(talk(2)).svg())


def test_a_deadlock_as_svg(golden) -> None:
    gantt = viz.TokenGantt(talk(2))
    load = numbers(gantt.program, "load inp")[1]
    gantt.event("click", f"f:{load}:push_next")
    golden(gantt.svg())


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
    seen = look(talk(), vta_pynq)
    tokens = [t for t in seen.tokens if t.queue is Queue.L2G]
    loads, gemms = numbers(seen.program, "load inp"), numbers(seen.program, "gemm")
    assert [(t.push, t.pop) for t in tokens][:6] == list(zip(loads, gemms, strict=True))
    assert all(t.taken > t.sent for t in tokens)


def test_work_and_waiting_fill_the_time_of_a_unit_without_a_gap() -> None:
    seen = look(talk(), vta_pynq)
    for unit in Unit:
        mine = [s for s in seen.segments if s.unit is unit]
        assert mine[0].begin == 0
        assert all(a.end == b.begin for a, b in pairwise(mine))


def test_waiting_adds_up_to_what_the_simulator_counts() -> None:
    seen = look(talk(), vta_pynq)
    waits = [s for s in seen.segments if s.unit is Unit.COMPUTE and s.stall is Stall.L2G]
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
    assert ticks(0, 507, 9) == [0, 100, 200, 300, 400, 500]
    assert ticks(1234, 1290, 5) == [1240, 1260, 1280]


def test_the_other_way_to_run_it_is_named(gantt) -> None:
    slow, fast = simulate(serial(gantt.program)).cycles, simulate(gantt.program).cycles
    assert f"one unit at a time: {slow:,} cycles" in repr(gantt)
    assert f"{slow / fast:.2f} times as fast" in repr(gantt)


def test_a_long_program_is_shown_through_windows() -> None:
    gantt = viz.TokenGantt(talk(60))
    assert len(keys_of(gantt.scene())) < 6 * MOST
    assert "window 1 of 4: cycles 0 to" in gantt.scene().title
    gantt.event("window", 3)
    last = len(gantt.program.instructions) - 1
    assert f"i:{last}" in keys_of(gantt.scene())


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
    assert "leak: 1 tokens stay in l2g" in verdict
    assert "both touch INP[0]" in verdict
    assert "an order that the tokens allow" in verdict


def test_the_witness_is_an_order_in_which_the_second_comes_first() -> None:
    program = talk()
    gemm = numbers(program, "gemm")[0]
    lines = verdict_lines(look(toggled(program, gemm, "pop_prev"), vta_pynq))
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
    assert "leak: 1 tokens stay in g2s" in panel(gantt, "verdict")


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


# --- refused --------------------------------------------------------------------------------------


def test_tokens_pass_between_neighbours_only(gantt) -> None:
    load = numbers(gantt.program, "load inp")[0]
    before = gantt.program
    gantt.event("push_prev", None, f"i:{load}")
    assert gantt.refused
    assert "between load and no neighbour" in gantt.message
    assert gantt.program is before


def test_finish_carries_no_tokens(gantt) -> None:
    last = len(gantt.program.instructions) - 1
    gantt.event("pop_prev", None, f"i:{last}")
    assert gantt.refused
    assert "carries tokens" in gantt.message


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
    with pytest.raises(ArgumentError, match="not a program"):
        viz.TokenGantt(program)


def test_a_configuration_is_one() -> None:
    with pytest.raises(ArgumentError, match="not a configuration"):
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
