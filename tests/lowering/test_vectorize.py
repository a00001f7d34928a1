"""vectorize: marked loops become vector statements."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.lowering import vectorize
from minitvm.tir import PrimFunc, verify

Same = Callable[..., None]
Golden = Callable[[str], None]


def flat(s: te.Schedule, args: list[te.Tensor]) -> PrimFunc:
    return tvm.lower(s, args, until="flatten")


def vector(n: int, formula: Callable[[te.Tensor, Any], Any], size: int = 0) -> PrimFunc:
    """C[i] = formula(A, i), vectorized along i."""
    A = te.placeholder((size or n,), name="A")
    C = te.compute((n,), lambda i: formula(A, i), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    return flat(s, [A, C])


def vectorized(before: PrimFunc, same: Same) -> list[str]:
    """The lines of the body after the pass, which computes the same."""
    after = replace(before, body=vectorize(before.body))
    verify(after, "flat")
    same(before, after)
    return [line[2:] for line in str(after).splitlines()[1:]]


@pytest.mark.parametrize(
    ("formula", "size", "says"),
    [
        (lambda A, i: A[i] + 1.0, 8, "C[0 : 8] = A[0 : 8] + 1.0"),
        (lambda A, i: A[i * 2] + A[3], 16, "C[0 : 8] = A[0 : 16 : 2] + A[3]"),
        (lambda A, i: A[7 - i], 8, "C[0 : 8] = A[7 - lane(8)]"),
        (lambda A, i: A[i // 2], 8, "C[0 : 8] = A[lane(8) // 2]"),
        (lambda A, i: A[i] + i, 8, "C[0 : 8] = A[0 : 8] + float32(lane(8))"),
        (lambda A, i: te.if_then_else(i < 5, A[i], 0.0), 8,
         "C[0 : 8] = (A[0 : 8] if lane(8) < 5 else 0.0)"),
        (lambda A, i: te.exp(A[i] - A[0]), 8, "C[0 : 8] = exp(A[0 : 8] - A[0])"),
    ],
)  # fmt: skip
def test_a_loop_becomes_one_statement(
    formula: Callable[..., Any], size: int, says: str, same: Same
) -> None:
    assert vectorized(vector(8, formula, size), same) == [says]


def test_a_loop_of_one_iteration_is_a_scalar_statement(same: Same) -> None:
    assert vectorized(vector(1, lambda A, i: A[i] + 1.0), same) == ["C[0] = A[0] + 1.0"]


@pytest.mark.parametrize(
    ("n", "says"),
    [
        (64, ["C[0 : 64] = A[0 : 64] + 1.0"]),
        (100, ["C[0 : 64] = A[0 : 64] + 1.0", "C[64 : 96] = A[64 : 96] + 1.0",
               "C[96 : 100] = A[96 : 100] + 1.0"]),
        (128, ["for i_vector in range(2):",
               "  C[i_vector*64 : i_vector*64 + 64] = A[i_vector*64 : i_vector*64 + 64] + 1.0"]),
        (129, ["for i_vector in range(2):",
               "  C[i_vector*64 : i_vector*64 + 64] = A[i_vector*64 : i_vector*64 + 64] + 1.0",
               "C[128] = A[128] + 1.0"]),
    ],
)  # fmt: skip
def test_a_long_loop_is_cut_into_pieces(n: int, says: list[str], same: Same) -> None:
    assert vectorized(vector(n, lambda A, i: A[i] + 1.0), same) == says


def test_a_guard_becomes_a_mask(same: Same) -> None:
    A = te.placeholder((10,), name="A")
    C = te.compute((10,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], 8)
    s[C].vectorize(inner)
    assert vectorized(flat(s, [A, C]), same) == [
        "for i_outer in range(2):",
        "  if likely(i_outer*8 + lane(8) < 10):",
        "    C[i_outer*8 : i_outer*8 + 8] = A[i_outer*8 : i_outer*8 + 8] + 1.0",
    ]


def matmul() -> tuple[te.Schedule, list[te.Tensor]]:
    """C = A @ B"""
    A, B = te.placeholder((4, 6), name="A"), te.placeholder((6, 8), name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((4, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


def test_the_init_and_the_update_of_a_reduction_are_vectorized(same: Same) -> None:
    s, args = matmul()
    C = args[2]
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    s[C].reorder(i, k, j)
    s[C].vectorize(j)
    assert vectorized(flat(s, args), same) == [
        "for i in range(4):",
        "  C[i*8 : i*8 + 8] = 0.0",
        "  for k in range(6):",
        "    C[i*8 : i*8 + 8] = C[i*8 : i*8 + 8] + A[i*6 + k] * B[k*8 : k*8 + 8]",
    ]


def test_a_loop_around_a_reduction_keeps_the_reduce_loop_inside(same: Same) -> None:
    s, args = matmul()
    C = args[2]
    s[C].vectorize(C.op.axis[1])
    assert vectorized(flat(s, args), same) == [
        "for i in range(4):",
        "  C[i*8 : i*8 + 8] = 0.0",
        "  for k in range(6):",
        "    C[i*8 : i*8 + 8] = C[i*8 : i*8 + 8] + A[i*6 + k] * B[k*8 : k*8 + 8]",
    ]


def test_memory_inside_has_room_for_every_lane(golden: Golden, same: Same) -> None:
    A = te.placeholder((10, 8), name="A")
    B = te.compute((10, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(*reversed(C.op.axis))
    s[B].compute_at(s[C], C.op.axis[1])
    s[C].vectorize(C.op.axis[1])
    golden("\n".join(vectorized(flat(s, [A, C]), same)))


def test_memory_inside_a_long_loop_has_room_for_the_lanes_of_a_piece(same: Same) -> None:
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((100,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].vectorize(C.op.axis[0])
    allocated = [line for line in vectorized(flat(s, [A, C]), same) if "allocate" in line]
    assert allocated == [
        'B = allocate((1, 64), "float32", "global")',
        'B_1 = allocate((1, 32), "float32", "global")',
        'B_2 = allocate((1, 4), "float32", "global")',
    ]


def test_a_vector_loop_inside_another_leaves_the_outer_one_serial(same: Same) -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].vectorize(B.op.axis[1])
    s[C].vectorize(C.op.axis[0])
    assert vectorized(flat(s, [A, C]), same) == [
        "for i in range(4):",
        '  B = allocate((1, 8), "float32", "global")',
        "  B[0 : 8] = A[i*8 : i*8 + 8] + 1.0",
        "  for j in range(8):",
        "    C[i*8 + j] = B[j] * 2.0",
    ]


def test_a_store_that_all_lanes_would_make_stays_in_a_loop(same: Same) -> None:
    """A fused data and reduce loop inside: its lanes would all write one element."""
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    before = flat(s, [A, C])
    loop = before.body
    inner = loop.body.body[1]  # type: ignore[union-attr]
    marked = replace(inner, kind="vectorize")
    body = replace(loop, body=replace(loop.body, body=(loop.body.body[0], marked)))  # type: ignore[union-attr]
    assert vectorized(replace(before, body=body), same) == [
        line[2:] for line in str(before).splitlines()[1:]
    ]


def test_a_gather_is_a_vector_load(same: Same) -> None:
    A = te.placeholder((8,), name="A")
    I = te.placeholder((8,), "int32", name="I")  # noqa: E741
    C = te.compute((8,), lambda i: A[I[i]], name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[0])
    assert vectorized(flat(s, [A, I, C]), same) == ["C[0 : 8] = A[max(0, min(I[0 : 8], 7))]"]


def test_a_program_without_vector_loops_is_the_same_object() -> None:
    s, args = matmul()
    f = flat(s, args)
    assert vectorize(f.body) is f.body
