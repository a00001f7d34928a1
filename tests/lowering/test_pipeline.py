"""lower(): which passes run, who watches, which arguments fit, and that nothing is changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ArgumentError, VerifyError
from minitvm.lowering import PASSES, START, Pass, flatten, insert, tidy, unroll
from minitvm.tir import NOTHING, For, PrimFunc, Stmt, Store, interpret, rewrite, text


def chain() -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """B[i] = A[i] + 1; C[i] = B[i] * 2"""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    return te.create_schedule(C.op), A, B, C


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(ArgumentError) as caught:
        act()
    return str(caught.value)


def empty(s: Stmt) -> Stmt:
    """A pass that forgets the program."""
    return NOTHING


# --- what runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
def test_watchers_see_every_stage_in_order(target: str) -> None:
    s, A, _, C = chain()
    seen: list[str] = []
    tvm.lower(s, [A, C], target=target, watch=lambda name, f: seen.append(name))
    assert seen == [START, *(p.__name__ for p in PASSES[target])]


def test_watchers_see_the_program_after_the_pass() -> None:
    s, A, _, C = chain()
    s[C].unroll(C.op.axis[0])
    seen: dict[str, str] = {}
    tvm.lower(s, [A, C], watch=lambda name, f: seen.update({name: str(f)}))
    assert "in unroll(8)" in seen["vectorize"]
    assert "in unroll(8)" not in seen["unroll"]


@pytest.mark.parametrize("name", [START, *(p.__name__ for p in PASSES["llvm"])])
def test_until_stops_after_the_pass_of_that_name(name: str) -> None:
    s, A, _, C = chain()
    seen: list[str] = []
    tvm.lower(s, [A, C], until=name, watch=lambda name, f: seen.append(name))
    assert seen[-1] == name


def test_until_shows_what_a_watcher_sees() -> None:
    s, A, _, C = chain()
    s[C].vectorize(C.op.axis[0])
    seen: dict[str, str] = {}
    tvm.lower(s, [A, C], watch=lambda name, f: seen.update({name: str(f)}))
    assert {name: str(tvm.lower(s, [A, C], until=name)) for name in seen} == seen


def test_an_unknown_pass_is_refused_with_the_known_ones() -> None:
    s, A, _, C = chain()
    known = ", ".join([START, *(run.__name__ for run in PASSES["python"])])
    assert refusal(lambda: tvm.lower(s, [A, C], until="flaten", target="python")) == (
        f"until='flaten': no such pass\n  try: one of {known}"
    )


def test_simple_mode_shows_the_loops_before_the_first_pass() -> None:
    s, A, _, C = chain()
    assert str(tvm.lower(s, [A, C], simple_mode=True)) == str(tvm.lower(s, [A, C], until="nest"))


def test_other_passes_may_run_instead() -> None:
    s, A, _, C = chain()
    assert str(tvm.lower(s, [A, C], passes=(flatten, empty, tidy))) == (
        "def main(A: float32[8], C: float32[8]):\n  pass"
    )


def test_no_passes_leave_the_nest() -> None:
    s, A, _, C = chain()
    assert str(tvm.lower(s, [A, C], passes=())) == str(tvm.lower(s, [A, C], until="nest"))


def test_a_pass_that_changes_nothing_leaves_the_same_program() -> None:
    s, A, _, C = chain()
    seen: list[PrimFunc] = []
    tvm.lower(s, [A, C], passes=(flatten, unroll), watch=lambda name, f: seen.append(f))
    assert seen[-1] is seen[-2]


def test_the_program_has_the_name_it_was_given() -> None:
    s, A, _, C = chain()
    assert str(tvm.lower(s, [A, C], "twice")).startswith("def twice(")


# --- laws ---------------------------------------------------------------------------------------


def give_back_indices(s: Stmt) -> Stmt:
    """A pass that forgets to be flat: C[i] becomes C[i, 0]."""

    def on_stmt(s: Stmt) -> Stmt:
        return Store(s.buffer, (*s.indices, 0), s.value) if isinstance(s, Store) else s

    return rewrite(s, on_stmt)


def vectorize_again(s: Stmt) -> Stmt:
    """A pass that leaves work to those that have run."""
    return rewrite(s, lambda s: replace(s, kind="unroll") if isinstance(s, For) else s)


@pytest.mark.parametrize(
    ("wrong", "phase", "says"),
    [
        (give_back_indices, 1, "'B' has 2 indices; after flatten an access has one offset"),
        (vectorize_again, 3, "the loop remains after the pass that replaces 'unroll' loops"),
    ],
)
def test_what_earlier_passes_achieved_is_kept(wrong: Pass, phase: int, says: str) -> None:
    s, A, _, C = chain()
    with pytest.raises(VerifyError, match=says):
        tvm.lower(s, [A, C], passes=insert(PASSES["llvm"], phase, wrong))


def test_before_unroll_loops_may_be_marked() -> None:
    s, A, _, C = chain()
    tvm.lower(s, [A, C], passes=insert(PASSES["llvm"], 1, vectorize_again))


# --- purity --------------------------------------------------------------------------------------


def test_lowering_twice_gives_the_same_text() -> None:
    s, A, B, C = chain()
    outer, inner = s[C].split(C.op.axis[0], 3)
    s[B].compute_at(s[C], outer)
    s[C].vectorize(inner)
    assert str(tvm.lower(s, [A, C])) == str(tvm.lower(s, [A, C]))


def test_lowering_leaves_the_schedule_as_it_was() -> None:
    s, A, B, C = chain()
    s[B].compute_inline()
    before, seen = s.state, repr(s)
    tvm.lower(s, [A, C])
    assert s.state is before
    assert repr(s) == seen


def test_the_schedule_can_go_on_after_lowering() -> None:
    s, A, B, C = chain()
    tvm.lower(s, [A, C])
    s[B].compute_at(s[C], C.op.axis[0])
    assert "B = allocate((1,)" in str(tvm.lower(s, [A, C]))


# --- arguments -----------------------------------------------------------------------------------


def test_parameters_come_in_the_order_of_the_arguments() -> None:
    s, A, _, C = chain()
    assert str(tvm.lower(s, [C, A])).startswith("def main(C: float32[8], A: float32[8]):")


def test_arguments_of_one_name_are_told_apart() -> None:
    A, B = te.placeholder((8,), name="T"), te.placeholder((8,), name="T")
    C = te.compute((8,), lambda i: A[i] + B[i], name="T")
    f = tvm.lower(te.create_schedule(C.op), [A, B, C])
    assert str(f) == (
        "def main(T: float32[8], T_1: float32[8], T_2: float32[8]):\n"
        "  for i in range(8):\n"
        "    T_2[i] = T[i] + T_1[i]"
    )


def test_sizes_are_learnt_from_shapes() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * n, name="C")
    f = tvm.lower(te.create_schedule(C.op), [A, C])
    assert [v.name for v in f.sizes] == ["n"]


def test_each_condition_on_sizes_is_checked_once_and_only_if_it_can_fail() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].split(B.op.axis[0], factor=n // 8)
    s[C].split(C.op.axis[0], factor=n // 8)
    assert [text(need) for need in tvm.lower(s, [A, C]).needs] == ["n // 8 - 1"]
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=n + 1)
    assert tvm.lower(s, [A, C]).needs == ()


def test_a_scalar_is_an_argument() -> None:
    n = te.var("n")
    A = te.placeholder((8,), "int32", name="A")
    C = te.compute((8,), lambda i: A[i] * n, name="C")
    f = tvm.lower(te.create_schedule(C.op), [A, n, C])
    assert str(f).startswith("def main(A: int32[8], n: int32, C: int32[8]):")


@pytest.mark.parametrize(
    ("pick", "says"),
    [
        (lambda A, B, C: [C], "args: A missing: "
         "all inputs and outputs of the schedule are arguments\n  try: args = [A, C]"),
        (lambda A, B, C: [A], "args: C missing: "
         "all inputs and outputs of the schedule are arguments\n  try: args = [A, C]"),
        (lambda A, B, C: [A, C, A], "args: the same argument is given twice"),
        (lambda A, B, C: [A, B, C], "argument B: it is an intermediate result, which is not "
         "necessarily stored as a whole\n"
         "  try: te.create_schedule([..., B.op]) makes it an output"),
        (lambda A, B, C: [A, C, te.compute((8,), lambda i: A[i], name="D")],
         "argument D: it is not part of this schedule"),
        (lambda A, B, C: [A, C.op],
         "args: compute C(i): not a tensor or variable\n"
         "  try: tensors such as A, not arrays or A.op"),
        (lambda A, B, C: [A, 8],
         "args: 8: not a tensor or variable\n  try: tensors such as A, not arrays or A.op"),
    ],
    ids=["input missing", "output missing", "twice", "intermediate", "stranger", "op", "number"],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(pick: Callable[..., Any], says: str) -> None:
    s, *tensors = chain()
    assert refusal(lambda: tvm.lower(s, pick(*tensors))) == says


def test_an_inlined_stage_is_no_argument() -> None:
    s, A, B, C = chain()
    s[B].compute_inline()
    assert refusal(lambda: tvm.lower(s, [A, B, C])) == (
        "argument B: it is inlined, so it is never stored"
    )


def test_one_output_of_an_operation_is_enough() -> None:
    """The others are computed on the side."""
    A = te.placeholder((8,), name="A")
    B, C = te.compute((8,), lambda i: (A[i], A[i] + 1.0), name="B")
    f = tvm.lower(te.create_schedule(B.op), [A, C])
    a, c = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpret(f, a, c)
    np.testing.assert_array_equal(c, a + 1)


def test_a_variable_without_a_value_is_refused() -> None:
    n = te.var("n")
    A = te.placeholder((8,), "int32", name="A")
    C = te.compute((8,), lambda i: A[i] * n, name="C")
    assert refusal(lambda: tvm.lower(te.create_schedule(C.op), [A, C])) == (
        "variable 'n': it has no value: it is neither an argument nor in the shape of one\n"
        "  try: add it to args"
    )


def test_a_size_that_no_shape_tells_is_refused() -> None:
    """From a shape of n*2 alone, n is not learnt."""
    n = te.size_var("n")
    A = te.placeholder((n * 2,), name="A")
    C = te.compute((n * 2,), lambda i: A[i] + 1.0, name="C")
    assert "variable 'n': it has no value" in refusal(
        lambda: tvm.lower(te.create_schedule(C.op), [A, C])
    )


def test_what_is_lowered_is_a_schedule() -> None:
    _, A, _, C = chain()
    assert refusal(lambda: tvm.lower(C.op, [A, C])) == (  # type: ignore[arg-type]
        "lower(ComputeOp): not a schedule\n  try: te.create_schedule(C.op)"
    )


# --- MINITVM_DEBUG -------------------------------------------------------------------------------


def shown(level: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What lowering and building print at a debug level."""
    monkeypatch.setenv("MINITVM_DEBUG", str(level))
    s, A, B, C = chain()
    s[B].compute_inline()
    tvm.build(s, [A, C], target="python")
    return capsys.readouterr().err


def test_nothing_is_shown_at_level_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(0, monkeypatch, capsys) == ""


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (1, ["build main for python"]),
        (2, ["nest ", "flatten ", "tidy ", " ms ", " nodes"]),
        (3, ["step 1: ComputeInline(stage='B')"]),
        (4, ["def main(A: float32[8], C: float32[8]):", "(unchanged)"]),
        (5, ["def main(A, C"]),
    ],
)
def test_each_level_shows_more(
    level: int,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [w for w in words if w not in shown(level, monkeypatch, capsys)] == []
    assert [w for w in words if w in shown(level - 1, monkeypatch, capsys)] == []
