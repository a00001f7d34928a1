"""Buffers, allocations and arguments of an interpreted program."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import (
    FLOAT32,
    ArgumentError,
    DType,
    VerifyError,
)
from minitvm.tir import (
    Allocate,
    Buffer,
    For,
    If,
    Index,
    LoopKind,
    PrimFunc,
    Stmt,
    Store,
    Var,
    cast_to,
    compare,
    const,
    interpret,
    lane,
    load,
    seq,
)

Array = np.ndarray[Any, np.dtype[Any]]


def buffer(name: str, *shape: Index, type_: DType = FLOAT32, **more: Any) -> Buffer:
    return Buffer(name, shape, type_, **more)


def loop(n: Index, body: Callable[[Any], Stmt], kind: LoopKind = "serial", name: str = "i") -> For:
    last = n - 1
    v = Var(name, 0, last) if isinstance(last, int) else Var(name, 0, math.inf, last)
    return For(v, n, body(v), kind)


# --- memory --------------------------------------------------------------------------------------


def test_one_index_is_an_offset_in_elements() -> None:
    A, out = buffer("A", 3, 4), buffer("out", 3, 4)
    copy = loop(12, lambda i: Store(out, (i,), load(A, i)))
    a, result = np.arange(12, dtype="f4").reshape(3, 4), np.zeros((3, 4), "f4")
    interpret(PrimFunc("f", (A, out), copy, (out,)), a, result, flat=True)
    np.testing.assert_array_equal(result, a)


@pytest.mark.parametrize("at", [(), (0,)])
def test_a_scalar_buffer_has_no_index_or_offset_zero(at: tuple[Index, ...]) -> None:
    out = buffer("out")
    result = np.zeros((), "f4")
    interpret(PrimFunc("f", (out,), Store(out, at, const(3.0)), (out,)), result)
    assert result == 3


@pytest.mark.parametrize("flat", [False, True])
def test_rows_may_be_padded(flat: bool) -> None:
    A, out = buffer("A", 3, 4, strides=(6, 1)), buffer("out", 3, 4)
    memory = np.arange(18, dtype="f4").reshape(3, 6)
    copy = lambda i, j: (  # noqa: E731
        Store(out, (i * 4 + j,), load(A, i * 6 + j)) if flat else Store(out, (i, j), load(A, i, j))
    )
    body = loop(3, lambda i: loop(4, lambda j: copy(i, j), name="j"))
    result = np.zeros((3, 4), "f4")
    interpret(PrimFunc("f", (A, out), body, (out,)), memory[:, :4], result)
    np.testing.assert_array_equal(result, memory[:, :4])


def test_a_padded_buffer_may_have_one_row_or_none() -> None:
    n = Var("n", 0)
    A = buffer("A", n, 4, strides=(6, 1))
    f = PrimFunc("f", (A,), loop(n, lambda i: Store(A, (i, 3), const(1.0))), (A,), (n,))
    memory = np.zeros((2, 7), "f4")
    interpret(f, memory[:0, :4])
    interpret(f, memory[:1, :4])
    assert memory.tolist() == [[0, 0, 0, 1, 0, 0, 0], [0] * 7]


@pytest.mark.parametrize("flat", [False, True])
def test_flat_says_what_one_index_of_a_strided_vector_means(flat: bool) -> None:
    A, out = buffer("A", 3, strides=(2,)), buffer("out", 3)
    body = loop(3, lambda i: Store(out, (i,), load(A, i * 2 if flat else i)))
    result = np.zeros(3, "f4")
    interpret(
        PrimFunc("f", (A, out), body, (out,)), np.arange(6, dtype="f4")[::2], result, flat=flat
    )
    assert result.tolist() == [0, 2, 4]


def test_an_allocation_lives_while_its_body_runs() -> None:
    T, out = buffer("T", 2, 2, scope="local", strides=(3, 1)), buffer("out", 4)
    body = loop(4, lambda i: Allocate(T, seq(
        Store(T, (i // 2, i % 2), cast_to(i, "float32")),
        Store(out, (i,), load(T, i // 2, i % 2)),
    )))  # fmt: skip
    result = np.zeros(4, "f4")
    interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result.tolist() == [0, 1, 2, 3]


def test_an_allocation_starts_without_values_each_time() -> None:
    T, out = buffer("T", 1), buffer("out", 2)
    body = loop(2, lambda i: Allocate(T, seq(
        If(compare("==", i, 0), Store(T, (0,), const(1.0))),
        Store(out, (i,), load(T, 0)),
    )))  # fmt: skip
    with pytest.raises(VerifyError, match=r"f: T\[0\]: read before it is written .*, at i = 1"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(2, "f4"))


def test_one_unwritten_lane_is_enough() -> None:
    T, out = buffer("T", 8), buffer("out", 8)
    write = If(compare("<", lane(8), 7), Store(T, (lane(8),), const(1.0)))
    body = Allocate(T, seq(write, Store(out, (lane(8),), load(T, lane(8)))))
    with pytest.raises(VerifyError, match=r"T\[0 : 8\]: read before it is written"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(8, "f4"))


def test_allocations_of_symbolic_size() -> None:
    n = Var("n", 1)
    A, out, T = buffer("A", n), buffer("out", n), buffer("T", n * 2)
    body = Allocate(T, seq(
        loop(n, lambda i: Store(T, (i * 2,), load(A, i)), name="w"),
        loop(n, lambda i: Store(out, (i,), load(T, i * 2))),
    ))  # fmt: skip
    a, result = np.arange(5, dtype="f4"), np.zeros(5, "f4")
    interpret(PrimFunc("f", (A, out), body, (out,), (n,)), a, result)
    np.testing.assert_array_equal(result, a)


def test_an_access_outside_names_buffer_index_loops_and_shape() -> None:
    n = Var("n", 1)
    A, out = buffer("A", n, 4), buffer("out", n)
    body = loop(n, lambda i: loop(5, lambda j: Store(out, (i,), load(A, i, j)), name="j"))
    f = PrimFunc("f", (A, out), body, (out,), (n,))
    with pytest.raises(VerifyError) as refused:
        interpret(f, np.zeros((2, 4), "f4"), np.zeros(2, "f4"))
    assert str(refused.value) == (
        "f: A[i, j]: index 1 is 4, not in 0 .. 3 (A is float32[2, 4]), at i = 0, j = 4"
    )


def test_a_negative_offset_is_outside() -> None:
    A, out = buffer("A", 2, 2), buffer("out", 4)
    body = loop(4, lambda i: Store(out, (i,), load(A, i - 1)))
    with pytest.raises(VerifyError, match=r"A\[i - 1\]: element -1 is not in 0 .. 3 .*, at i = 0"):
        interpret(PrimFunc("f", (A, out), body, (out,)), np.zeros((2, 2), "f4"), np.zeros(4, "f4"))


def test_a_store_outside_is_an_error_too() -> None:
    out = buffer("out", 4)
    body = loop(2, lambda i: Store(out, (i * 4 + lane(4),), const(0.0)))
    with pytest.raises(VerifyError, match=r"index 0 is 4, not in 0 \.\. 3"):
        interpret(PrimFunc("f", (out,), body, (out,)), np.zeros(4, "f4"))


def test_a_program_that_breaks_a_law_does_not_run() -> None:
    out, result = buffer("out", 4), np.zeros(4, "f4")
    body = seq(Store(out, (0,), const(1.0)), Store(out, (1,), const(1)))
    with pytest.raises(VerifyError, match="a int32 is stored in 'out', a buffer of float32"):
        interpret(PrimFunc("f", (out,), body, (out,)), result)
    assert result[0] == 0


# --- arguments -----------------------------------------------------------------------------------


def scale() -> PrimFunc:
    """out[i, j] = A[i, j] * k for i < n, j < 2*n."""
    n, k = Var("n", 1, 100), Var("k")
    A, out = buffer("A", n, n * 2), buffer("out", n, n * 2)
    body = loop(n, lambda i: loop(n * 2, lambda j: Store(out, (i, j), load(A, i, j) * k), name="j"))
    return PrimFunc("scale", (A, k, out), body, (out,), (n,))


def test_sizes_are_taken_from_the_shapes() -> None:
    a, result = np.ones((3, 6), "f4"), np.zeros((3, 6), "f4")
    interpret(scale(), a, 4, result)
    assert (result == 4).all()


def zeros(*shape: int, type_: str = "f4") -> Array:
    return np.zeros(shape, type_)


def read_only() -> Array:
    a = zeros(3, 6)
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((zeros(3, 6), 1), r"scale\(A, k, out\): takes 3 arguments, 2 given"),
        ((zeros(3, 6), 1, 5), "scale: out: is int, not a numpy array"),
        ((zeros(3, 6), 1.5, zeros(3, 6)), "scale: k: is float, not an int"),
        ((zeros(3, 6, type_="f8"), 1, zeros(3, 6)), "scale: A: holds float64, not float32"),
        ((zeros(3), 1, zeros(3, 6)), "scale: A: has 1 dimensions, not 2"),
        ((zeros(3, 7), 1, zeros(3, 6)), r"scale: A.shape\[1\]: is 7, not 6"),
        ((zeros(3, 6), 1, zeros(4, 6)), r"scale: out.shape\[0\]: is 4, not 3"),
        ((zeros(6, 3).T, 1, zeros(3, 6)), r"scale: A.strides\[0\] in elements: is 1, not 6"),
        ((zeros(200, 400), 1, zeros(200, 400)), r"scale: n = 200: is not in 1 \.\. 100"),
        ((zeros(3, 6), 1, read_only()), "scale: out: is an output, but the array is read-only"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        interpret(scale(), *args)


def test_a_size_that_no_shape_tells_is_refused() -> None:
    n = Var("n")
    out = buffer("out", n * 2)
    f = PrimFunc("f", (out,), Store(out, (0,), const(0.0)), (out,), (n,))
    with pytest.raises(ArgumentError, match=r"f: out.shape\[0\]: is 4, not n\*2"):
        interpret(f, zeros(4))
