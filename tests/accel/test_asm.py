"""Assembly: text to programs and back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.accel import (
    Alu,
    Area,
    Finish,
    Flags,
    Gemm,
    Load,
    Memory,
    Op,
    Program,
    Store,
    Uop,
    UopLoops,
    asm,
    listing,
    parse,
    text,
    vdla8x8,
)
from minitvm.base import ArgumentError

Fixture = Callable[..., Program]

EXAMPLE = """
area A inp 2 8          # 16 elements
area C out 8
uop 0 0 0
uop 1 0 1

ex  nop   push ld
ld  inp[4] = A[8] y=2 x=4 stride=8 pad=1,0,1,1   pop ex   push ex
ex  uop[0] = uops[1] x=1
ex  gemm u[0:1] outer=4 inner=3 dst=2,1 src=1,0 wgt=0,5   pop ld   push ld   push st
ex  shr u[0:1] imm=-8
ex  add u[0:1] src=0,1
st  C[2] = acc[3] x=6   pop ex   push ex
ex  nop   pop st
ex  finish
"""


def test_text_says_what_the_records_say() -> None:
    loops = UopLoops(begin=0, end=1)
    assert parse(EXAMPLE) == Program(
        (
            Load(memory=Memory.UOP, flags=Flags(push_prev=True)),
            Load(
                memory=Memory.INP,
                sram=4,
                dram=8,
                y=2,
                x=4,
                stride=8,
                y_pad=(1, 0),
                x_pad=(1, 1),
                flags=Flags(pop_next=True, push_next=True),
            ),
            Load(memory=Memory.UOP, dram=1, x=1),
            Gemm(
                loops=UopLoops(
                    begin=0,
                    end=1,
                    outer=4,
                    inner=3,
                    dst_factors=(2, 1),
                    src_factors=(1, 0),
                    wgt_factors=(0, 5),
                ),
                flags=Flags(pop_prev=True, push_prev=True, push_next=True),
            ),
            Alu(op=Op.SHR, imm=-8, loops=loops),
            Alu(op=Op.ADD, loops=UopLoops(begin=0, end=1, src_factors=(0, 1))),
            Store(sram=3, dram=16 + 2, x=6, flags=Flags(pop_prev=True, push_prev=True)),
            Load(memory=Memory.UOP, flags=Flags(pop_next=True)),
            Finish(),
        ),
        (Uop(0, 0, 0), Uop(1, 0, 1)),
        (Area("A", Memory.INP, 0, (2, 8)), Area("C", Memory.OUT, 16, (8,))),
    )


def test_a_program_prints_as_text_that_can_be_edited() -> None:
    expected = (
        "\n".join(line.split("#")[0].rstrip() for line in EXAMPLE.splitlines() if line)
        .replace("area A inp 2 8", "area A inp 2 8 at 0")
        .replace("area C out 8", "area C out 8 at 16")
    )
    assert text(parse(EXAMPLE)) == expected


def test_a_listing_counts_the_tokens_in_each_queue(talk: Fixture, golden) -> None:
    golden(listing(talk(2, 2)))


def test_a_listing_is_text_too(talk: Fixture) -> None:
    assert parse(listing(talk(2, 2, store=True))) == talk(2, 2, store=True)


def test_the_example_of_the_module_is_a_program() -> None:
    lines = (asm.__doc__ or "").splitlines()
    example = "\n".join(line for line in lines if line.startswith("    "))
    assert len(parse(example).instructions) == 8


def test_a_convolution_comes_back_from_its_text(conv) -> None:
    program = conv(8, 8, 32, 32, 3, 1, 1, 4, 2).program()
    assert parse(text(program)) == program


def test_addresses_count_elements_of_what_is_loaded() -> None:
    program = parse("area P inp 4\narea B acc 1\nld wgt[0] = B[1] x=1\nex finish", vdla8x8)
    assert program.instructions[0] == Load(memory=Memory.WGT, dram=5, x=1)  # 256 bytes / 64 + 1
    wide = parse("area B acc 2 at 3\nst B[1] = acc[0] x=1\nex finish")
    assert wide.instructions[0] == Store(dram=13, x=1)  # 192 bytes / 16 + 1
    assert "B[1] = acc[0] x=1" in text(wide)


def test_accumulators_loaded_from_int8_are_addressed_by_their_bytes_in_dram() -> None:
    program = parse(
        "area B acc 2\narea R acc_8bit 2 3 at 8\nex acc_8bit[5] = R[1] y=2 x=2 stride=3\nex finish"
    )
    assert program.areas[1] == Area("R", Memory.ACC_8BIT, 8, (2, 3))
    assert program.instructions[0] == Load(
        memory=Memory.ACC_8BIT, sram=5, dram=9, y=2, x=2, stride=3
    )
    assert "ex  acc_8bit[5] = R[1] y=2 x=2 stride=3" in text(program)
    assert parse(text(program)) == program


def test_areas_of_many_dimensions_come_back_from_their_text() -> None:
    program = parse("area A inp " + "1 " * 12 + "\nex finish")
    assert program.areas[0].shape == (1,) * 12
    assert parse(text(program)) == program


def test_what_lies_in_no_area_is_an_address_of_all_dram() -> None:
    program = parse("area A inp 4\nld inp[0] = DRAM[9] x=1\nex finish")
    assert program.instructions[0] == Load(memory=Memory.INP, dram=9, x=1)
    assert parse(text(program)) == program


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("xx nop", "'xx': a line must begin with area, uop, ld, ex or st"),
        ("ld", "'': not an instruction"),
        ("ld gemm u[0:1]", "ex runs this instruction, not ld"),
        ("ex inp[0] = A[0] x=1", "ld runs this instruction, not ex"),
        ("ld acc_8bit[0] = A[0] x=1", "ex runs this instruction, not ld"),
        ("st A[0] = acc_8bit[0] x=1", "'A': unknown memory"),
        ("ld inp[0] = B[0] x=1", "unknown area\n  try: A or a line"),
        ("ld out[0] = A[0] x=1", "OUT cannot be loaded"),
        ("ld foo[0] = A[0] x=1", "'foo': unknown memory\n  try: one of uop, wgt"),
        ("ld inp[0] = uops[0] x=1", "micro-operations are loaded from uops"),
        ("ex uop[0] = A[0] x=1", "micro-operations are loaded from uops"),
        ("ld wgt[0] = A[0] x=1", "it begins at byte 16 of DRAM, inside an element of WGT"),
        ("ld inp[0] = A[0] x=1 pad=1", "1: expected integers: number,number,number,number"),
        (
            "ld inp[0] = A[0] x=1 x=2",
            "'x=2': unknown or repeated option\n  try: each of y, x, stride, pad at most",
        ),
        ("ld inp[0] = A[0] x=a", "a: expected integers: number"),
        ("st A[0] = acc[0] x=1 pad=0,0,0,0", "each of y, x, stride at most once"),
        ("ex frob u[0:1]", "'frob': unknown operation\n  try: one of gemm, reset, min"),
        ("ex add u[0:1] wgt=1,1", "each of outer, inner, dst, src, imm"),
        ("ld nop pop st", "pop st: there is no queue between ld and st"),
        ("ex nop push ex", "push ex: there is no queue between ex and ex"),
        ("ex nop push xx", "push xx: there is no queue between ex and xx"),
        ("ld nop push xx", "push xx: there is no queue between ld and xx"),
        ("ex nop push", "push nothing: there is no queue between ex and nothing"),
        ("ex nop push ld push ld", "push ld: an instruction can do this only once"),
        ("ex nop pop ld psh ld", "'psh': expected pop or push, then a unit"),
        ("ex add u[0:1] pop ld imm=1", "'imm=1': expected pop or push"),
        ("ex finish push ld", "FINISH cannot carry tokens"),
        ("ld inp[-1] = A[0] x=1", "instruction 0 (load): sram=-1: not an int from 0 to 65535"),
        ("ex shr u[0:1] imm=32768", "instruction 0 (alu): imm=32768: not an int from"),
        ("uop -1 0", "uop 0: dst=-1: not an int from 0 to 65535"),
        ("area B inp 1 at -1", "base=-1: not an int from 0"),
        ("uop " + "9" * 30 + " 0", "expected integers: dst src wgt"),
        ("area B inp" + " 1" * 17, "17 extents, more than 16"),
        ("uop 1", "1: expected integers: dst src wgt"),
        ("uop a b", "a b: expected integers: dst src wgt"),
        ("area B", "expected a name, a memory and extents"),
        ("area B uop 1", "DRAM has no areas of such elements"),
        ("area A inp 1", "the name is not an identifier, or it is taken"),
        ("area B inp 1 at x", "x: expected integers: base"),
        ("area B inp -1", "extent=-1"),
    ],
)
def test_a_line_that_says_nothing_is_named(line: str, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse(f"area A inp 4 at 1\n{line}\nex finish")
    assert f"line 2, {line!r}" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "number", ["ld inp[-1] = A[0] x=1", "ld inp[0] = A[-2] x=1", "ex add u[0:1] imm=70000"]
)
def test_numbers_out_of_range_are_refused_by_the_program(number: str) -> None:
    with pytest.raises(ArgumentError, match="instruction 0"):
        parse(f"area A inp 4 at 1\n{number}\nex finish")


def test_numbers_of_thousands_of_digits_are_no_numbers() -> None:
    for line in ("uop {} 0", "ld inp[{}] = A[0] x=1", "area A inp {}", "ex add u[0:1] imm={}"):
        with pytest.raises(ArgumentError, match="line 1"):
            parse(line.format("9" * 5000))


words = ["ld", "ex", "st", "nop", "pop", "push", "inp[0]", "=", "A[0]", "x=1", "gemm", "u[0:1]"]
words += ["area", "A", "inp", "1", "uop", "0", "at", "acc[0]", "finish", "\n", "#", "imm=1", "é"]


@given(st.lists(st.sampled_from(words)).map(" ".join) | st.text())
def test_any_text_is_a_program_or_an_error_in_words(anything: str) -> None:
    try:
        program = parse(anything)
    except ArgumentError:
        return
    assert parse(text(program)) == program
