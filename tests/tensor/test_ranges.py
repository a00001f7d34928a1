"""Reduce axes whose range differs from element to element: triangles and compressed rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ExprError, LoweringError, ScheduleError
from minitvm.tensor import Tensor, evaluate
from minitvm.testing import random_schedule

TARGETS = ("interpreter", "python", "numba", "llvm")


def triangle(n: Any = 6) -> tuple[list[Tensor], Tensor]:
    """T[i] = A[i, 0] + ... + A[i, i]"""
    A = te.placeholder((n, n), name="A")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(A[i, k], axis=k)

    return [A], te.compute((n,), row, name="T")


def sparse(rows: int = 5, entries: int = 12, columns: int = 7) -> tuple[list[Tensor], Tensor]:
    """y = A @ x, with A in compressed rows: row i has entries P[i] .. P[i + 1] - 1."""
    P = te.placeholder((rows + 1,), "int32", name="P")
    J, A = te.placeholder((entries,), "int32", name="J"), te.placeholder((entries,), name="A")
    x = te.placeholder((columns,), name="x")

    def row(i: Any) -> Any:
        k = te.reduce_axis((P[i], P[i + 1]), name="k")
        return te.sum(A[k] * x[J[k]], axis=k)

    return [P, J, A, x], te.compute((rows,), row, name="y")


def entries(rows: int, n: int, columns: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """A matrix in compressed rows with a vector, and their product."""
    rng = np.random.default_rng(seed)
    p = np.array([0, *np.sort(rng.integers(0, n + 1, rows - 1)), n], "int32")
    j = rng.integers(0, columns, n).astype("int32")
    a, x = rng.random(n, "float32"), rng.random(columns, "float32")
    dense = np.zeros((rows, columns), "float32")
    np.add.at(dense, (np.repeat(np.arange(rows), np.diff(p)), j), a)
    return [p, j, a, x], dense @ x


def run(s: te.Schedule, args: list[Tensor], target: str, *inputs: np.ndarray) -> np.ndarray:
    out = np.zeros([int(n) for n in args[-1].shape], "float32")
    if target == "interpreter":
        tir.interpret(tvm.lower(s, args, until="nest"), *inputs, out)
    else:
        tvm.build(s, args, target)(*inputs, out)
    return out


def says(act: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def test_the_loop_of_a_triangle_ends_where_its_row_does() -> None:
    inputs, T = triangle()
    assert str(tvm.lower(te.create_schedule(T.op), [*inputs, T], until="nest")) == (
        "def main(A: float32[6, 6], T: float32[6]):\n"
        "  for i in range(6):\n"
        "    T[i] = 0.0\n"
        "    for k in range(i + 1):\n"
        "      T[i] = T[i] + A[i, k]"
    )


def test_the_loop_of_a_sparse_row_begins_and_ends_where_data_say() -> None:
    inputs, y = sparse()
    assert str(tvm.lower(te.create_schedule(y.op), [*inputs, y], until="nest")).splitlines()[
        1:
    ] == [
        "  for i in range(5):",
        "    y[i] = 0.0",
        "    for k in range(P[i + 1] - P[i]):",
        "      y[i] = y[i] + A[max(0, min(P[i] + k, 11))] * "
        "x[max(0, min(J[max(0, min(P[i] + k, 11))], 6))]",
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_a_split_triangle_is_that_of_numpy(target: str) -> None:
    inputs, T = triangle()
    s = te.create_schedule(T.op)
    o, _ = s[T].split(T.op.axis[0], factor=4)
    s[T].parallel(o)
    _, inner = s[T].split(T.op.reduce_axis[0], factor=4)
    s[T].unroll(inner)
    a = np.random.default_rng(0).random((6, 6), "float32")
    want = np.tril(a).sum(axis=1)
    np.testing.assert_allclose(run(s, [*inputs, T], target, a), want, rtol=1e-6)
    np.testing.assert_allclose(evaluate([T], {inputs[0]: a})[0], want, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sparse_product_is_that_of_numpy(target: str) -> None:
    inputs, y = sparse()
    data, want = entries(5, 12, 7)
    s = te.create_schedule(y.op)
    s[y].parallel(y.op.axis[0])
    s[y].split(y.op.reduce_axis[0], factor=4)
    np.testing.assert_allclose(run(s, [*inputs, y], target, *data), want, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_do_not_fit_the_data_are_clipped_or_empty(target: str) -> None:
    inputs, y = sparse()
    (_, j, a, x), _ = entries(5, 12, 7)
    p = np.array([5, -3, 20, 2, 2, 13], "int32")  # 5 .. -4 is empty; -3 .. 19 is clipped
    got = run(te.create_schedule(y.op), [*inputs, y], target, p, j + 50, a, x)
    at = np.clip(np.arange(-3, 20), 0, 11)
    np.testing.assert_allclose(got[1], (a[at] * x[6]).sum(), rtol=1e-5)
    assert (got[0], got[2], got[3]) == (0, 0, 0)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 13))
def test_whatever_the_steps_the_product_stays_the_same(seed: int, rows: int, n: int) -> None:
    inputs, y = sparse(rows, n)
    twice = te.compute((rows,), lambda i: y[i] * 2.0, name="twice")
    data, want = entries(rows, n, 7, seed)
    s = random_schedule(twice.op, np.random.default_rng(seed))
    try:
        nest, flat = (tvm.lower(s, [*inputs, twice], until=until) for until in ("nest", ""))
    except LoweringError:  # some steps can only be judged once all are taken
        return
    (value,) = evaluate([twice], dict(zip(inputs, data, strict=True)))
    np.testing.assert_allclose(value, want * 2, rtol=1e-5)
    for func, is_flat in ((nest, False), (flat, True)):
        got = np.zeros(rows, "float32")
        tir.interpret(func, *data, got, flat=is_flat)
        np.testing.assert_allclose(got, want * 2, rtol=1e-5)


def computed_ends() -> Any:
    P = te.placeholder((9,), "int32", name="P")
    B = te.compute((9,), lambda i: P[i] + 1, name="B")
    A = te.placeholder((9,), name="A")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, B[i]), name="k")
        return te.sum(A[k], axis=k)

    return te.compute((9,), row, name="C")


def nested_ends() -> Any:
    A, j = te.placeholder((9, 9), name="A"), te.reduce_axis((0, 9), name="j")
    k = te.reduce_axis((0, j + 1), name="k")
    return te.compute((9,), lambda i: te.sum(A[j, k], axis=[j, k]), name="C")


def test_ranges_that_are_not_known_before_the_loops_are_refused() -> None:
    assert says(computed_ends, ExprError) == (
        "compute C: the range of a reduce axis depends on B[i]: B is computed, and only inputs are "
        "known before the loops run\n"
        "  try: make B a te.placeholder, and compute it in a program of its own"
    )
    assert says(nested_ends, ExprError) == (
        "compute C: the range of a reduce axis depends on 'j': it must be known for each "
        "element before the reduction starts\n"
        "  try: use only the arguments of this lambda; or a fixed range, and where=..."
    )


REFUSALS: dict[str, tuple[Callable[[te.Schedule, Tensor], Any], str]] = {
    "reorder": (
        lambda s, T: s[T].reorder(T.op.reduce_axis[0], T.op.axis[0]),
        "order of loops in T: 'k' is outside of 'i': the range of k depends on i\n"
        "  try: put the loops of i outside the loops of k",
    ),
    "fuse": (
        lambda s, T: s[T].fuse(T.op.axis[0], T.op.reduce_axis[0]),
        "fuse into 'i.k.fused' in T: the range of k depends on i: the fused loop would have no "
        "fixed length\n  try: fuse data axes, or split them",
    ),
    "rfactor": (
        lambda s, T: s.rfactor(T, T.op.reduce_axis[0]),
        "rfactor of 'k' in T: the range of a reduce axis depends on other axes or on data: i + 1\n"
        "  try: one range for all elements, and te.sum(..., where=...) to skip terms",
    ),
    "cache_write": (
        lambda s, T: s.cache_write(T, "local"),
        "cache_write of T: the range of its reduce axis depends on its data axes, which this "
        "step replaces\n  try: write a te.compute that copies its result",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_steps_that_need_a_fixed_range_are_refused(case: str) -> None:
    act, message = REFUSALS[case]
    _, T = triangle()
    s = te.create_schedule(T.op)
    assert says(lambda: act(s, T), ScheduleError) == message


def test_what_says_how_long_a_row_is_is_read_where_it_is() -> None:
    (P, *_), y = sparse()
    s = te.create_schedule(y.op)
    assert says(lambda: s.cache_read(P, "local", [y]), ScheduleError) == (
        "cache_read of P: the range of a reduce axis of y is read from it, once for "
        "each element\n  try: cache another input"
    )
