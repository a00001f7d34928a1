"""store_at: what an outer loop keeps is computed once; memory folds."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.tir import For, Store, interpret, walk


def rows(n: int = 16, window: int = 3, step: int = 1, factor: int = 8) -> tuple[Any, ...]:
    """C[y] = B[step*y] + ... + B[step*y + window - 1], rows of 4; B computed at y, stored at yo."""
    m = step * (n - 1) + window
    A = te.placeholder((m, 4), name="A")
    B = te.compute((m, 4), lambda y, x: A[y, x] + 1.0, name="B")

    def formula(y: Any, x: Any) -> Any:
        total = B[step * y, x]
        for d in range(1, window):
            total = total + B[step * y + d, x]
        return total

    C = te.compute((n, 4), formula, name="C")
    s = te.create_schedule(C.op)
    yo, yi = s[C].split(C.op.axis[0], factor=factor)
    s[B].compute_at(s[C], yi)
    s[B].store_at(s[C], yo)
    return s, A, B, C, yo, yi


def check(s: te.Schedule, A: te.Tensor, C: te.Tensor, step: int = 1, window: int = 3) -> str:
    """The loops as text, after running them everywhere."""
    f = tvm.lower(s, [A, C], until="nest")
    shape = [int(n) for n in A.shape]  # type: ignore[arg-type]
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    n = int(C.shape[0])  # type: ignore[arg-type]
    want = sum(a[d : d + step * n : step][:n] + 1 for d in range(window))
    c = np.zeros((n, 4), "float32")
    interpret(f, a, c)
    np.testing.assert_array_equal(c, want)
    for target in ("python", "llvm"):
        c = np.zeros((n, 4), "float32")
        tvm.build(s, [A, C], target=target)(a, c)
        np.testing.assert_array_equal(c, want)
    return str(f)


def test_only_the_new_row_is_computed_and_four_are_stored() -> None:
    s, A, _, C, *_ = rows()
    assert check(s, A, C).splitlines()[1:9] == [
        "  for y_outer in range(2):",
        '    B = allocate((4, 4), "float32", "global")',
        "    for y_inner in range(8):",
        "      for y in range(3 - min(y_inner, 1)*2):",
        "        for x in range(4):",
        "          B[(y_inner + min(y_inner, 1)*2 + y) % 4, x] = "
        "A[y_outer*8 + y_inner + min(y_inner, 1)*2 + y, x] + 1.0",
        "      for x_1 in range(4):",
        "        C[y_outer*8 + y_inner, x_1] = "
        "B[y_inner % 4, x_1] + B[(y_inner + 1) % 4, x_1] + B[(y_inner + 2) % 4, x_1]",
    ]


def test_a_window_that_jumps_keeps_what_overlaps() -> None:
    s, A, _, C, *_ = rows(window=5, step=2)
    assert "for y in range(5 - min(y_inner, 1)*3):" in check(s, A, C, 2, 5)


def test_a_window_that_leaves_nothing_over_is_computed_as_a_whole() -> None:
    s, A, _, C, *_ = rows(window=2, step=3)
    assert "for y in range(2):" in check(s, A, C, 3, 2)


def test_memory_that_would_not_get_smaller_is_not_folded() -> None:
    s, A, _, C, *_ = rows(n=4, factor=2)
    text = check(s, A, C)
    assert 'B = allocate((4, 4), "float32", "global")' in text
    assert "% 4" not in text


def test_a_row_whose_loop_is_split_is_computed_as_a_whole() -> None:
    s, A, B, C, *_ = rows()
    s[B].split(B.op.axis[0], factor=2)
    assert "min(" not in check(s, A, C)


REMEDY = (
    "\n  try: store_at along a serial loop with which one unsplit axis moves; "
    "or compute_at the loop where it is stored"
)


def kept_nothing(s: te.Schedule) -> list[str]:
    return [str(w) for w in s.warnings() if w.what.startswith("store_at")]


def test_a_warning_says_why_nothing_is_kept() -> None:
    s, _, B, *_ = rows()
    assert kept_nothing(s) == []
    s[B].split(B.op.axis[0], factor=2)
    (said,) = kept_nothing(s)
    assert said == (
        "store_at of B: nothing is kept: its axis y is split or fused, and would slide along loop "
        "y_inner, so each iteration computes all that it needs, each element 2.6667 times" + REMEDY
    )
    assert "warning  store_at of B: nothing is kept" in str(s.explain())


def test_a_warning_says_which_mark_is_in_the_way() -> None:
    s, _, B, *_ = rows()
    s[B].parallel(B.op.axis[0])
    assert "its axis y is marked parallel, and would slide along loop" in kept_nothing(s)[0]


def test_a_loop_along_which_nothing_overlaps_is_named() -> None:
    s, _, B, C, _, yi = rows()
    s[B].compute_at(s[C], C.op.axis[1])
    s[B].store_at(s[C], yi)
    (said,) = kept_nothing(s)
    assert "its parts do not overlap along loop x" in said
    assert "each element 2.6667 times" in said


def test_windows_that_do_not_overlap_need_no_warning() -> None:
    s, *_ = rows(window=2, step=3)
    assert kept_nothing(s) == []


def test_a_vectorized_row_slides() -> None:
    s, A, B, C, *_ = rows()
    s[B].vectorize(B.op.axis[1])
    check(s, A, C)


@pytest.mark.parametrize("n", [5, 9, 11])
def test_ragged_tiles_compute_what_exists(n: int) -> None:
    s, A, _, C, *_ = rows(n=n, factor=4)
    check(s, A, C)


def test_each_row_is_computed_once_in_a_tile() -> None:
    s, A, _, C, *_ = rows(factor=16)
    f = tvm.lower(s, [A, C], until="nest")
    loops = [n.extent for n in walk(f.body) if isinstance(n, For)]
    assert len(loops) == 5 - 1  # y_inner, y, x, x: the loop over one tile is gone
    assert sum(isinstance(n, Store) for n in walk(f.body)) == 2


def test_a_reduction_slides() -> None:
    A, k = te.placeholder((10, 4, 3), name="A"), te.reduce_axis((0, 3), name="k")
    B = te.compute((10, 4), lambda y, x: te.sum(A[y, x, k], axis=k), name="B")
    C = te.compute((8, 4), lambda y, x: B[y, x] + B[y + 2, x], name="C")
    s = te.create_schedule(C.op)
    yo, yi = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], yi)
    s[B].store_at(s[C], yo)
    a = np.arange(120, dtype="float32").reshape(10, 4, 3)
    c = np.zeros((8, 4), "float32")
    tvm.build(s, [A, C])(a, c)
    b = a.sum(axis=2)
    np.testing.assert_array_equal(c, b[:8] + b[2:])


def test_padding_is_not_computed() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: te.if_then_else(i > 0, B[i - 1], 0.0) + B[i], name="C")
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], i)
    s[B].store_at(s[C], o)
    a, c = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    interpret(tvm.lower(s, [A, C], until="nest"), a, c)
    np.testing.assert_array_equal(c, (a + 1) + np.concatenate([[0], a[:-1] + 1]))
