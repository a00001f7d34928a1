"""flatten: N-dimensional accesses become element offsets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.lowering import flatten
from minitvm.tir import Buffer, Load, PrimFunc, Store, Var, row_strides, text


def copy(shape: tuple[Any, ...]) -> PrimFunc:
    """C[i, j, ...] = A[i, j, ...]"""
    A = te.placeholder(shape, name="A")
    C = te.compute(shape, lambda *i: A(*i), name="C")  # noqa: PLW0108  a tensor has no axes to name
    return tvm.lower(te.create_schedule(C.op), [A, C], until="nest")


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((), "C[0] = A[0]"),
        ((8,), "C[i0] = A[i0]"),
        ((4, 6), "C[i0*6 + i1] = A[i0*6 + i1]"),
        ((2, 3, 4), "C[i0*12 + i1*4 + i2] = A[i0*12 + i1*4 + i2]"),
        ((te.size_var("n"), te.size_var("m")), "C[i0*m + i1] = A[i0*m + i1]"),
    ],
)
def test_an_index_becomes_an_offset(
    shape: tuple[Any, ...], last: str, same: Callable[..., None]
) -> None:
    before = copy(shape)
    after = replace(before, body=flatten(before.body))
    assert str(after).splitlines()[-1].strip() == last
    same(before, after, flat=False, n=3, m=5)


def test_an_index_inside_an_index_becomes_an_offset_too() -> None:
    A = te.placeholder((4, 6), name="A")
    I = te.placeholder((2, 3), "int32", name="I")  # noqa: E741
    C = te.compute((2, 3), lambda i, j: A[1, I[i, j]], name="C")
    f = tvm.lower(te.create_schedule(C.op), [A, I, C], until="flatten")
    assert str(f).splitlines()[-1].strip() == "C[i*3 + j] = A[max(0, min(I[i*3 + j], 5)) + 6]"


def test_a_split_and_fused_index_folds_back() -> None:
    A = te.placeholder((4, 6), name="A")
    C = te.compute((4, 6), lambda i, j: A[i, j], name="C")
    s = te.create_schedule(C.op)
    s[C].fuse(*C.op.axis)
    f = tvm.lower(s, [A, C], until="flatten")
    assert str(f).splitlines()[-1].strip() == "C[i_j_fused] = A[i_j_fused]"


def test_rows_are_as_far_apart_as_their_buffer_says() -> None:
    b = Buffer("B", (4, 6), te.placeholder((1,)).dtype, strides=(8, 1))
    i, j = Var("i", 0, 3), Var("j", 0, 5)
    s = Store(b, (i, j), Load(b, (j, i), b.dtype))
    assert text(flatten(s)) == "B[i*8 + j] = B[j*8 + i]"


def test_strides_are_those_of_rows() -> None:
    assert row_strides(Buffer("B", (4, 3, 2), te.placeholder((1,)).dtype)) == (6, 2, 1)


@pytest.mark.parametrize("shape", [(), (8,), (4, 6), (te.size_var("n"), 3, te.size_var("m"))])
def test_a_flat_program_does_not_change(shape: tuple[Any, ...]) -> None:
    flat = flatten(copy(shape).body)
    assert text(flatten(flat)) == text(flat)
