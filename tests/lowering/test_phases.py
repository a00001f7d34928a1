"""insert and swap: other passes in a tuple of passes."""

from collections.abc import Callable

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ArgumentError
from minitvm.lowering import PASSES, Pass, insert, swap
from minitvm.tir import NOTHING, Stmt


def mine(s: Stmt) -> Stmt:
    """A pass that changes nothing."""
    return s


def around(kind: str, phase: int) -> tuple[str, str]:
    """The passes before and after `mine`; "" for none."""
    names = [p.__name__ for p in insert(PASSES[kind], phase, mine)]
    at = names.index("mine")
    return (names[at - 1] if at else "", names[at + 1] if at + 1 < len(names) else "")


@pytest.mark.parametrize(
    ("phase", "where"),
    [(0, ("rewrite_unsafe_select", "flatten")), (1, ("flatten", "partition")),
     (2, ("unroll", "tidy")), (3, ("tidy", ""))],
)  # fmt: skip
def test_a_phase_is_a_place_among_the_passes(phase: int, where: tuple[str, str]) -> None:
    assert around("llvm", phase) == where


def test_without_unroll_phase_two_comes_before_tidy() -> None:
    assert around("python", 2) == ("inject_double_buffer", "tidy")


def test_an_inserted_pass_runs() -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    seen: list[str] = []
    passes = insert(PASSES["llvm"], 1, mine)
    s = te.create_schedule(C.op)
    tvm.lower(s, [A, C], passes=passes, watch=lambda name, f: seen.append(name))
    assert seen[seen.index("flatten") + 1] == "mine"


def test_what_is_no_function_is_not_inserted() -> None:
    with pytest.raises(ArgumentError, match="insert 5: not a named function"):
        insert(PASSES["llvm"], 1, 5)  # pyright: ignore[reportArgumentType]


def test_a_swapped_pass_goes_by_the_old_name() -> None:
    def forget(s: Stmt) -> Stmt:
        return NOTHING

    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    passes = swap(PASSES["llvm"], vectorize=forget)
    f = tvm.lower(te.create_schedule(C.op), [A, C], passes=passes, until="vectorize")
    assert str(f).splitlines()[1:] == ["  pass"]


def test_the_other_passes_stay() -> None:
    passes = swap(PASSES["llvm"], vectorize=mine)
    assert [p.__name__ for p in passes] == [p.__name__ for p in PASSES["llvm"]]
    assert sum(p is not q for p, q in zip(passes, PASSES["llvm"], strict=True)) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: insert(PASSES["llvm"], 4, mine),
         "insert mine in phase 4: there are four phases\n  try: 0, 1, 2 or 3"),
        (lambda: insert((mine,), 1, mine),
         "insert mine in phase 1: phases are defined relative to flatten, and the passes are mine\n"
         "  try: write the tuple without insert: (*passes, f)"),
        (lambda: swap((mine,), vectorise=mine), "swap vectorise: no such pass\n  try: one of mine"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(call: Callable[[], tuple[Pass, ...]], says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == says
