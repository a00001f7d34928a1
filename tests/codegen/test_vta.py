"""From a lowered program to instructions: tokens as flags, boxes as rows, loops as uops."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.accel import (
    Alu,
    Config,
    Gemm,
    Instruction,
    Load,
    Memory,
    Unit,
    Uop,
    UopLoops,
    mnemonic,
    unit_of,
    vta_pynq,
)
from minitvm.base import BuildError
from minitvm.base import dtype as dtype_of
from minitvm.codegen import emit_vta
from minitvm.codegen.vta import stream as streams
from minitvm.codegen.vta.stream import Kernel, Stream
from minitvm.codegen.vta.transfer import Dim, transfers
from minitvm.tir import (
    Allocate,
    Buffer,
    Call,
    Const,
    Evaluate,
    For,
    If,
    Index,
    PrimFunc,
    Stmt,
    Var,
    View,
    compare,
    floormod,
    row_strides,
    seq,
    view_at,
)

INT32, INT8 = dtype_of("int32"), dtype_of("int8")
LD, EX, ST = Unit


# --- tokens ---------------------------------------------------------------------------------------


def shown(instruction: Instruction) -> str:
    """load nop pop_next push_next"""
    flags = instruction.flags
    names = [name for name in flags.__slots__ if getattr(flags, name)]
    return " ".join([unit_of(instruction).value, mnemonic(instruction).split()[0], *names])


def stream(*steps: Any) -> list[str]:
    """What steps become: a Unit loads something, ("push", a, b) and ("pop", a, b) are tokens."""
    s = Stream(uop_depth=16)
    for step in steps:
        if isinstance(step, Unit):
            s.add(Load(memory=Memory.INP if step is LD else Memory.ACC, x=1))
        else:
            getattr(s, step[0])(*step[1:])
    return [shown(instruction) for instruction in s.instructions]


def test_a_push_is_added_to_the_instruction_before_it() -> None:
    assert stream(LD, ("push", LD, EX)) == ["load load push_next"]


def test_a_pop_waits_for_the_next_instruction_of_its_unit() -> None:
    assert stream(("pop", EX, LD), EX, LD) == ["compute load", "load load pop_next"]


def test_a_push_of_another_unit_than_the_last_is_a_nop() -> None:
    assert stream(LD, EX, ("push", LD, EX)) == ["load load", "compute load", "load nop push_next"]


def test_two_equal_pushes_are_two_instructions() -> None:
    assert stream(LD, ("push", LD, EX), ("push", LD, EX), ("push", LD, EX)) == [
        "load load push_next",
        "load nop push_next",
        "load nop push_next",
    ]


def test_a_second_pop_leaves_the_first_to_a_nop() -> None:
    assert stream(("pop", EX, LD), ("pop", EX, LD), LD) == [
        "load nop pop_next",
        "load load pop_next",
    ]


def test_an_instruction_waits_for_both_neighbours_at_once() -> None:
    assert stream(("pop", LD, EX), ("pop", ST, EX), EX) == ["compute load pop_prev pop_next"]


def test_pushing_needs_what_was_to_be_popped_before() -> None:
    assert stream(("pop", EX, LD), ("push", LD, EX)) == ["load nop pop_next", "load nop push_next"]


def test_a_program_ends_when_all_units_are_done() -> None:
    assert stream(("finish",)) == [
        "store nop push_prev",
        "load nop push_next",
        "compute nop pop_prev pop_next",
        "compute finish",
    ]


# --- micro-operations -----------------------------------------------------------------------------


def kernels(depth: int, *sizes: int) -> list[tuple[int, int]]:
    """Where kernels of these sizes lie, one after the other, and how many loads they take."""
    s, found = Stream(depth), list[tuple[int, int]]()
    for size in sizes:
        begin, _ = s.kernel(Kernel("gemm", (), tuple(Uop(size, n) for n in range(size))))
        found.append((begin, len(s.instructions)))
    return found


def test_a_kernel_that_is_there_is_not_loaded_again() -> None:
    assert kernels(16, 3, 4, 3) == [(0, 1), (3, 2), (0, 2)]


def test_the_oldest_kernels_are_overwritten() -> None:
    assert kernels(8, 3, 4, 5, 4, 3) == [(0, 1), (3, 2), (0, 3), (0, 4), (4, 5)]


@given(st.lists(st.integers(1, 7), max_size=40))
def test_a_kernel_is_resident_until_a_part_of_it_is_overwritten(sizes: list[int]) -> None:
    s, spans = Stream(12), dict[Kernel, range]()
    for size in sizes:
        kernel = Kernel("gemm", (), tuple(Uop(size, n) for n in range(size)))
        loads = len(s.instructions)
        span = range(*s.kernel(kernel))
        assert (len(s.instructions) == loads) == (kernel in spans)
        spans = {k: old for k, old in spans.items() if not {*old} & {*span}} | {kernel: span}
        assert s.cache.resident == {k: old[0] for k, old in spans.items()}


def test_a_kernel_that_is_larger_than_the_memory_is_refused() -> None:
    with pytest.raises(
        BuildError, match="gemm of 9 or more micro-operations: the memory on chip has space for 8"
    ):
        kernels(8, 9)


# --- boxes ----------------------------------------------------------------------------------------


def moves(*dims: Dim, size: int = 16) -> list[tuple[Any, ...]]:
    """(sram, dram, rows, columns, stride) of each transfer; pads follow where there are any."""
    found: list[tuple[Any, ...]] = []
    for part in transfers("copy", dims, size):
        pads = part.y.before, part.y.after, part.x.before, part.x.after
        sizes = part.sram, part.dram, part.y.n, part.x.n, part.y.stride
        found.append((*sizes, *(pads if any(pads) else ())))
    return found


def test_a_box_without_gaps_is_one_row() -> None:
    assert moves(Dim(4, 128), Dim(8, 16), Dim(1, 16), Dim(16, 1)) == [(0, 0, 1, 32, 32)]


def test_a_box_with_gaps_is_rows() -> None:
    assert moves(Dim(4, 256), Dim(8, 16), Dim(16, 1)) == [(0, 0, 4, 8, 16)]


def test_single_elements_far_apart_are_rows_of_one() -> None:
    assert moves(Dim(4, 256), Dim(16, 1)) == [(0, 0, 4, 1, 16)]


def test_one_element_is_a_row_of_one() -> None:
    assert moves(Dim(1, 256), Dim(16, 1)) == [(0, 0, 1, 1, 1)]


def test_a_row_of_numbers_is_cut_into_elements() -> None:
    assert moves(Dim(2, 256), Dim(64, 1)) == [(0, 0, 2, 4, 16)]


def test_three_dimensions_are_several_transfers() -> None:
    assert moves(Dim(2, 4096), Dim(3, 256), Dim(4, 16), Dim(16, 1)) == [
        (0, 0, 3, 4, 16),
        (12, 256, 3, 4, 16),
    ]


def test_zeros_are_counted_where_the_next_transfer_begins() -> None:
    box = Dim(2, 4096), Dim(3, 256, 1, 0), Dim(4, 16, 1, 1), Dim(16, 1)
    assert moves(*box) == [(0, 0, 3, 4, 16, 1, 0, 1, 1), (24, 256, 3, 4, 16, 1, 0, 1, 1)]


def test_a_box_of_zeros_alone_is_a_row_of_them() -> None:
    """3 rows of 5, above and left of the data: y = 0 rows are read, one of 15 zeros is before."""
    assert moves(Dim(0, 256, 3), Dim(-1, 16, 6), Dim(16, 1)) == [(0, 0, 0, 15, 0, 1, 0, 0, 0)]


def test_rows_too_far_apart_for_an_instruction_are_moved_one_by_one() -> None:
    assert moves(Dim(2, 65536 * 16), Dim(32, 1)) == [(0, 0, 1, 2, 2), (2, 65536, 1, 2, 2)]


@pytest.mark.parametrize(
    ("dims", "says"),
    [
        ((Dim(4, 256), Dim(8, 1)), "the 16 numbers of an element are not contiguous"),
        ((Dim(4, 24), Dim(16, 1)), "its rows are 24 numbers apart, and an element has 16"),
        ((Dim(4, 256), Dim(14, 1, 1, 1)), "it pads inside an element"),
        ((Dim(4, 256, 16), Dim(16, 1)), "it adds 16 rows or columns of zeros on one side"),
        ((Dim(0, 256), Dim(16, 1)), "it has no elements"),
        ((Dim(2, 1 << 21, 1), Dim(16, 1)), "2 rows of 1 elements, 131072 apart"),
        ((Dim(2, 4096, 1), Dim(3, 256), Dim(4, 16), Dim(16, 1)), "it pads a dimension other than"),
    ],
)
def test_a_box_that_no_transfer_moves_says_why(dims: tuple[Dim, ...], says: str) -> None:
    with pytest.raises(BuildError) as caught:
        moves(*dims)
    assert str(caught.value).startswith(f"copy: {says}")


# --- loops ----------------------------------------------------------------------------------------

A = Buffer("A", (64, 1, 16), INT8)
C = Buffer("C", (64, 1, 16), INT8)
AL = Buffer("AL", (64, 1, 16), INT8, "local.inp_buffer")
BL = Buffer("BL", (64, 16, 16), INT8, "local.wgt_buffer")
CL = Buffer("CL", (64, 1, 16), INT32, "local.acc_buffer")
i, j, k = (Var(name, 0, 3) for name in "ijk")


def element(b: Buffer, n: Index) -> View:
    """The n-th element of a buffer."""
    return view_at(b, (n * row_strides(b)[0],), b.shape[1:], row_strides(b)[1:])


def gemm(c: Index, a: Index, b: Index) -> Stmt:
    views = element(CL, c), element(AL, a), element(BL, b)
    return Evaluate(Call("ex.gemm", views, INT32))


def shift(c: Index, by: int) -> Stmt:
    return Evaluate(Call("ex.shr", (element(CL, c), Const(by, INT32)), INT32))


def program(body: Stmt, config: Config = vta_pynq) -> tuple[list[Gemm | Alu], tuple[Uop, ...]]:
    """The instructions of the compute unit, and all micro-operations."""
    for b in (AL, BL, CL):
        body = Allocate(b, body)
    made = emit_vta(PrimFunc("f", (A, C), body, (C,)), config)
    return [n for n in made.instructions if isinstance(n, Gemm | Alu)], made.uops


def four(*around: Var, body: Stmt) -> Stmt:
    """Loops of 4 iterations."""
    for v in reversed(around):
        body = For(v, 4, body)
    return body


def test_two_outer_loops_are_those_of_the_instruction_the_rest_is_unrolled() -> None:
    made, uops = program(four(i, j, k, body=gemm(i * 4 + k, j, j * 4 + i)))
    loops = UopLoops(
        begin=0,
        end=4,
        outer=4,
        inner=4,
        dst_factors=(4, 0),
        src_factors=(0, 1),
        wgt_factors=(1, 4),
    )
    assert [n.loops for n in made] == [loops]
    assert uops == tuple(Uop(n, 0, 0) for n in range(4))


def test_a_loop_that_moves_unevenly_is_unrolled() -> None:
    made, uops = program(four(i, body=gemm(i * 3, floormod(i, 2), 0)))
    assert [(n.loops.outer, n.loops.end) for n in made] == [(1, 4)]
    assert uops == tuple(Uop(3 * n, n % 2, 0) for n in range(4))


def test_a_loop_that_is_too_long_for_an_instruction_is_unrolled() -> None:
    large = Buffer("L", (20000, 1, 16), INT32, "local.acc_buffer")
    far = Var("n", 0, 19999)
    step = Evaluate(Call("ex.shr", (element(large, far), Const(1, INT32)), INT32))
    config = Config(name="large", acc_bytes=1 << 22)
    with pytest.raises(BuildError, match="8193 or more micro-operations"):
        program(Allocate(large, For(far, 20000, step)), config)


def test_a_product_of_other_than_whole_elements_is_refused() -> None:
    views = [view_at(b, (0,), (8, 8), (8, 1)) for b in (CL, AL, BL)]
    with pytest.raises(BuildError, match="gemm on 8 x 8 numbers of CL: the elements of ACC on"):
        program(Evaluate(Call("ex.gemm", tuple(views), INT32)))


def test_each_call_site_loads_a_kernel_of_its_own_once() -> None:
    """As in VTA's runtime: two sites have a copy each, though their micro-operations are equal."""
    again, other = (four(i, body=gemm(i, 0, 0)) for _ in range(2))
    made, uops = program(seq(again, again, other, again))
    assert uops == (Uop(0, 0, 0), Uop(0, 0, 0))
    assert [n.loops.begin for n in made if isinstance(n, Gemm)] == [0, 0, 1, 0]


def test_shift_and_clip_are_three_kernels() -> None:
    _, uops = program(seq(*(four(i, body=shift(i, n)) for n in (8, 4, 2))))
    assert uops == (Uop(0, 0, 0),) * 3


def test_operations_with_different_numbers_are_different_instructions() -> None:
    made, _ = program(four(i, body=seq(shift(i, 8), shift(i, 1))))
    assert [n.imm for n in made if isinstance(n, Alu)] == [8, 1] * 4


def test_a_program_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_INSTRUCTIONS", 100)
    far = Var("n", 0, 1 << 40)
    with pytest.raises(BuildError, match="a program of more than 100 instructions"):
        program(For(far, 1 << 40, Evaluate(Call("ex.nop", (), INT32))))


def test_a_kernel_without_end_is_refused() -> None:
    a, b, c = (Var(name, 0, (1 << 30) - 1) for name in "abc")
    body: Stmt = gemm(floormod(c, 64), 0, 0)
    for v in (c, b, a):
        body = For(v, 1 << 30, body)
    with pytest.raises(BuildError, match="the memory on chip has space for 8192"):
        program(body)


def test_a_condition_is_decided_now() -> None:
    made, _ = program(four(i, body=If(compare("<", i, 3), gemm(i, 0, 0), shift(i, 1))))
    assert [mnemonic(n) for n in made] == ["gemm", "gemm", "gemm", "shr"]


def test_an_accumulator_that_is_written_again_at_once_is_refused() -> None:
    with pytest.raises(BuildError) as caught:
        program(four(i, j, k, body=gemm(i * 4 + j, k, 0)))
    assert str(caught.value).startswith(
        "gemm: micro-operations 0 to 1: accumulator 0 is updated again within three steps"
    )


def test_an_index_inside_an_element_is_refused() -> None:
    inside = view_at(CL, (i * 8,), (1, 16), (16, 1))
    body = four(i, body=Evaluate(Call("ex.fill_zero", (inside,), INT32)))
    with pytest.raises(BuildError, match="it begins at number 8 of CL, inside an element of 16"):
        program(body)


def test_numbers_of_another_type_than_the_memory_holds_are_refused() -> None:
    wide = Buffer("W", (4, 16), INT32, "local.inp_buffer")
    with pytest.raises(BuildError, match="the elements of INP are int8"):
        program(Allocate(wide, gemm(0, 0, 0)))


def test_an_instruction_that_the_machine_does_not_have_is_refused() -> None:
    with pytest.raises(BuildError) as caught:
        program(Evaluate(Call("ex.sing", (element(CL, 0),), INT32)))
    assert str(caught.value) == (
        "ex.sing(...): the accelerator has no such instruction\n"
        "  try: one of gemm, fused_gemm8x8_add, fill_zero, accumulate, min, max, add, shr, mul, "
        "dma_copy2d"
    )
