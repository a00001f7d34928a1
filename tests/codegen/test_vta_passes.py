"""Passes of target "vta" on programs written by hand: text in, text out, and what they refuse."""

from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of
from minitvm.codegen import TARGETS
from minitvm.lowering import flatten
from minitvm.tir import (
    Allocate,
    Buffer,
    Call,
    Const,
    Evaluate,
    For,
    If,
    Load,
    Pragma,
    Stmt,
    Store,
    Var,
    binary,
    compare,
    decl_buffer,
    hardware_intrinsic,
    if_then_else,
    row_strides,
    seq,
    text,
    view_at,
)

PASS = {p.__name__: p for p in TARGETS["vta"].passes}
INT32, INT8 = dtype_of("int32"), dtype_of("int8")
A = Buffer("A", (8, 32), INT32)
R, S = Buffer("R", (8, 32), INT8), Buffer("S", (8, 32), dtype_of("int16"))
AL = Buffer("AL", (8, 16), INT32, "local.acc_buffer")
BL = Buffer("BL", (8, 16), INT32, "local.acc_buffer")
i, j, h, k = (Var(name, 0, n - 1) for name, n in (("i", 8), ("j", 16), ("h", 8), ("k", 2)))


def loops(body: Stmt, *around: tuple[Var, int]) -> Stmt:
    for v, n in reversed(around):
        body = For(v, n, body)
    return body


def load(b: Buffer, *at: Any) -> Load:
    return Load(b, at, b.dtype)


def run(name: str, s: Stmt) -> str:
    return text(PASS[name](s))


def refusal(name: str, s: Stmt) -> str:
    with pytest.raises(LoweringError) as caught:
        PASS[name](s)
    return str(caught.value)


# --- transfers ------------------------------------------------------------------------------------


def copy(to: Load, source: Any, *around: tuple[Var, int]) -> Stmt:
    body = loops(Store(to.buffer, to.indices, source), *around)
    return Pragma("dma_copy", 1, body)


BOTH = (i, 8), (j, 16)


def test_loops_that_copy_become_a_transfer() -> None:
    s = copy(load(AL, i, j), load(A, i, k * 16 + j), *BOTH)
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL, A[0:8][k*16:k*16+16])"


def test_a_transfer_to_main_memory_may_keep_low_bits_only() -> None:
    out = Buffer("C", (8, 16), INT8)
    s = copy(load(out, i, j), load(AL, i, j).astype("int8"), *BOTH)
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(C, AL)"


def test_a_transfer_into_the_accumulators_widens_int8() -> None:
    s = copy(load(AL, i, j), load(R, i, k * 16 + j).astype("int32"), *BOTH)
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL, R[0:8][k*16:k*16+16])"


@pytest.mark.parametrize("early", [True, False], ids=["widened inside", "widened outside"])
def test_zeros_around_may_be_widened_too(early: bool) -> None:
    inside, value = compare(">=", i, 1), load(R, i - 1, j)
    if early:
        value = if_then_else(inside, value.astype("int32"), Const(0, INT32))
    else:
        value = if_then_else(inside, value, Const(0, INT8)).astype("int32")
    s = copy(load(AL, i, j), value, *BOTH)
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL, R[0:7][0:16], 1, 0, 0, 0)"


def test_one_row_is_a_box_too() -> None:
    s = copy(load(AL, 3, j), load(A, i, j), (j, 16))
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL[3], A[i][0:16])"


def test_zeros_around_become_padding() -> None:
    inside = compare(">=", i, 1)
    value = if_then_else(inside, load(A, i - 1, j), Const(0, INT32))
    s = copy(load(AL, i, j), value, *BOTH)
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL, A[0:7][0:16], 1, 0, 0, 0)"


def test_every_second_row_of_main_memory_may_be_copied() -> None:
    s = copy(load(AL, k, j), load(A, k * 2 + 1, j), (k, 2), (j, 16))
    assert run("inject_dma_intrin", s) == "vta.dma_copy2d(AL[0:2], view(A[1, 0], 2, 16, 64, 1))"


def test_a_copy_that_is_to_be_skipped_goes() -> None:
    s = Pragma("skip_dma_copy", 1, loops(Store(AL, (i, j), load(A, i, j)), *BOTH))
    assert run("inject_dma_intrin", s) == "pass"


@pytest.mark.parametrize(
    ("s", "says"),
    [
        (copy(load(AL, i, j), load(A, i, j) + 1, *BOTH),
         "dma_copy to AL: it stores A[i, j] + 1, and a transfer cannot compute"),
        (copy(load(AL, i, j), load(S, i, j).astype("int32"), *BOTH),
         "dma_copy to AL: it stores int32(S[i, j]), and a transfer cannot compute"),
        (copy(load(Buffer("T", (8, 16), INT32, "local.inp_buffer"), i, j),
              load(R, i, j).astype("int32"), *BOTH),
         "dma_copy to T: it stores int32(R[i, j]), and a transfer cannot compute"),
        (copy(load(A, i, j), load(A, i, j + 16), *BOTH),
         "dma_copy of A to A: neither buffer is in a memory of the accelerator"),
        (copy(load(AL, i, j), load(A, j % 8, i), (i, 8), (j, 16)),
         "dma_copy of A to AL: its loops do not visit each element of a box of 8 x 8 exactly once"),
        (copy(load(Buffer("T", (16, 8), INT32, "local.acc_buffer"), j, i), load(A, i, j), *BOTH),
         "dma_copy of A to T: it changes the order of dimensions, A[i, j] to T[j, i]"),
        (copy(load(AL, k * 2, j), load(A, k, j), (k, 2), (j, 16)),
         "dma_copy of A to AL: the 2 x 16 elements are not contiguous in AL[8, 16]"),
        (copy(load(AL, k, j), if_then_else(compare(">=", k * 2, 1), load(A, k * 2 - 1, j),
                                           Const(0, INT32)), (k, 2), (j, 16)),
         "dma_copy of A to AL: it pads dimension 0 of A[k*2 - 1, j], with step 2"),
        (copy(load(AL, i, h), load(A, i, h), (i, 8), (h, 8)),
         "dma_copy of A to AL: the 8 x 8 elements are not contiguous in AL[8, 16]"),
        (Pragma("dma_copy", 1, loops(If(compare("<", i, 7), Store(AL, (i, j), load(A, i, j))),
                                     *BOTH)),
         "pragma dma_copy around\nfor i in range(8):\n  for j in range(16):\n    if i < 7:\n"
         "      AL[i, j] = A[i, j]: a condition guards the copy"),
        (copy(load(A, i, j),
              if_then_else(compare(">=", i, 1), load(AL, i - 1, j), Const(0, INT32)), *BOTH),
         "dma_copy of AL to A: a store cannot pad"),
        (copy(load(AL, i, j),
              if_then_else(compare(">=", i + j, 1), load(A, i, j), Const(0, INT32)), *BOTH),
         "dma_copy of A to AL: 1 <= i + j is not a bound on an index of A[i, j]"),
    ],
)  # fmt: skip
def test_what_is_no_transfer_says_why(s: Stmt, says: str) -> None:
    assert refusal("inject_dma_intrin", s).startswith(says)


# --- arithmetic -----------------------------------------------------------------------------------


def alu(value: Any, *around: tuple[Var, int]) -> Stmt:
    return flatten(Pragma("alu", 1, loops(Store(AL, (i, j), value), *(around or BOTH))))


@pytest.mark.parametrize(
    ("value", "instruction"),
    [
        (load(AL, i, j) + load(BL, i, j), "add(AL[i0], BL[i0])"),
        (load(BL, i, j) + load(AL, i, j), "add(AL[i0], BL[i0])"),
        (load(AL, i, j) * 3, "mul(AL[i0], 3)"),
        (binary("max", load(AL, i, j), Const(0, INT32)), "max(AL[i0], 0)"),
        (binary("min", load(AL, i, j), Const(127, INT32)), "min(AL[i0], 127)"),
        (load(AL, i, j) >> 8, "shr(AL[i0], 8)"),
        (load(AL, i, j) << 8, "shr(AL[i0], -8)"),
        (load(AL, i, j) - 8, "add(AL[i0], -8)"),
        (load(AL, i, j), "shr(AL[i0], 0)"),
    ],
)
def test_arithmetic_becomes_an_operation_on_elements(value: Any, instruction: str) -> None:
    assert run("inject_alu_intrin", alu(value)) == f"for i0 in range(8):\n  vta.{instruction}"


def test_an_operand_may_be_the_same_for_several_elements() -> None:
    assert run("inject_alu_intrin", alu(load(AL, i, j) + load(BL, 0, j))) == (
        "for i0 in range(8):\n  vta.add(AL[i0], BL[0])"
    )


def test_a_loop_that_is_too_long_for_an_instruction_is_two() -> None:
    far, large = Var("i", 0, 100351), Buffer("L", (100352, 16), INT32, "local.acc_buffer")
    body = Store(large, (far, j), load(large, far, j) + 1)
    assert (
        run("inject_alu_intrin", flatten(Pragma("alu", 1, loops(body, (far, 100352), (j, 16)))))
        == "for i0 in range(14336):\n  for i1 in range(7):\n    vta.add(L[i0*7+i1], 1)"
    )


@pytest.mark.parametrize(
    ("s", "says"),
    [
        (alu(load(BL, i, j) - 3),
         "pragma alu: AL[i*16 + j] = BL[i*16 + j] - 3: the ALU overwrites an operand with"),
        (alu(load(AL, i, j) - -32768),
         "pragma alu: AL[i*16 + j] = AL[i*16 + j] - (-32768): 32768, which is to be added, is "
         "neither an accumulator nor a number from -32768 to 32767"),
        (alu(load(AL, i, j) << load(BL, i, j)),
         "pragma alu: AL[i*16 + j] = AL[i*16 + j] << BL[i*16 + j]: the ALU shifts left by "
         "constants only"),
        (alu(load(A, i, j) + load(BL, i, j)),
         "pragma alu: AL[i*16 + j] = A[i*32 + j] + BL[i*16 + j]: A is in 'global', and the ALU"),
        (alu(load(AL, i, j) - load(BL, i, j)),
         "pragma alu: AL[i*16 + j] = AL[i*16 + j] - BL[i*16 + j]: it is not a single operation"),
        (alu(load(BL, i, j) >> 8),
         "pragma alu: AL[i*16 + j] = BL[i*16 + j] >> 8: the ALU overwrites an operand"),
        (alu(load(AL, i, j) + 40000),
         "pragma alu: AL[i*16 + j] = AL[i*16 + j] + 40000: 40000 is neither an accumulator nor a "
         "number from -32768 to 32767"),
        (alu(load(AL, i, j) + load(A, i, j)),
         "pragma alu: AL[i*16 + j] = AL[i*16 + j] + A[i*32 + j]: A is in 'global', and the ALU"),
        (flatten(Pragma("alu", 1, loops(Store(AL, (i, h), load(AL, i, h) + 1), (i, 8), (h, 8)))),
         "pragma alu: AL[i*16 + h] = AL[i*16 + h] + 1: it does not work on whole elements of 16"),
        (Pragma("alu", 1, seq(Store(AL, (0,), load(AL, 0)), Store(AL, (0,), load(AL, 0)))),
         "pragma alu around\nAL[0] = AL[0]\nAL[0] = AL[0]: the loops do not contain just one"),
    ],
)  # fmt: skip
def test_what_the_alu_cannot_do_says_why(s: Stmt, says: str) -> None:
    assert refusal("inject_alu_intrin", s).startswith(says)


# --- units and tokens -----------------------------------------------------------------------------


def does(unit: str) -> Stmt:
    """A block of a unit: it prints as ld.work()."""
    return Evaluate(Call(f"{unit}.work", (), INT32))


def tokens(s: Stmt) -> str:
    return run("inject_coproc_sync", s)


def test_neighbours_of_two_units_pass_a_token() -> None:
    assert tokens(seq(does("ld"), does("ex"))).splitlines() == [
        "ld.work()",
        "ld.push_dep_to(ex)",
        "ex.pop_dep_from(ld)",
        "ex.work()",
    ]


def test_neighbours_of_one_unit_are_one_block() -> None:
    assert tokens(seq(does("ld"), does("ld"), does("ex"))).count("push") == 1


def test_one_unit_alone_needs_no_tokens() -> None:
    s = For(i, 8, seq(does("ex"), does("ex")))
    assert tokens(s) == text(s)


def test_what_a_loop_leaves_is_taken_after_what_follows_is_told() -> None:
    """for i: for j: {load, compute}; then store: the store's token first, then the loop's own."""
    inner = For(j, 16, seq(does("ld"), does("ex")))
    assert tokens(seq(For(i, 8, inner), does("st"))).splitlines() == [
        "ex.push_dep_to(ld)",
        "for i in range(8):",
        "  for j in range(16):",
        "    ld.pop_dep_from(ex)",
        "    ld.work()",
        "    ld.push_dep_to(ex)",
        "    ex.pop_dep_from(ld)",
        "    ex.work()",
        "    ex.push_dep_to(ld)",
        "ex.push_dep_to(st)",
        "ld.pop_dep_from(ex)",
        "st.pop_dep_from(ex)",
        "st.work()",
    ]


def test_a_branch_gives_and_takes_all_of_its_tokens_itself() -> None:
    inner = For(j, 16, seq(does("ld"), does("ex")))
    lines = tokens(For(i, 8, If(compare("<", i, 4), inner))).splitlines()
    assert [line.strip() for line in lines if "dep" in line] == [
        "ex.push_dep_to(ld)",
        "ld.pop_dep_from(ex)",
        "ex.push_dep_to(ld)",
        "ld.pop_dep_from(ex)",
        "ld.push_dep_to(ex)",
        "ex.pop_dep_from(ld)",
        "ex.push_dep_to(ld)",
        "ld.pop_dep_from(ex)",
        "ex.push_dep_to(ld)",
        "ld.pop_dep_from(ex)",
    ]


def test_a_loop_around_virtual_threads_takes_a_token_for_each_of_them() -> None:
    threads = For(k, 2, seq(does("ld"), does("ex")), "bind", "cthread")
    lines = tokens(For(i, 8, threads)).splitlines()
    assert lines[:3] == ["ex.push_dep_to(ld)", "ex.push_dep_to(ld)", "for i in range(8):"]
    assert lines[-2:] == ["ld.pop_dep_from(ex)", "ld.pop_dep_from(ex)"]


def test_no_queue_joins_load_and_store() -> None:
    says = refusal("inject_coproc_sync", seq(does("st"), does("ld")))
    assert says.startswith(
        "st.work() and then ld.work(): the load unit runs one and the store unit"
    )


def test_the_axis_where_the_compute_unit_can_stand_between_is_named() -> None:
    views = (view_at(b, (0, 0), (8, 16), row_strides(b)) for b in (A, AL))
    stored = Evaluate(Call("st.dma_copy2d", tuple(views), INT32))
    says = refusal("inject_coproc_sync", seq(For(k, 2, stored), does("ld")))
    assert "s[A].pragma(axis, 'coproc_sync') on the axis that has its 'dma_copy', and not" in says


def test_virtual_threads_do_all_of_their_work_themselves() -> None:
    threads = For(k, 2, does("vta"), "bind", "vthread")
    assert run("assign_units", threads) == "for k in bind(2, 'cthread'):\n  ex.work()"


@pytest.mark.parametrize(
    ("s", "says"),
    [
        (
            Store(A, (0, 0), Const(1, INT32)),
            "A[0, 0] = 1: the accelerator has no instruction that stores",
        ),
        (Evaluate(Call("sing", (), INT32)), "sing(): no unit of the accelerator has such"),
        (For(i, 8, does("ex"), "bind", "threadIdx.x"), "loop 'i' bound to 'threadIdx.x': the"),
        (
            Evaluate(hardware_intrinsic("vta.shr", decl_buffer((1, 16), "int32", "c"), 1)),
            "vta.shr(access_ptr.rw(c[0, 0]), 1): an instruction works on an array with a shape",
        ),
    ],
)
def test_what_no_unit_runs_says_so(s: Stmt, says: str) -> None:
    assert refusal("assign_units", s).startswith(says)


def test_a_stage_without_a_pragma_is_named_before_it_shares_memory_with_another() -> None:
    bare = Allocate(BL, flatten(loops(Store(BL, (i, j), load(AL, i, j) >> 2), (i, 8), (j, 16))))
    assert refusal("check_stores", Allocate(AL, seq(alu(load(AL, i, j) + 1), bare))).startswith(
        "BL[i*16 + j] = AL[i*16 + j] >> 2: the accelerator has no instruction that stores a single "
        "number\n  try: s[BL].pragma(axis, 'dma_copy')"
    )


# --- memory ---------------------------------------------------------------------------------------


def test_memory_begins_where_the_loop_around_it_does() -> None:
    s = For(i, 8, seq(does("ld"), Allocate(AL, seq(does("ld"), Allocate(BL, does("ex"))))))
    assert run("lift_allocations", s).splitlines() == [
        "for i in range(8):",
        '  AL = allocate((8, 16), "int32", "local.acc_buffer")',
        '  BL = allocate((8, 16), "int32", "local.acc_buffer")',
        "  ld.work()",
        "  ld.work()",
        "  ex.work()",
    ]


def large(n: int) -> Buffer:
    return Buffer("L", (n, 16), INT32, "local.acc_buffer")


def test_a_memory_may_be_filled_to_its_last_element() -> None:
    s = Allocate(large(2048), does("ex"))
    assert PASS["check_capacity"](s) is s


def test_buffers_side_by_side_in_time_fit_one_by_one() -> None:
    s = seq(Allocate(large(2000), does("ex")), Allocate(large(2000), does("ex")))
    assert PASS["check_capacity"](s) is s


def test_buffers_at_the_same_time_must_fit_together() -> None:
    assert refusal("check_capacity", Allocate(AL, Allocate(large(2041), does("ex")))) == (
        "L[2041, 16] in 'local.acc_buffer': 2049 elements of ACC are needed (AL 8 + L 2041), "
        "vta_pynq has 2048\n"
        "  try: smaller tiles, fewer virtual threads (each has its own buffers), or a larger "
        "Config"
    )


def test_memory_of_a_cpu_is_none_of_the_accelerator() -> None:
    here = Buffer("T", (16,), INT32, "local")
    says = refusal("check_capacity", Allocate(here, does("ex")))
    assert says.startswith("T in 'local' memory: the accelerator computes only in its own")


def test_memory_in_a_loop_is_used_again_in_place() -> None:
    """A shift takes the accumulators that were loaded, iteration by iteration."""
    X = te.placeholder((4, 2, 16), name="X", dtype="int32")
    P = te.compute(X.shape, X, name="P")
    Q = te.compute(X.shape, lambda *at: P(*at) >> 8, name="Q")
    R = te.compute(X.shape, lambda *at: Q(*at).astype("int8"), name="R")
    s = te.create_schedule(R.op)
    for t in (Q, P):
        s[t].compute_at(s[R], s[R].op.axis[0])
        s[t].set_scope("acc_buffer")
    s[P].pragma(s[P].op.axis[0], "dma_copy")
    s[Q].pragma(s[Q].op.axis[0], "alu")
    s[R].pragma(s[R].op.axis[1], "dma_copy")
    assert [line.strip() for line in str(tvm.lower(s, [X, R], target="vta")).splitlines()[2:]] == [
        "for at0 in range(4):",
        'P = allocate((1, 2, 16), "int32", "local.acc_buffer")',
        "ex.pop_dep_from(st)",
        "ex.dma_copy2d(P, X[at0])",
        "for i0 in range(2):",
        "ex.shr(P[0][i0], 8)",
        "ex.push_dep_to(st)",
        "st.pop_dep_from(ex)",
        "st.dma_copy2d(R[at0], P)",
        "st.push_dep_to(ex)",
        "ex.pop_dep_from(st)",
    ]
