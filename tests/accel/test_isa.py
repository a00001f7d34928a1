"""Configurations, instructions and their bits."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.accel import (
    CONFIGS,
    Alu,
    Config,
    Finish,
    Flags,
    Gemm,
    Load,
    Memory,
    Op,
    Program,
    Store,
    Unit,
    Uop,
    UopLoops,
    decode,
    decode_uop,
    encode,
    encode_uop,
    nop,
    place,
    unit_of,
    vdla8x8,
    vta_pynq,
)
from minitvm.base import ArgumentError

# --- configurations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "size", "depth"),
    [
        (Memory.INP, 16, 2048),
        (Memory.WGT, 256, 1024),
        (Memory.ACC, 64, 2048),
        (Memory.OUT, 16, 2048),
        (Memory.ACC_8BIT, 16, 2048),
        (Memory.UOP, 4, 8192),
    ],
)
def test_buffers_of_the_pynq_have_these_elements(memory: Memory, size: int, depth: int) -> None:
    assert (vta_pynq.element_bytes(memory), vta_pynq.depth(memory)) == (size, depth)


def test_the_machine_of_the_slides_multiplies_8x8_tiles() -> None:
    shapes = [vdla8x8.element_shape(m) for m in (Memory.INP, Memory.WGT, Memory.ACC, Memory.OUT)]
    assert shapes == [(8, 8)] * 4
    assert vdla8x8.macs_per_cycle == 512


def test_configurations_go_by_their_names() -> None:
    assert [CONFIGS[name].clock_hz for name in ("vta_pynq", "vdla_osdi18")] == [100e6, 200e6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch=0 of accelerator 'vta_pynq': expected an int from 1"),
        ({"issue": -1}, "issue=-1 of accelerator 'vta_pynq': expected an int from 0"),
        ({"port_bytes": 8.0}, "port_bytes=8.0 of"),
        ({"inp_bytes": "32k"}, "inp_bytes='32k' of"),
        ({"clock_hz": float("nan")}, "clock_hz=nan of"),
        ({"wgt_bytes": 1 << 40}, "from 1 to 268435456"),
        ({"inp_bytes": 3 << 10}, "INP has 192 elements of 16 bytes"),
        ({"acc_bytes": 32}, "ACC has 0 elements"),
    ],
)
def test_what_no_machine_can_be_is_refused(change: dict, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        replace(vta_pynq, **change)
    assert message in str(error.value)


def test_errors_survive_pickling() -> None:
    with pytest.raises(ArgumentError) as error:
        Config(name="none", batch=0)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "unit"),
    [
        (Memory.INP, Unit.LOAD),
        (Memory.WGT, Unit.LOAD),
        (Memory.ACC, Unit.COMPUTE),
        (Memory.ACC_8BIT, Unit.COMPUTE),
        (Memory.UOP, Unit.COMPUTE),
    ],
)
def test_accumulators_and_uops_are_loaded_by_compute(memory: Memory, unit: Unit) -> None:
    assert unit_of(Load(memory=memory, x=1)) is unit


# --- bits -----------------------------------------------------------------------------------------


def test_a_padded_load_has_these_bits() -> None:
    load = Load(
        memory=Memory.INP,
        sram=144,
        dram=0x1234,
        y=8,
        x=14,
        stride=14,
        y_pad=(1, 0),
        x_pad=(1, 1),
        flags=Flags(pop_next=True, push_next=True),
    )
    assert [f"{word:016x}" for word in encode(load)] == ["00000048d0024150", "1101000e000e0008"]


def test_a_load_of_accumulators_from_int8_has_these_bits() -> None:
    load = Load(memory=Memory.ACC_8BIT, sram=144, dram=0x1234, y=8, x=14, stride=14)
    assert [f"{word:016x}" for word in encode(load)] == ["00000048d0024280", "0000000e000e0008"]


def test_finish_is_a_three() -> None:
    assert encode(Finish()) == (3, 0)


def test_a_uop_has_these_bits() -> None:
    assert f"{encode_uop(Uop(13, 47, 8)):08x}" == "0201780d"


def bits(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << n) - 1)


def pair(n: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(bits(n), bits(n))


flags = st.builds(
    Flags,
    pop_prev=st.booleans(),
    pop_next=st.booleans(),
    push_prev=st.booleans(),
    push_next=st.booleans(),
)
move = {
    "sram": bits(16),
    "dram": bits(32),
    "y": bits(16),
    "x": bits(16),
    "stride": bits(16),
    "flags": flags,
}
loops = {
    "begin": bits(13),
    "end": bits(14),
    "outer": bits(14),
    "inner": bits(14),
    "dst_factors": pair(11),
    "src_factors": pair(11),
}
instructions = st.one_of(
    st.builds(
        Load,
        memory=st.sampled_from([m for m in Memory if m is not Memory.OUT]),
        y_pad=pair(4),
        x_pad=pair(4),
        **move,
    ),
    st.builds(Store, **move),
    st.builds(
        Gemm,
        loops=st.builds(UopLoops, wgt_factors=pair(10), **loops),
        reset=st.booleans(),
        flags=flags,
    ),
    st.builds(
        Alu,
        op=st.sampled_from(Op),
        loops=st.builds(UopLoops, **loops),
        imm=st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
        flags=flags,
    ),
    st.builds(Finish, flags=flags),
)


@given(instructions)
def test_every_instruction_comes_back_from_its_bits(instruction) -> None:
    w0, w1 = encode(instruction)
    assert max(w0, w1) < 1 << 64
    assert decode(w0, w1) == instruction


@given(bits(32))
def test_every_word_is_a_uop(word: int) -> None:
    assert encode_uop(decode_uop(word)) == word


@given(bits(64), bits(64))
def test_decoding_takes_any_words_or_says_why_not(w0: int, w1: int) -> None:
    try:
        instruction = decode(w0, w1)
    except ArgumentError:
        return
    assert decode(*encode(instruction)) == instruction


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Load(memory=Memory.INP, sram=1 << 16), "load: sram_base=65536: the field has 16 bits"),
        (Load(memory=Memory.INP, y_pad=(16, 0)), "load: y_pad_0=16: the field has 4 bits"),
        (Store(x=-1), "store: x_size=-1: the field has 16 bits, so its range is 0 to 65535"),
        (Gemm(loops=UopLoops(begin=0, end=1, wgt_factors=(0, 1024))), "wgt_factor_in=1024"),
        (Alu(op=Op.ADD, imm=1 << 15, loops=UopLoops(begin=0, end=1)), "imm=32768"),
        (
            Alu(op=Op.ADD, loops=UopLoops(begin=0, end=1, wgt_factors=(1, 0))),
            "the ALU does not read weights",
        ),
        (Load(memory=Memory.OUT), "load: memory=<Memory.OUT: 4> cannot be loaded"),
    ],
)
def test_a_field_that_is_too_narrow_is_named(instruction, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        encode(instruction)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((5, 0), "unknown opcode 5"),
        ((1 << 64, 0), "w0=18446744073709551616: not an unsigned int of 64 bits"),
        ((0, -1), "w1=-1"),
        ((1 | 4 << 7, 1 << 48), "a store cannot pad"),
        ((1 | 2 << 7, 0), "memory=<Memory.INP: 2> cannot be stored"),
        ((0 | 4 << 7, 0), "memory=<Memory.OUT: 4> cannot be loaded"),
        ((0 | 6 << 7, 0), "memory_type=6 is not a valid Memory"),
        ((4, 7 << 44), "alu_opcode=7 is not a valid Op"),
    ],
)
def test_words_that_are_no_instruction_are_refused(words: tuple[int, int], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        decode(*words)
    assert message in str(error.value)


# --- programs -------------------------------------------------------------------------------------

ONE = UopLoops(begin=0, end=1)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Load(memory=Memory.INP, x=1, y_pad=(16, 0)), "y_pad[0]=16: not an int from 0 to 15"),
        (Load(memory=Memory.OUT, x=1), "cannot be loaded"),
        (Load(memory=Memory.INP, x_pad=(1, 0)), "with x=0 it moves nothing, so it cannot pad"),
        (Load(memory=Memory.UOP, x=1, x_pad=(1, 0)), "a load of uops cannot pad"),
        (Load(memory=Memory.UOP, x=1, y=2), "a load of uops has one row"),
        (Load(memory=Memory.INP, x=1.0), "x=1.0: not an int"),  # type: ignore[arg-type]
        (Store(memory=Memory.ACC, x=1), "cannot be stored"),
        (Store(memory=Memory.ACC_8BIT, x=1), "cannot be stored"),
        (Alu(op=Op.ADD, imm=32768, loops=ONE), "imm=32768"),
        (Alu(op=Op.ADD, imm=-32769, loops=ONE), "imm=-32769"),
        (Alu(op=Op.ADD, loops=replace(ONE, wgt_factors=(1, 0))), "the ALU does not read weights"),
        (Gemm(loops=UopLoops(begin=2, end=1)), "after their end"),
        (Gemm(loops=UopLoops(begin=0, end=8191, outer=9999, inner=9999)), "several instructions"),
        (
            Load(memory=Memory.INP, flags=Flags(pop_prev=True)),
            "its flags name the unit before load",
        ),
        (Store(flags=Flags(push_next=True)), "its flags name the unit after store"),
        (Finish(flags=Flags(pop_prev=True)), "FINISH cannot carry tokens"),
        (Finish(), "FINISH must be the last instruction"),
        ("gemm", "'gemm': not an instruction"),
        (Gemm(loops=None), "loops=None: not a UopLoops"),  # type: ignore[arg-type]
        (Store(flags=None), "flags=None: not a Flags"),  # type: ignore[arg-type]
        (Store(flags=Flags(pop_prev=2)), "flags.pop_prev=2: not a bool"),  # type: ignore[arg-type]
    ],
)
def test_what_no_machine_can_run_is_no_program(instruction, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        Program((instruction, Finish()))
    assert "instruction 0" in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("instructions", [(), (nop(Unit.LOAD, Flags()),)])
def test_a_program_ends_with_finish(instructions: tuple) -> None:
    with pytest.raises(ArgumentError, match="without finish"):
        Program(instructions)


@pytest.mark.parametrize("part", [{"uops": [(0, 0)]}, {"areas": ["A"]}, {"uops": [Uop(-1, 0)]}])
def test_the_parts_of_a_program_are_records(part: dict) -> None:
    with pytest.raises(ArgumentError):
        Program((Finish(),), **part)


def test_lists_make_the_same_program_as_tuples() -> None:
    assert Program([Finish()], [Uop(0, 0)], []) == Program((Finish(),), (Uop(0, 0),))  # type: ignore[arg-type]


def test_areas_are_placed_side_by_side_on_whole_elements() -> None:
    areas = place(vta_pynq, {"A": (Memory.INP, (3,)), "W": (Memory.WGT, (2, 2))})
    assert [(area.base, area.byte_range(vta_pynq)) for area in areas] == [
        (0, (0, 48)),
        (1, (256, 1280)),
    ]


@pytest.mark.parametrize("name", ["", "a b", "inp", "uops", "DRAM"])
def test_an_area_has_a_name_that_text_can_hold(name: str) -> None:
    with pytest.raises(ArgumentError, match="the name is not an identifier, or it is taken"):
        place(vta_pynq, {name: (Memory.INP, (1,))})
