"""rfactor of reductions whose sizes are symbolic, or depend on something else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ScheduleError

N, M, H = te.var("n"), te.var("m"), te.var("h")
A = te.placeholder((N, M), name="A")
A3 = te.placeholder((N, M, H), name="A3")
K = te.reduce_axis((0, M), "k")
KS = te.reduce_axis((0, M), "k1"), te.reduce_axis((0, H), "k2")
B = te.compute((N,), lambda i: te.sum(A[i, K], axis=K), name="B")
C = te.compute((N,), lambda i: te.max(A3[i, *KS], axis=list(KS)), name="C")


def run(f: tvm.Function, shape: tuple[int, ...]) -> Any:
    """(what the program computes, the data that it computes it from)"""
    a = np.random.default_rng(0).random(shape, "float32")
    out = np.full(shape[0], np.nan, "float32")
    f(a, out)
    return out, a


CUTS: dict[str, Callable[[Any], Any]] = {
    "inner": lambda stage: stage.split(K, factor=16)[1],
    "outer": lambda stage: stage.split(K, factor=16)[0],
    "parts": lambda stage: stage.split(K, nparts=4)[0],
    "whole": lambda stage: K,
}


@pytest.mark.parametrize("target", ["llvm", "numba", "python"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_sum_over_a_symbolic_size_is_split_in_partial_sums(cut: str, target: str) -> None:
    s = te.create_schedule(B.op)
    s.rfactor(B, CUTS[cut](s[B]))
    f = tvm.build(s, [A, B], target=target)
    for shape in ((5, 37), (3, 16), (1, 1), (4, 0)):
        out, a = run(f, shape)
        np.testing.assert_allclose(out, a.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3, 7), (2, 2, 4), (2, 1, 1)])
def test_a_maximum_over_two_symbolic_sizes_is_split(shape: tuple[int, ...]) -> None:
    s = te.create_schedule(C.op)
    s.rfactor(C, s[C].split(s[C].fuse(*KS), factor=8)[1])
    out, a = run(tvm.build(s, [A3, C], "llvm"), shape)
    np.testing.assert_array_equal(out, a.max(axis=(1, 2)))


def test_partial_sums_are_computed_by_threads_as_in_the_reduction_tutorial() -> None:
    s = te.create_schedule(B.op)
    _, ki = s[B].split(K, factor=16)
    partial = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    (ki,) = s[B].op.reduce_axis
    s[B].bind(ki, te.thread_axis("threadIdx.x"))
    s[partial].compute_at(s[B], ki)
    s[B].set_store_predicate(ki == 0)
    assert str(tvm.lower(s, [A, B], simple_mode=True)).splitlines()[6:12] == [
        "      for k_inner_v in bind(16, 'threadIdx.x'):",
        '        B_rf = allocate((1, 1), "float32", "local")',
        "        if likely(i_outer*32 + i_inner < n):",
        "          B_rf[0, 0] = 0.0",
        "          for k_outer in range((m + 15) // 16):",
        "            if likely(k_outer*16 + k_inner_v < m):",
    ]


@pytest.mark.parametrize(
    ("end", "shown"), [(lambda i, p: i + 1, "i + 1"), (lambda i, p: p[0], "P[0]")]
)
def test_a_range_that_depends_on_other_axes_or_data_has_no_partial_results(
    end: Callable[..., Any], shown: str
) -> None:
    P = te.placeholder((8,), "int32", name="P")
    T = te.placeholder((8, 8), name="T")
    axes: list[Any] = []

    def formula(i: Any) -> Any:
        axes.append(te.reduce_axis((0, end(i, P)), name="k"))
        term = te.if_then_else(axes[0] < 8, T[i, axes[0]], 0.0)
        return te.sum(term, axis=axes[0])

    D = te.compute((8,), formula, name="D")
    with pytest.raises(ScheduleError) as caught:
        te.create_schedule(D.op).rfactor(D, axes[0])
    assert str(caught.value) == (
        f"rfactor of 'k' in D: the range of a reduce axis depends on other axes or on data: {shown}"
        "\n  try: one range for all elements, and te.sum(..., where=...) to skip terms"
    )


def test_partial_results_of_a_loop_fused_with_an_empty_one_are_refused() -> None:
    A = te.placeholder((8,), "int32", name="A")
    k, r = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 0), name="r")
    B = te.compute((8,), lambda i: te.sum(A[i], axis=[k, r]), name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(k, r)
    with pytest.raises(ScheduleError) as caught:
        s.rfactor(B, fused)
    assert str(caught.value) == (
        "rfactor of 'k.r.fused' in B: it is fused with 'r', which has no iterations\n"
        "  try: fuse only loops that have iterations"
    )
