"""The verdict on programs, against the orders they can run in."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from minitvm.accel import (
    Config,
    Flags,
    Program,
    Queue,
    Race,
    Verdict,
    execute,
    explain,
    in_order,
    parse,
    strip_tokens,
    verify,
    vta_pynq,
    witness,
)

Fixture = Callable[..., Program]


def pairs(program: Program) -> set[tuple[int, int]]:
    return {(race.first, race.second) for race in verify(program).races}


def verdict(text: str, config: Config = vta_pynq) -> str:
    """The verdict on a fragment: what its memories hold at the start is left out."""
    program = parse(text, config)
    return explain(program, replace(verify(program, config), uninitialised=(), stale=()))


def memories(text: str) -> str:
    """The verdict on what a fragment reads from its memories."""
    program = parse(text)
    found = verify(program)
    return explain(program, Verdict(uninitialised=found.uninitialised, stale=found.stale))


# --- tokens ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_talks_stream_is_in_order(talk: Fixture, threads: int) -> None:
    assert verify(talk(4, threads, store=True)).ok


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_convolution_is_in_order(conv, threads: int) -> None:
    assert verify(conv(14, 14, 32, 64, 3, 1, 1, 7, threads).program()).ok


def test_without_a_push_nothing_moves_on(talk: Fixture, tokens) -> None:
    given = tokens(talk(4, 2, store=True))
    for queue in Queue:
        for n in range(len(given.ends(queue)[0])):
            found = verify(given.without(queue, push=n))
            assert queue.value in [blocked.waits_for.value for blocked in found.deadlock]
            assert not found.leaks


def test_without_a_pop_a_token_is_left_over_and_data_is_too_early(talk: Fixture, tokens) -> None:
    given = tokens(talk(4, 2, store=True))
    loads = [n for n in given.ends(Queue.G2L)[1] if given.program.instructions[n].x]  # no nops
    assert len(loads) == 8
    for n in range(len(loads)):
        found = verify(given.without(Queue.G2L, pop=n))
        assert found.leaks == ((Queue.G2L, 1),)
        assert found.races
    for n in range(8):
        found = verify(given.without(Queue.L2G, pop=n))
        assert found.leaks == ((Queue.L2G, 1),)
        assert found.races


def test_a_program_without_tokens_races(talk: Fixture) -> None:
    program = talk(2, 1, store=True)
    assert verify(program).ok
    found = verify(strip_tokens(program))
    assert not found.deadlock
    assert not found.leaks
    assert {(race.space, race.kind) for race in found.races} == {
        ("WGT", "RAW"),
        ("INP", "RAW"),
        ("INP", "WAR"),
        ("ACC", "RAW"),
        ("DRAM", "RAW"),
    }


@pytest.mark.parametrize(("source", "space", "kind"), [("R", "ACC", "WAR"), ("C", "DRAM", "RAW")])
def test_a_load_from_int8_meets_a_store_where_both_are(source: str, space: str, kind: str) -> None:
    program = parse(f"""
        area R acc_8bit 1
        area C out 1
        ex  acc_8bit[0] = R[0] x=1   push st
        st  C[0] = acc[0] x=1   pop ex   push ex
        ex  acc_8bit[0] = {source}[0] x=1   pop st
        ex  finish""")
    assert verify(program).ok
    races = verify(strip_tokens(program)).races
    assert (1, 2, space, kind) in {(r.first, r.second, r.space, r.kind) for r in races}


# --- pairs of a push and its pop ------------------------------------------------------------------


def test_in_the_talks_stream_only_the_first_and_last_tokens_are_spare(
    talk: Fixture, tokens
) -> None:
    given = tokens(talk(4, 2, store=True))
    needed = {
        queue: [
            not verify(given.without(queue, push=n, pop=n)).ok
            for n in range(len(given.ends(queue)[0]))
        ]
        for queue in (Queue.L2G, Queue.G2L)
    }
    assert needed[Queue.L2G] == [True] * 8 + [False]  # the last one is the runtime's
    assert needed[Queue.G2L] == [False] * 2 + [True] * 6 + [False] * 2


def different(program: Program, inputs: dict, expected: np.ndarray, name: str) -> bool:
    """Does some order change the outputs? The orders are a witness per race and 20 at random."""
    orders = [witness(program, race) for race in verify(program).races]
    orders += [in_order(program, np.random.default_rng(seed)) for seed in range(20)]
    return any(
        (execute(program, vta_pynq, inputs, order)[name] != expected).any() for order in orders
    )


def test_the_verdict_on_each_missing_pair_of_the_talk_is_what_orders_show(
    talk: Fixture, tokens
) -> None:
    given = tokens(talk(3, 2, store=True))
    rng = np.random.default_rng(0)
    inputs = {
        "A": rng.integers(-128, 128, (3, 2, 1, 16), np.int8),
        "B": rng.integers(-128, 128, (1, 16, 16), np.int8),
    }
    expected = execute(given.program, vta_pynq, inputs)["C"]
    for queue in Queue:
        for n in range(len(given.ends(queue)[0])):
            program = given.without(queue, push=n, pop=n)
            assert bool(verify(program).races) == different(program, inputs, expected, "C")


def test_the_verdict_on_each_missing_pair_of_a_convolution_is_what_orders_show(
    conv, tokens
) -> None:
    layer = conv(4, 4, 32, 32, 3, 1, 1, 2, 2)
    given, inputs = tokens(layer.program()), layer.inputs(np.random.default_rng(0))
    expected = layer.reference(inputs["D"], inputs["W"])
    spare = dict.fromkeys(Queue, 0)
    for queue in Queue:
        for n in range(len(given.ends(queue)[0])):
            program = given.without(queue, push=n, pop=n)
            races = bool(verify(program).races)
            assert races == different(program, inputs, expected, "O")
            spare[queue] += not races
    assert spare[Queue.L2G] == spare[Queue.G2S] == 0
    assert spare[Queue.G2L] > 0  # the tokens of reset and of the end of a tile


def test_a_witness_runs_the_second_first(talk: Fixture, tokens) -> None:
    program = tokens(talk(4, 2, store=True)).without(Queue.G2L, push=4, pop=4)
    (race,) = verify(program).races
    assert (race.space, race.kind) == ("INP", "WAR")
    order = witness(program, race)
    assert order.index(race.second) < order.index(race.first)
    assert sorted(order) == list(range(len(program.instructions)))


# --- exact elements -------------------------------------------------------------------------------

SIDE_BY_SIDE = """
area B acc 8
area C out 8
uop 0 0
ex  uop[0] = uops[0] x=1
ex  reset u[0:1] outer=4 dst=2,0   push st
st  C[0] = acc[{sram}] y=1 x=1   pop ex   push ex
ex  reset u[0:1] outer=4 dst=2,0
ex  nop   pop st
ex  finish
"""


def test_elements_between_others_do_not_race() -> None:
    assert verdict(SIDE_BY_SIDE.format(sram=1)) == "ok"
    assert verdict(SIDE_BY_SIDE.format(sram=2)) == (
        "race: instruction 2 (store) and instruction 3 (reset) both touch ACC[2] (WAR), "
        "and nothing orders them"
    )


def test_dram_can_race_too() -> None:
    text = """
        area C out 4
        st  C[0] = acc[0] x=2{push}
        ld  inp[0] = C[{at}] x=1{pop}
        ex  nop   pop st
        ex  finish"""
    free = text.format(at=2, push="   push ex", pop="")
    assert verdict(free) == "ok"
    assert "both touch DRAM[1] (RAW)" in verdict(text.format(at=1, push="   push ex", pop=""))


def test_the_host_reads_at_finish() -> None:
    assert verdict("area C out 1\nst C[0] = acc[0] x=1\nex finish") == (
        "race: instruction 0 (store) and instruction 1 (finish) both touch DRAM[0] (RAW), "
        "and nothing orders them"
    )


def test_areas_of_different_elements_share_no_bytes() -> None:
    assert (
        verdict("""
        area B acc 1
        area C out 4
        st  C[0] = acc[0] x=4   push ex
        ex  acc[8] = B[0] x=1
        ex  nop   pop st
        ex  finish""")
        == "ok"
    )


def test_one_order_is_enough_between_two_units() -> None:
    chain = """
        area C out 1
        uop 0 0
        ex  uop[0] = uops[0] x=1
        ex  reset u[0:1]   push st
        st  C[0] = acc[0] x=1   pop ex   push ex
        ex  nop   pop st   push ld
        ld  inp[0] = C[0] x=1   pop ex
        ex  finish"""
    assert verdict(chain) == "ok"


def test_a_command_queue_orders_nothing(talk: Fixture) -> None:
    program = strip_tokens(talk(4, 1, store=True))
    assert len(verify(program, replace(vta_pynq, command_queue=1)).races) == len(
        verify(program).races
    )


def test_a_short_command_queue_is_a_deadlock() -> None:
    text = "area A inp 1\nuop 0 0\nex nop push ld\n"
    text += "ld inp[0] = A[0] x=1 pop ex push ex\n" * 4 + "ex nop pop ld push ld\n" * 4
    program = parse(f"{text}ld nop pop ex\nex finish")
    assert verify(program, replace(vta_pynq, command_queue=2)).ok
    assert verify(program, replace(vta_pynq, command_queue=1)).deadlock


# --- accumulators ---------------------------------------------------------------------------------

HEAD = "uop 0 0 0\nuop 1 0 0\nuop 2 0 0\nex uop[0] = uops[0] x=3\n"


@pytest.mark.parametrize(
    ("line", "hazard"),
    [
        ("gemm u[0:1] outer=2", "ACC[0] at step 1, 1 after"),
        ("gemm u[0:2] outer=2", "ACC[0] at step 2, 2 after"),  # only the wrap brings it back
        ("gemm u[0:3] outer=9", ""),
        ("gemm u[0:1] outer=3 inner=3 dst=0,1", ""),
        ("gemm u[0:1] outer=3 inner=2 dst=0,1", "ACC[0] at step 2, 2 after"),
        ("gemm u[0:1] inner=9 dst=0,1", ""),
        ("gemm u[0:1]", ""),
        ("reset u[0:1] outer=9", ""),
        ("add u[0:1] imm=1 outer=2", "ACC[0] at step 1, 1 after"),
        ("add u[0:1] outer=3 dst=1,0 src=4,0", ""),
        ("add u[1:2] outer=3 dst=1,0 src=1,0", "ACC[1] at step 1, 1 after"),
    ],
)
def test_an_accumulator_must_not_come_back_too_soon(line: str, hazard: str) -> None:
    found = verdict(f"{HEAD}ex {line}\nex finish")
    assert hazard in found
    assert (found == "ok") == (not hazard)


def test_the_distance_is_a_parameter() -> None:
    text = f"{HEAD}ex gemm u[0:3] outer=9\nex finish"
    assert "3 after" in verdict(text, replace(vta_pynq, rmw_distance=4))
    text = f"{HEAD}ex gemm u[0:1] outer=9\nex finish"
    assert verdict(text, replace(vta_pynq, rmw_distance=1)) == "ok"


def test_the_first_step_that_reads_too_early_is_named() -> None:
    text = "uop 0 0\nuop 1 0\nuop 0 0\nuop 0 0\nex uop[0] = uops[0] x=4\n"
    assert verdict(f"{text}ex gemm u[0:4]\nex finish") == (
        "hazard: instruction 1 (gemm) reads ACC[0] at step 2, 2 after writing it"
    )


def test_an_alu_also_reads_its_source() -> None:
    loops = "u[1:2] outer=3 dst=1,0 src=1,0"
    assert verdict(f"{HEAD}ex gemm {loops}\nex add {loops}\nex min {loops} imm=3\nex finish") == (
        "hazard: instruction 2 (add) reads ACC[1] at step 1, 1 after writing it"
    )


def test_instructions_do_not_meet_in_the_pipeline() -> None:
    assert verdict(HEAD + "ex gemm u[0:1]\n" * 3 + "ex finish") == "ok"


# --- memories -----------------------------------------------------------------------------------

PRODUCT = """
    area A inp 1
    area B wgt 1
    area C out 1
    uop 0 0 0
    ex  uop[0] = uops[0] x=1
    ld  inp[0] = A[0] x=1
    ld  wgt[0] = B[0] x=1   push ex
    ex  reset u[0:1]
    ex  gemm u[0:1]   pop ld
    ex  shr u[0:1] imm=8   push st
    st  C[0] = acc[0] x=1   pop ex   push ex
    ex  nop   pop st
    ex  finish"""


def without(line: str) -> str:
    """The product without an instruction that carries no token."""
    assert f"    {line}\n" in PRODUCT
    return PRODUCT.replace(f"    {line}\n", "")


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        (PRODUCT, "ok"),
        (without("ex  reset u[0:1]"), "instruction 3 (gemm) reads ACC[0]"),
        (without("ld  inp[0] = A[0] x=1"), "instruction 3 (gemm) reads INP[0]"),
        (PRODUCT.replace("wgt[0] = B[0] x=1", "nop"), "instruction 4 (gemm) reads WGT[0]"),
        (PRODUCT.replace("uop 0 0 0", "uop 0 3 0"), "instruction 4 (gemm) reads INP[3]"),
        (PRODUCT.replace("shr u[0:1] imm=8", "add u[0:1] inner=2 dst=0,1"), "(add) reads ACC[1]"),
        (PRODUCT.replace("shr u[0:1] imm=8", "add u[0:1] src=0,1 inner=2"), "(add) reads ACC[1]"),
        (PRODUCT.replace("acc[0]", "acc[1]"), "instruction 6 (store) reads ACC[1]"),
    ],
)
def test_a_read_of_what_nothing_has_written_is_a_fault(text: str, reads: str) -> None:
    found = memories(text)
    assert reads in found
    assert verify(parse(text)).ok == (found == "ok")
    assert found == "ok" or found.startswith("uninitialised: ")
    assert len(found.splitlines()) == 1  # where it begins, and not all that follows from it


def test_an_order_shows_the_uninitialised_read() -> None:
    program = parse(without("ex  reset u[0:1]"))
    (read,) = verify(program).uninitialised
    order = witness(program, read)
    assert (read.index, read.space, read.element) == (3, "ACC", 0)
    assert sorted(order) == list(range(len(program.instructions)))


def test_padding_and_resets_write() -> None:
    text = PRODUCT.replace("uop 0 0 0", "uop 0 1 0")
    assert memories(text.replace("A[0] x=1", "A[0] x=1 pad=0,0,0,1")) == "ok"


def test_an_uninitialised_read_shows_in_the_outputs() -> None:
    a, b = np.ones((1, 1, 16), np.int8), np.ones((1, 16, 16), np.int8)
    for line in ("ex  reset u[0:1]", "ld  inp[0] = A[0] x=1"):
        runs = [
            execute(parse(t), vta_pynq, {"A": a, "B": b})["C"] for t in (PRODUCT, without(line))
        ]
        assert (runs[0] != runs[1]).all()


def test_a_second_launch_starts_from_the_same_memories() -> None:
    a, b = np.full((1, 1, 16), 100, np.int8), np.full((1, 16, 16), 100, np.int8)
    for text in (PRODUCT, without("ex  reset u[0:1]")):
        first, second = (execute(parse(text), vta_pynq, {"A": a, "B": b})["C"] for _ in range(2))
        np.testing.assert_array_equal(first, second)


COPY = """
    area A acc 1
    area C out 1
    uop 0 0 0
    ex  uop[0] = uops[0] x=1
    ex  acc[0] = A[0] x=1
    ex  shr u[0:1] imm=0   push st
    st  C[0] = acc[0] x=1   pop ex   push ex
    ex  nop   pop st
    ex  finish"""


def test_a_store_of_what_was_only_loaded_is_a_warning() -> None:
    assert memories(COPY) == "ok"
    program = parse(COPY.replace("shr u[0:1] imm=0", "nop"))
    found = verify(program)
    assert found.ok
    assert explain(program, found) == (
        "warning: instruction 3 (store) stores ACC[0], which was loaded but not computed: hardware "
        "stores an older value"
    )


# --- many ---------------------------------------------------------------------------------------


def many(steps: int) -> Program:
    """Each load races with all GEMMs behind it."""
    head = "area A inp 1\nuop 0 0\nex uop[0] = uops[0] x=1\n"
    loads = "".join(f"ld inp[{n}] = A[0] x=1\n" for n in range(steps))
    gemms = f"ex gemm u[0:1] inner={steps} dst=0,1 src=0,1\n" * steps
    return parse(f"{head}{loads}{gemms}ex finish")


def test_of_many_races_the_first_thousand_are_named() -> None:
    few, lots = verify(many(30)), verify(many(40))
    assert (len(few.races), few.more) == (900, False)
    assert (len(lots.races), lots.more) == (1000, True)
    assert "race: and more than these 1000" in explain(many(40), lots).splitlines()
    assert not lots.ok


# --- words ----------------------------------------------------------------------------------------


def test_each_finding_is_a_sentence() -> None:
    leak = parse("ex nop push ld\nex nop push ld\nex finish")
    assert explain(leak, verify(leak)) == "leak: 2 tokens stay in g2l"
    stuck = parse("st nop pop ex\nex finish")
    assert explain(stuck, verify(stuck)) == (
        "deadlock: store waits at instruction 0 (nop) for a token of g2s"
    )


def test_stripped_programs_carry_no_flags(talk: Fixture) -> None:
    assert {i.flags for i in strip_tokens(talk(2, 2, store=True)).instructions} == {Flags()}


def test_a_verdict_shows_three_of_each_kind_and_counts_the_rest() -> None:
    races = tuple(Race(n, n + 1, "INP", 0, "RAW") for n in range(10))
    verdict = Verdict((), (), races, ())
    assert repr(verdict) == (
        f"Verdict(deadlock=(), leaks=(), races=({races[0]}, {races[1]}, {races[2]}, and 7 more), "
        "hazards=(), uninitialised=(), stale=(), more=False)"
    )
    assert repr(Verdict((), (), (), ())) == (
        "Verdict(deadlock=(), leaks=(), races=(), hazards=(), uninitialised=(), stale=(), "
        "more=False)"
    )
