"""ManyPrograms: a formula, and the steps, loops and code of several schedules."""

import pytest

from minitvm import te, viz
from minitvm.base import ArgumentError


def product() -> te.Tensor:
    A, B = (te.placeholder((8, 8), dtype="float32", name=name) for name in "AB")
    k = te.reduce_axis((0, 8), name="k")
    return te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_each_schedule_has_its_steps_loops_and_code() -> None:
    C = product()
    plain, vectors = te.create_schedule(C.op), te.create_schedule(C.op)
    i, j, k = vectors[C].leaf_iter_vars
    vectors[C].reorder(i, k, j)
    vectors[C].vectorize(j)
    view = viz.ManyPrograms({"as written": plain, "vectors": vectors})
    first, second = view.ascii().split("vectors: ")
    assert first.startswith("C[i, j] = sum(A[i, k] * B[k, j], axis=k)\nas written: (no steps)\n")
    assert first.endswith(
        "load float; load float; load float; fmul float; fadd float; store float\n"
    )
    assert second.startswith("s[C].reorder(i, k, j); s[C].vectorize(j)\n")
    assert "fmul <8 x float>" in second
    assert ">fmul &lt;8 x float&gt;<" in view.svg()


def test_there_must_be_a_schedule() -> None:
    with pytest.raises(ArgumentError, match="ManyPrograms"):
        viz.ManyPrograms({})
