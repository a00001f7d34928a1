"""tighten: a loop whose body is guarded by its own variable ends where the guard does."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from minitvm.base import FLOAT32
from minitvm.lowering import tighten
from minitvm.tir import (
    Buffer,
    Expr,
    For,
    If,
    PrimFunc,
    Store,
    Var,
    all_of,
    binary,
    const,
    index,
    load,
    value,
    verify,
    walk,
)

Same = Callable[..., None]
A, C = Buffer("A", (40,), FLOAT32), Buffer("C", (40,), FLOAT32)
m = Var("m")


def guarded(guard: Callable[[Any], Any], extent: int = 16, kind: Any = "serial") -> PrimFunc:
    """C[j] = A[j] + 1 where `guard` holds."""
    j = Var("j", 0, extent - 1)
    cond: Expr = value(guard(j))
    store = Store(C, (index(j),), value(binary("add", load(A, j), const(1.0))))
    body = For(j, extent, If(cond, store, None, True), kind)
    return PrimFunc("main", (A, C, m), body, (C,), ())


def tightened(before: PrimFunc, same: Same) -> str:
    """The loops after the pass, which compute the same."""
    after = replace(before, body=tighten(before.body))
    verify(after, "flat")
    same(before, after, m=7)
    loops = [n for n in walk(after.body) if isinstance(n, For)]
    assert all(loop.var.high == max(loop.extent - 1, 0) for loop in loops)
    return "\n".join(line.removeprefix("  ") for line in str(after).splitlines()[1:])


def test_a_loop_stops_where_its_guard_does(same: Same) -> None:
    assert tightened(guarded(lambda j: j + 28 < 40), same) == (
        "for j in range(12):\n  C[j] = A[j] + 1.0"
    )


def test_a_loop_starts_where_its_guard_does(same: Same) -> None:
    assert tightened(guarded(lambda j: j >= 3), same) == (
        "for j in range(13):\n  C[j + 3] = A[j + 3] + 1.0"
    )


def test_both_ends_are_moved(same: Same) -> None:
    assert tightened(guarded(lambda j: all_of(j >= 3, j < 5)), same) == (
        "for j in range(2):\n  C[j + 3] = A[j + 3] + 1.0"
    )


def test_the_kind_of_loop_stays(same: Same) -> None:
    assert tightened(guarded(lambda j: j < 12, kind="vectorize"), same).startswith(
        "for j in vectorize(12):"
    )


def test_other_conditions_remain(same: Same) -> None:
    assert tightened(guarded(lambda j: all_of(j < 5, m > 2)), same) == (
        "for j in range(5):\n  if likely(2 < m):\n    C[j] = A[j] + 1.0"
    )


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (lambda j: 3 * j < 10, "for j in range(4):"),  # 3 * 3 = 9 is the last below 10
        (lambda j: 3 * j >= 10, "for j in range(12):"),  # from 4, as 3 * 4 = 12
        (lambda j: 2 * j <= 6, "for j in range(4):"),
    ],
)
def test_ends_are_rounded(guard: Callable[[Any], Any], text: str, same: Same) -> None:
    assert tightened(guarded(guard), same).startswith(text)


@pytest.mark.parametrize(
    "guard", [lambda j: j < m, lambda j: j + m < 9], ids=["symbolic end", "symbolic sum"]
)
def test_a_guard_of_unknown_extent_changes_nothing(guard: Callable[[Any], Any], same: Same) -> None:
    before = guarded(guard)
    assert tighten(before.body) is before.body
    tightened(before, same)


def test_threads_are_as_many_as_was_said() -> None:
    before = guarded(lambda j: j < 12, kind="bind")
    assert tighten(before.body) is before.body
