"""Indices that 64 bits do not hold and buffers that no memory holds are refused, on all targets."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import FLOAT32, ArgumentError, ExprError, LoweringError, ScheduleError

A = te.placeholder((8, 8), name="A")
TARGETS = ["llvm", "numba", "python"]


def doubled() -> tuple[Any, Any, Any]:
    """C = 2 * B with B = A + 1: a schedule, B and C."""
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
    return te.create_schedule(C.op), B, C


# --- indices -------------------------------------------------------------------------------------


def test_an_index_past_64_bits_is_refused_with_its_largest_value() -> None:
    V = te.placeholder((8,), name="V")
    with pytest.raises(ExprError) as error:
        te.compute((8,), lambda i: V[(i * 2**61) // (2**60 + 1) % 8], name="C")
    assert f"compute C: the index i*{2**61}: computing it may reach {7 * 2**61}" in str(error.value)


def test_a_partial_sum_past_64_bits_is_refused() -> None:
    with pytest.raises(ExprError, match="computing it may reach"):
        te.compute((4, 4), lambda i, j: (i * 2**61 - j * 2**61 + 2**62).astype("int64"), name="C")


def test_a_product_of_axes_past_64_bits_is_refused() -> None:
    with pytest.raises(ExprError, match=r"the index i\*i\*i\*36028797018963968"):
        te.compute((8,), lambda i: (i * i * i * 2**55).astype("int64"), name="C")


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_of_62_bits_is_computed(target: str) -> None:
    C = te.compute((4,), lambda i: ((i * 2**60 + 3) // (2**58 + 1)).astype("int64"), name="C")
    out = np.zeros(4, "int64")
    tvm.build(te.create_schedule(C.op), [C], target)(out)
    assert out.tolist() == [(i * 2**60 + 3) // (2**58 + 1) for i in range(4)]


def test_a_split_that_makes_an_index_past_64_bits_is_refused_when_it_is_lowered() -> None:
    k = te.reduce_axis((0, 3 * 2**61 + 1), "k")
    C = te.compute((1,), lambda i: te.sum(te.const(1.0), axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(s[C].op.reduce_axis[0], factor=3 * 2**61)
    with pytest.raises(LoweringError, match=r"main: the index .*computing it may reach"):
        tvm.lower(s, [C])


def test_symbolic_indices_and_int64_row_pointers_are_not_refused() -> None:
    n = te.size_var("n")
    X = te.placeholder((n, n, n), name="X")
    Y = te.compute((n, n, n), lambda i, j, k: X[i, j, k] + 1, name="Y")
    P, V = te.placeholder((9,), "int64", name="P"), te.placeholder((100,), name="V")

    def row(i: Any) -> Any:
        k = te.reduce_axis((P[i], P[i + 1]), "k")
        return te.sum(V[k], axis=k)

    for T, args in ((Y, [X, Y]), (te.compute((8,), row, name="R"), [P, V])):
        assert tvm.lower(te.create_schedule(T.op), [*dict.fromkeys([*args, T])])


# --- buffers -------------------------------------------------------------------------------------


def test_rows_further_apart_than_memory_is_wide_are_refused_at_the_step() -> None:
    s, B, _ = doubled()
    with pytest.raises(ScheduleError, match="its rows would lie further apart than the"):
        s[B].storage_align(s[B].op.axis[0], 2**62, 2**62 - 1)


def test_a_padded_buffer_larger_than_memory_is_refused_when_it_is_lowered() -> None:
    s, B, C = doubled()
    s[B].storage_align(s[B].op.axis[0], 2**54, 2**54 - 1)
    with pytest.raises(LoweringError, match=r"main: B: it needs .* bytes, and at most"):
        tvm.lower(s, [A, C])


def test_an_intermediate_larger_than_memory_is_refused_when_it_is_lowered() -> None:
    B = te.compute((2**62,), lambda i: A[i % 8, 0], name="B")
    k = te.reduce_axis((0, 2**62), "k")
    C = te.compute((1,), lambda i: te.sum(B[k], axis=k), name="C")
    with pytest.raises(LoweringError, match=f"main: B: it needs {2**64} bytes"):
        tvm.lower(te.create_schedule(C.op), [A, C])


def test_a_part_of_a_huge_tensor_is_computed() -> None:
    B = te.compute((2**40, 2**40), lambda i, j: A[i % 8, j % 8], name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j], name="C")
    out = np.zeros((8, 8), "float32")
    tvm.build(te.create_schedule(C.op), [A, C])(np.eye(8, dtype="float32"), out)
    np.testing.assert_array_equal(out, np.eye(8))


def test_an_argument_larger_than_memory_is_refused_when_it_is_lowered() -> None:
    X = te.placeholder((2**62,), name="X")
    C = te.compute((8,), lambda i: X[i], name="C")
    with pytest.raises(LoweringError, match="main: X: it needs"):
        tvm.lower(te.create_schedule(C.op), [X, C])


def four_sizes() -> tuple[Any, list[Any]]:
    """A program whose temporary array has n**4 elements: none if n**4 wraps around at 64 bits."""
    n = te.size_var("n")
    X = te.placeholder((n,), name="X")
    B = te.compute((n, n, n, n), lambda i, j, k, m: X[i] + X[j] + X[k] + X[m], name="B")
    C = te.compute((n,), lambda i: B[i, i, i, i], name="C")
    return te.create_schedule(C.op), [X, C]


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbolic_size_that_no_memory_holds_is_refused_at_the_call(target: str) -> None:
    s, args = four_sizes()
    f = tvm.build(s, args, target)
    x, c = np.ones(2**16, "float32"), np.zeros(2**16, "float32")
    with pytest.raises(ArgumentError, match=f"main: B with n = 65536: it needs {2**66} bytes"):
        f(x, c)
    f(x[:3], c[:3])
    assert c[:3].tolist() == [4.0, 4.0, 4.0]


def test_the_interpreter_refuses_what_compiled_code_refuses() -> None:
    func = tvm.lower(*four_sizes())
    with pytest.raises(ArgumentError, match=f"it needs {2**66} bytes"):
        tir.interpret(func, np.ones(2**16, "float32"), np.ones(2**16, "float32"), flat=True)


def test_a_loaded_function_refuses_it_too(tmp_path: Any) -> None:
    s, args = four_sizes()
    tvm.build(s, args).export(tmp_path / "f.so")
    x = np.ones(2**16, "float32")
    with pytest.raises(ArgumentError, match=f"it needs {2**66} bytes"):
        tvm.load(tmp_path / "f.so")(x, x.copy())


def test_a_program_made_by_hand_is_checked_where_it_is_built() -> None:
    C, B = (tir.Buffer(name, (n,), FLOAT32) for name, n in (("C", 1), ("B", 2**60)))
    i = tir.Var("i", 0, 2**60 - 1)
    fill = tir.For(i, 2**60, tir.Store(B, (i,), te.const(0.0)))
    body = tir.Allocate(B, tir.seq(fill, tir.Store(C, (0,), tir.load(B, 5))))
    with pytest.raises(LoweringError, match="main: B: it needs"):
        tvm.build(tir.PrimFunc("main", (C,), body, (C,)))
