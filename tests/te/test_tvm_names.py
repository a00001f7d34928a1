"""Small names of TVM that its programs use: devices, comparisons, hints, counts of outputs."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ArgumentError

A = te.placeholder((8,), name="A")
i = tir.Var("i", 0, 7)


def test_a_device_is_found_by_the_name_of_a_target() -> None:
    assert tvm.device("llvm", 0) == tvm.device("cpu") == tvm.cpu(0)
    assert tvm.nd.array(np.zeros(3), tvm.device("cpu", 0)).shape == (3,)
    with pytest.raises(ArgumentError, match="unknown device"):
        tvm.device("cuda", 0)


@pytest.mark.parametrize(
    ("e", "written"),
    [
        (i.equal(3), "i == 3"),
        (A[i].equal(0), "A[i] == 0.0"),
        (tir.EQ(i, 3), "i == 3"),
        (tir.NE(i, 3), "i != 3"),
        (tir.LT(i, 3), "i < 3"),
        (tir.LE(i, 3), "i <= 3"),
        (tir.GT(i, 3), "3 < i"),
        (tir.GE(i, 3), "3 <= i"),
        (tir.likely(i < 3), "i < 3"),
    ],
)
def test_comparisons_have_names(e: Any, written: str) -> None:
    assert tir.text(e) == written


def test_a_program_with_these_names_runs() -> None:
    C = te.compute(
        (8,), lambda i: te.if_then_else(tir.likely(tir.any(i.equal(0), i > 5)), A[i], 0.0), name="C"
    )
    out = np.zeros(8, "float32")
    tvm.build(te.create_schedule(C.op), [A, C])(np.ones(8, "float32"), out)
    assert out.tolist() == [1, 0, 0, 0, 0, 0, 1, 1]


def test_an_operation_knows_how_many_tensors_it_computes() -> None:
    both = te.compute((8,), lambda i: (A[i], A[i] + 1), name="both")
    assert (A.op.num_outputs, both[0].op.num_outputs) == (1, 2)
