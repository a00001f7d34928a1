"""partition: guards leave the hot part of a loop."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.lowering import partition
from minitvm.tir import PrimFunc, verify

Same = Callable[..., None]
Golden = Callable[[str], None]


def flat(prepare: Callable[[te.Schedule, te.Tensor], None], n: Any = 700, m: int = 6) -> PrimFunc:
    """C[i, j] = A[i, j] + 1, flattened."""
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    prepare(s, C)
    return tvm.lower(s, [A, C], until="flatten")


def partitioned(before: PrimFunc, same: Same, **sizes: int) -> str:
    """The program after the pass, which computes the same."""
    after = replace(before, body=partition(before.body))
    verify(after, "flat")
    same(before, after, **sizes)
    return str(after)


def rows(factor: int, kind: str = "") -> Callable[[te.Schedule, te.Tensor], None]:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        outer, _ = s[C].split(C.op.axis[0], factor)  # type: ignore[union-attr]
        if kind:
            getattr(s[C], kind)(outer)

    return prepare


def test_whole_parts_lose_their_guard(golden: Golden, same: Same) -> None:
    golden(partitioned(flat(rows(64)), same))


def test_a_parallel_loop_stays_one_loop(golden: Golden, same: Same) -> None:
    golden(partitioned(flat(rows(64, "parallel")), same))


@pytest.mark.parametrize("n", [64, 128, 65, 63, 129, 1])
def test_every_size_computes_the_same(n: int, same: Same) -> None:
    before = flat(rows(64), n)
    assert ("likely" in str(before)) == (n % 64 != 0 and n > 64)
    partitioned(before, same)


def test_a_tile_that_is_ragged_both_ways_has_a_whole_middle(golden: Golden, same: Same) -> None:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        s[C].tile(*C.op.axis, 4, 4)  # type: ignore[union-attr]

    golden(partitioned(flat(prepare, 10, 7), same))


def test_the_last_part_of_an_inner_loop_keeps_its_guard(same: Same) -> None:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        s[C].split(C.op.axis[1], 4)  # type: ignore[union-attr]

    assert partitioned(flat(prepare, 3, 6), same).splitlines()[1:] == [
        "  for i in range(3):",
        "    for j_inner in range(4):",
        "      C[i*6 + j_inner] = A[i*6 + j_inner] + 1.0",
        "    for j_inner in range(4):",
        "      if likely(j_inner + 4 < 6):",
        "        C[i*6 + j_inner + 4] = A[i*6 + j_inner + 4] + 1.0",
    ]


def test_a_symbolic_loop_loses_its_guard_where_parts_are_whole(same: Same) -> None:
    after = partitioned(flat(rows(64), te.size_var("n")), same, n=70).splitlines()
    assert after[1:4] == [
        "  for i_outer in range(n // 64):",
        "    for i_inner in range(64):",
        "      for j in range(6):",
    ]
    assert after[5:8] == [
        "  for i_outer_1 in range((n + 63) // 64 - n // 64):",
        "    for i_inner in range(64):",
        "      if likely(i_outer_1*64 + n // 64*64 + i_inner < n):",
    ]


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("kind", ["", "parallel"])
def test_every_symbolic_size_computes_the_same(n: int, kind: str, same: Same) -> None:
    partitioned(flat(rows(64, kind), te.size_var("n")), same, n=n)


def tiles_of_a_product(scale: int) -> PrimFunc:
    """C = A @ B, of scale * n rows, in tiles of 4 rows that are unrolled inside the loop over k."""
    n = te.size_var("n")
    rows = n * scale
    A, B = te.placeholder((rows, 3), name="A"), te.placeholder((3, 2), name="B")
    k = te.reduce_axis((0, 3), name="k")
    C = te.compute((rows, 2), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis  # type: ignore[union-attr]
    io, ii = s[C].split(i, 4)
    s[C].reorder(io, k, ii, j)
    s[C].unroll(ii)
    return tvm.lower(s, [A, B, C, n], until="flatten")


@pytest.mark.parametrize("n", range(1, 10))
def test_the_rest_of_an_unrolled_tile_has_code_for_each_size(n: int, same: Same) -> None:
    before = tiles_of_a_product(1)
    lines = partitioned(before, same, n=n).splitlines()
    heads = [line.strip() for line in lines if line.startswith("  ") and line[2] != " "]
    assert [h for h in heads if "%" in h] == [f"if n % 4 == {rest}:" for rest in (1, 2, 3)]
    assert "n // 4" in heads[0]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_rests_that_cannot_occur_have_no_code(n: int, same: Same) -> None:
    text = partitioned(tiles_of_a_product(6), same, n=n)
    assert "n*6 % 4 == 2" in text or "n % 2*2 == 2" in text
    assert text.count(" == ") == 1


def test_the_condition_of_a_reduction_is_a_guard_too(golden: Golden, same: Same) -> None:
    A = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, where=k <= i), name="C")
    golden(partitioned(tvm.lower(te.create_schedule(C.op), [A, C], until="flatten"), same))


def test_a_program_without_guards_is_the_same_object() -> None:
    f = flat(lambda s, C: None, 8)
    assert partition(f.body) is f.body


def test_a_reduction_in_ragged_tiles_computes_the_same(golden: Golden, same: Same) -> None:
    A, B = te.placeholder((10, 9), name="A"), te.placeholder((9, 7), name="B")
    k = te.reduce_axis((0, 9), name="k")
    C = te.compute((10, 7), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    io, jo, ko, ii, ji, ki = s[C].tile(*C.op.axis, k, 4, 4, 4)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    golden(partitioned(tvm.lower(s, [A, B, C], until="flatten"), same))


def test_only_iterations_at_the_border_test_for_padding(golden: Golden, same: Same) -> None:
    A = te.placeholder((40,), name="A")
    k = te.reduce_axis((0, 3), name="k")

    def body(i: Any) -> Any:
        at = i + k - 1
        return te.sum(te.if_then_else(te.all(at >= 0, at < 40), A[at], 0.0), axis=k)

    C = te.compute((40,), body, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(s[C].op.axis[0], 8)[1])  # type: ignore[union-attr]
    golden(partitioned(tvm.lower(s, [A, C], until="flatten"), same))
