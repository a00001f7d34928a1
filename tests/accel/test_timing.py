"""The model of time: formulas for small streams, and what no parameter may change."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from minitvm.accel import (
    Config,
    Counters,
    Program,
    Queue,
    Stall,
    Unit,
    counters,
    durations,
    measure,
    parse,
    serial,
    simulate,
    text,
    verify,
    vta_pynq,
)

Fixture = Callable[..., Program]


def ideal(load: int, compute: int, **change: int) -> Config:
    """A load of one element takes `load` cycles, a GEMM of one micro-operation `compute`."""
    base = replace(vta_pynq, issue=0, dma_row=0, token_latency=0)
    return replace(base, dma_latency=load - 2, fill=compute - 1, **change)


LAYER = (14, 14, 32, 64, 3, 1, 1, 7)
LOADS_AND_GEMMS = [(10, 10), (10, 30), (30, 10), (7, 8)]

# --- one instruction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("ld  inp[0] = A[0] x=3", 4 + 32 + (6 + 1)),
        ("ld  inp[0] = A[0] y=4 x=3 stride=8", 4 + 32 + 4 * (6 + 1)),
        ("ld  inp[0] = A[0] y=2 x=3 stride=8 pad=1,0,0,1", 4 + 32 + 2 * (6 + 1) + (3 * 4 - 6)),
        ("ex  acc[0] = B[0] x=3", 4 + 32 + (24 + 1)),
        ("ex  acc_8bit[0] = A[0] x=3", 4 + 32 + (6 + 1)),
        ("ex  uop[0] = uops[0] x=3", 4 + 32 + (2 + 1)),  # 12 bytes are 2 beats of 8
        ("st  C[0] = acc[0] y=2 x=3", 4 + 32 + 2 * (6 + 1)),
        ("ex  gemm u[0:3] outer=5 inner=7", 4 + 8 + 105),
        ("ex  reset u[0:3]", 4 + 8 + 3),
        ("ex  add u[0:3]", 4 + 8 + 2 * 3),
        ("ex  add u[0:3] imm=1", 4 + 8 + 2 * 3),
        ("ex  gemm u[0:0]", 4 + 8),
        ("ld  nop", 0),
        ("ex  nop", 0),
        ("st  nop", 0),
    ],
)
def test_durations_are_those_of_the_formula(line: str, cycles: int) -> None:
    head = "area A inp 64\narea B acc 8\narea C out 8\nuop 0 0\nuop 1 1\nuop 2 2\n"
    program = parse(f"{head}{line}\nex finish")
    assert durations(program, vta_pynq) == [cycles, 0]
    assert measure(program, vta_pynq).cycles == cycles


def test_an_alu_that_reads_two_registers_is_half_as_fast_in_chisel() -> None:
    chisel = replace(vta_pynq, alu_ii_imm=1, issue=0, fill=0)
    program = parse("uop 0 0\nex add u[0:1] outer=64\nex add u[0:1] outer=64 imm=1\nex finish")
    assert durations(program, chisel) == [128, 64, 0]


def test_a_program_of_gemms_issues_one_micro_operation_a_cycle() -> None:
    head = "uop 0 0\nuop 1 1\nuop 2 2\nex uop[0] = uops[0] x=3\n"
    cycles = [
        measure(parse(f"{head}ex gemm u[0:3] outer={n}\nex finish"), vta_pynq).cycles - 3 * n
        for n in (1, 10, 1000)
    ]
    assert cycles == [39 + 12] * 3


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("load", "compute"), LOADS_AND_GEMMS)
@pytest.mark.parametrize("steps", [1, 3, 128])
def test_one_thread_adds_up(talk: Fixture, load: int, compute: int, steps: int) -> None:
    run = measure(talk(steps, 1), ideal(load, compute))
    assert run.cycles == steps * (load + compute)


@pytest.mark.parametrize(("load", "compute"), LOADS_AND_GEMMS)
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_hide_the_shorter_of_the_two(
    talk: Fixture, load: int, compute: int, threads: int
) -> None:
    run = measure(talk(16, threads), ideal(load, compute))
    assert run.cycles == threads * 16 * max(load, compute) + min(load, compute)


def test_a_third_thread_hides_nothing_more(talk: Fixture) -> None:
    assert measure(talk(128, 2), ideal(10, 10)).cycles == 2570
    assert measure(talk(128, 3), ideal(10, 10)).cycles == 3850


def test_the_talks_stream_has_520_instructions(talk: Fixture, tokens) -> None:
    program = talk(128, 2)
    assert len(program.instructions) == 520
    ends = {queue: tokens(program).ends(queue) for queue in Queue}
    assert {queue.value: (len(push), len(pop)) for queue, (push, pop) in ends.items()} == {
        "l2g": (257, 257),
        "g2l": (258, 258),
        "g2s": (0, 0),
        "s2g": (1, 1),
    }


def gantt(program: Program, config: Config, cycles: int) -> str:
    """One line per unit: which of its tiles it works on, a letter for `cycles` cycles."""
    events = measure(program, config).trace
    rows = {Unit.LOAD: "", Unit.COMPUTE: ""}
    for event in events:
        if event.end > event.start:
            row = rows[event.unit]
            rows[event.unit] = row.ljust(event.start // cycles, ".") + "#"
    return "\n".join(f"{unit.value:8}{row}" for unit, row in rows.items())


def test_two_threads_overlap_and_one_does_not(talk: Fixture) -> None:
    assert gantt(talk(3, 1), ideal(10, 10), 10) == "load    #.#.#\ncompute .#.#.#"
    assert gantt(talk(3, 2), ideal(10, 10), 10) == "load    ######\ncompute .######"


def test_a_convolution_of_one_thread_never_overlaps(conv) -> None:
    config = replace(vta_pynq, token_latency=0)
    program = conv(*LAYER).program()
    assert measure(program, config).cycles == sum(durations(program, config))


def test_two_threads_are_faster(conv) -> None:
    one, two = (simulate(conv(*LAYER, threads).program()) for threads in (1, 2))
    assert one.counters.gemm_counter == two.counters.gemm_counter
    assert two.cycles < one.cycles
    assert two.utilisation > one.utilisation


# --- serial ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_serial_takes_the_sum_and_computes_the_same(conv, threads: int) -> None:
    config = replace(vta_pynq, token_latency=0)
    layer = conv(*LAYER, threads)
    inputs = layer.inputs(np.random.default_rng(0))
    program = layer.program()
    run = simulate(serial(program), config, inputs)
    assert run.cycles == sum(durations(program, config))
    assert (run.outputs["O"] == simulate(program, config, inputs).outputs["O"]).all()
    assert [cycles for units, cycles in run.overlap.items() if len(units) > 1] == [0] * 4


def test_serial_goes_through_compute_where_no_queue_leads() -> None:
    program = parse("""
        area A inp 1
        area C out 1
        st  C[0] = acc[0] x=1
        ld  inp[0] = A[0] x=1
        st  C[0] = acc[0] x=1
        ex  finish""")
    assert text(serial(program)).splitlines()[2:] == [
        "st  C[0] = acc[0] x=1   push ex",
        "ex  nop   pop st   push ld",
        "ld  inp[0] = A[0] x=1   pop ex   push ex",
        "ex  nop   pop ld   push st",
        "st  C[0] = acc[0] x=1   pop ex   push ex",
        "ex  nop   pop st",
        "ex  finish",
    ]
    found = verify(serial(program))
    assert (found.deadlock, found.leaks, found.races) == ((), (), ())


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_cycles_lie_between_the_busiest_unit_and_the_sum(conv, threads: int) -> None:
    run = simulate(conv(*LAYER, threads).program(), replace(vta_pynq, token_latency=0))
    assert max(run.busy.values()) <= run.cycles <= sum(run.busy.values())


@pytest.mark.parametrize(
    "change",
    [
        {"port_bytes": 4},
        {"dma_latency": 64},
        {"dma_row": 9},
        {"issue": 5},
        {"fill": 20},
        {"alu_ii_imm": 4},
        {"token_latency": 7},
        {"command_queue": 2},
        {"token_queue": 1},
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_slower_part_never_makes_it_faster(conv, threads: int, change: dict) -> None:
    program = conv(*LAYER, threads).program()
    slow, fast = measure(program, replace(vta_pynq, **change)), measure(program, vta_pynq)
    assert not slow.blocked
    assert slow.cycles >= fast.cycles


def test_counters_do_not_depend_on_time(conv) -> None:
    program = conv(*LAYER, 2).program()
    slow = replace(vta_pynq, port_bytes=1, dma_latency=1000, alu_ii_imm=9)
    assert simulate(program).counters == simulate(program, slow).counters == counters(
        program, vta_pynq
    )  # fmt: skip


def test_cycles_are_split_over_the_sets_of_units(conv) -> None:
    run = simulate(conv(*LAYER, 2).program())
    assert len(run.overlap) == 8
    assert sum(run.overlap.values()) == run.cycles
    for unit in Unit:
        assert run.busy[unit] == sum(n for units, n in run.overlap.items() if unit in units)


def test_every_cycle_of_a_unit_is_work_or_has_a_reason(conv) -> None:
    run = simulate(conv(*LAYER, 2).program(), replace(vta_pynq, command_queue=3, token_queue=1))
    for unit in Unit:
        own = [event for event in run.trace if event.unit is unit]
        rooms = [n for event in own for stall, n in event.stalls if stall is Stall.ROOM]
        last = max(event.end for event in own) + sum(
            n for stall, n in own[-1].stalls if stall is Stall.ROOM
        )
        assert run.busy[unit] + sum(run.stalls[unit].values()) == last
        assert sum(rooms) == run.stalls[unit].get(Stall.ROOM, 0)


# --- queues and channels --------------------------------------------------------------------------


def test_a_unit_waits_for_the_token_of_a_neighbour() -> None:
    program = parse("""
        area A inp 1
        uop 0 0
        ld  inp[0] = A[0] x=1   push ex
        ex  reset u[0:1]   pop ld
        ex  finish""")
    _, event, _ = measure(program, vta_pynq).trace
    assert (event.name, event.start, event.stalls) == ("reset", 40, ((Stall.L2G, 40),))


def test_readers_of_dram_take_turns_and_store_has_its_own_channel() -> None:
    program = parse("""
        area A inp 1
        area B acc 1
        area C out 1
        ld  inp[0] = A[0] x=1
        ex  acc[0] = B[0] x=1
        st  C[0] = acc[0] x=1
        ex  finish""")
    load, acc, store, _ = measure(program, vta_pynq).trace
    assert (load.start, load.end) == (0, 39)
    assert (acc.start, acc.stalls) == (39, ((Stall.CHANNEL, 39),))
    assert (store.start, store.stalls) == (0, ())


def test_the_channel_serves_those_who_wait_as_they_came() -> None:
    program = parse("""
        area A inp 100
        area B acc 1
        uop 0 0
        ld  inp[0] = A[0] x=10
        ld  inp[0] = A[0] x=10
        ex  reset u[0:1]
        ex  acc[0] = B[0] x=1
        ex  finish""")
    first, second, _, acc, _ = measure(program, vta_pynq).trace
    assert (first.end, acc.start, second.start) == (57, 57, 57 + acc.end - acc.start)


LOADS_FIRST = (
    "area A inp 1\nuop 0 0\nex nop push ld\n"
    + "ld inp[0] = A[0] x=1 pop ex push ex\n" * 6
    + "ex reset u[0:1] pop ld push ld\n" * 6
    + "ld nop pop ex\nex finish"
)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_all_loads_first_deadlock_where_the_command_queue_is_short(depth: int) -> None:
    blocked = measure(parse(LOADS_FIRST), replace(vta_pynq, command_queue=depth)).blocked
    assert bool(blocked) == (depth < 4)  # one load has run, one waits in the unit
    if blocked:
        assert [str(one) for one in blocked] == [
            "load waits at instruction 2 (load inp) for a token of g2l",
            "compute waits at instruction 7 (reset) to be fetched: "
            "the command queue of another unit is full",
        ]


def test_interleaved_instructions_need_no_command_queue_to_speak_of(talk: Fixture) -> None:
    assert measure(talk(16, 2), replace(vta_pynq, command_queue=1)).blocked == ()


def test_a_full_queue_of_tokens_makes_its_pusher_wait() -> None:
    program = parse("""
        uop 0 0
        ld  nop   push ex
        ld  nop   push ex
        ex  reset u[0:1]
        ex  nop   pop ld
        ex  nop   pop ld
        ex  finish""")
    config = replace(vta_pynq, token_queue=1)
    assert measure(program, config).trace[1].stalls == ((Stall.ROOM, 13),)
    assert measure(program, config).blocked == ()


def test_a_token_is_popped_before_its_instruction_waits_for_the_channel() -> None:
    program = parse("""
        area A inp 1
        area B acc 1
        ld  inp[0] = A[0] x=1
        st  nop   push ex
        st  nop   push ex
        ex  acc[0] = B[0] x=1   pop st
        ex  nop   pop st
        ex  finish""")
    events = measure(program, replace(vta_pynq, token_queue=1)).trace
    assert events[2].stalls == ((Stall.ROOM, 1),)
    assert events[3].stalls == ((Stall.S2G, 1), (Stall.CHANNEL, 38))


def test_a_full_queue_can_be_a_deadlock() -> None:
    program = parse(
        "ex nop push ld\nex nop push ld\nst nop push ex\nex nop pop st push ld\nex finish"
    )
    assert measure(program, vta_pynq).blocked == ()
    blocked = measure(program, replace(vta_pynq, token_queue=1)).blocked
    assert [str(one) for one in blocked] == [
        "compute waits at instruction 1 (nop) for space in the queue that it pushes to"
    ]


def test_a_missing_push_is_a_deadlock_that_names_unit_and_queue(talk: Fixture, tokens) -> None:
    given = tokens(talk(4, 2))
    for queue in Queue:
        push, pop = given.ends(queue)
        for n in range(len(push)):
            blocked = measure(given.without(queue, push=n), vta_pynq).blocked
            assert (POPS[queue], queue.value) in [(b.unit, b.waits_for.value) for b in blocked]
            assert len(pop) == len(push)


POPS = {
    Queue.L2G: Unit.COMPUTE,
    Queue.G2L: Unit.LOAD,
    Queue.G2S: Unit.STORE,
    Queue.S2G: Unit.COMPUTE,
}


def test_a_deadlocked_program_still_has_a_run() -> None:
    program = parse("""
        area B acc 1
        area C out 1
        ex  acc[0] = B[0] x=1   push st
        st  C[0] = acc[0] x=1   pop ex
        ex  nop   pop st
        ex  finish""")
    run = simulate(program, vta_pynq, {"B": np.full((1, 1, 16), 3, np.int32)})
    assert [str(one) for one in run.blocked] == [
        "compute waits at instruction 2 (nop) for a token of s2g"
    ]
    assert (run.outputs["C"] == 3).all()
    assert [event.index for event in run.trace] == [0, 1]


# --- counters -------------------------------------------------------------------------------------


def test_the_counters_of_a_256x256_product() -> None:
    lines = ["area A inp 16", "area W wgt 16 16", "area C out 16", "uop 0 0 0", "uop 0 0 0"]
    lines += ["ex uop[0] = uops[0] x=2", "ex reset u[0:1] outer=16 dst=1,0   push ld"]
    for k in range(16):
        lines += [
            f"ld inp[0] = A[{k}] x=1   pop ex",
            f"ld wgt[0] = W[{k}] y=16 x=1 stride=16   push ex",
            "ex gemm u[1:2] outer=16 dst=1,0 wgt=1,0   pop ld   push ld",
        ]
    lines += ["ld nop   pop ex", "ex shr u[0:1] outer=16 dst=1,0 imm=8   push st"]
    lines += ["st C[0] = acc[0] x=16   pop ex   push ex", "ex nop   pop st", "ex finish"]
    program = parse("\n".join(lines))
    a = np.random.default_rng(0).integers(-128, 128, (16, 1, 16), np.int8)
    w = np.random.default_rng(1).integers(-128, 128, (16, 16, 16, 16), np.int8)
    run = simulate(program, vta_pynq, {"A": a, "W": w})
    expected = np.einsum("kbi,nkoi->nbo", a.astype(np.int32), w.astype(np.int32)) >> 8
    assert (run.outputs["C"] == expected.astype(np.int8)).all()
    assert run.counters == Counters(
        inp_load_nbytes=256,
        wgt_load_nbytes=65536,
        uop_load_nbytes=8,
        out_store_nbytes=256,
        gemm_counter=256,
        alu_counter=16,
    )


def test_the_counters_of_an_addition_of_vectors() -> None:
    program = parse("""
        area A acc 64
        area B acc 64
        area C out 64
        uop 0 64
        ex  uop[0] = uops[0] x=1
        ex  acc[0] = A[0] x=64
        ex  acc[64] = B[0] x=64
        ex  add u[0:1] inner=64 dst=0,1 src=0,1   push st
        st  C[0] = acc[0] x=64   pop ex   push ex
        ex  nop   pop st
        ex  finish""")
    a, b = np.random.default_rng(0).integers(-128, 128, (2, 64, 1, 16), np.int32)
    run = simulate(program, vta_pynq, {"A": a, "B": b})
    assert (run.outputs["C"] == (a + b).astype(np.int8)).all()
    assert run.counters == Counters(
        acc_load_nbytes=8192, uop_load_nbytes=4, out_store_nbytes=1024, alu_counter=64
    )


def test_accumulators_loaded_from_int8_are_counted_by_the_bytes_that_move() -> None:
    program = parse("area R acc_8bit 64\nex acc_8bit[0] = R[0] x=64\nex finish")
    assert simulate(program).counters == Counters(acc_load_nbytes=1024)


def test_padding_is_not_counted_as_moved() -> None:
    program = parse("area A inp 4\nld inp[0] = A[0] y=2 x=2 stride=2 pad=1,1,1,1\nex finish")
    assert simulate(program).counters.inp_load_nbytes == 64
