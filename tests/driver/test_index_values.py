"""An index that becomes a value: its type, its numbers on every target, and how it prints."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ExprError
from minitvm.tensor import evaluate

Array = np.ndarray[Any, Any]
BIG, F64, I64 = 3 * 10**9, te.const(2, "float64"), te.const(7, "int64")
Run = Callable[[Any, list[Any], Array], None]


def _build(target: str) -> Run:
    def run(C: Any, inputs: list[Any], out: Array) -> None:
        s, arrays = te.create_schedule(C.op), [a for _, a in inputs]
        tvm.build(s, [*(t for t, _ in inputs), C], target)(*arrays, out)

    return run


def _vectors(C: Any, inputs: list[Any], out: Array) -> None:
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].op.axis[0])
    tvm.build(s, [*(t for t, _ in inputs), C])(*(a for _, a in inputs), out)


def _interpret(C: Any, inputs: list[Any], out: Array) -> None:
    func = tvm.lower(te.create_schedule(C.op), [*(t for t, _ in inputs), C])
    tir.interpret(func, *(a for _, a in inputs), out, flat=True)


def _evaluate(C: Any, inputs: list[Any], out: Array) -> None:
    out[:] = evaluate([C], dict(inputs))[0]


RUNS: dict[str, Run] = {
    "llvm": _build("llvm"),
    "vectors": _vectors,
    "numba": _build("numba"),
    "python": _build("python"),
    "interpreter": _interpret,
    "evaluator": _evaluate,
}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def _results(run: Run, f: Callable[..., Any], *inputs: Any, size: int = 4) -> Array:
    C = te.compute((size,), f, name="C")
    out = np.zeros(size, C.dtype)
    run(C, list(inputs), out)
    return out


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (lambda i: (i * 1500000000) * 1.0, np.float32([0, 1.5e9, 3e9, 4.5e9])),
        (lambda i: (i * 1500000000).astype("float64"), np.float64([0, 1.5e9, 3e9, 4.5e9])),
        (lambda i: (i * 1500000000) / F64, np.float64([0, 0.75e9, 1.5e9, 2.25e9])),
        (lambda i: te.if_then_else(i > 1, i * BIG, I64), np.int64([7, 7, 2 * BIG, 3 * BIG])),
        (lambda i: te.max(i * BIG, I64), np.int64([7, BIG, 2 * BIG, 3 * BIG])),
        (lambda i: (i * BIG > te.const(7.5e9, "float32")).astype("int8"), np.int8([0, 0, 0, 1])),
    ],
)
def test_an_index_takes_the_type_it_meets(run: Run, formula: Any, expected: Array) -> None:
    got = _results(run, formula)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_an_index_beside_an_int64_is_one(run: Run) -> None:
    A = te.placeholder((4,), "int64", name="A")
    got = _results(run, lambda i: A[i] + i * 10**10, (A, np.ones(4, np.int64)))
    np.testing.assert_array_equal(got, 1 + np.arange(4) * 10**10)


def test_an_index_beside_a_symbolic_size_does_not_wrap(run: Run) -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), "float64", name="A")
    C = te.compute((n,), lambda i: A[i] + i * n * 10**9, name="C")
    out = np.zeros(8)
    if run is not _vectors:
        run(C, [(A, np.ones(8))], out)
        np.testing.assert_array_equal(out, 1 + np.arange(8) * 8e9)


@pytest.mark.parametrize("target", ["llvm", "numba"])
def test_squares_of_a_reduce_axis_do_not_wrap(target: str) -> None:
    k = te.reduce_axis((0, 70_000), "k")
    C = te.compute((1,), lambda i: te.sum(k * k * te.const(1.0, "float64"), axis=k), name="C")
    out = np.zeros(1)
    RUNS[target](C, [], out)
    assert out[0] == float(sum(n * n for n in range(70_000)))


def test_an_index_that_no_int32_holds_is_refused_alone() -> None:
    with pytest.raises(ExprError, match=r"index in 0 \.\. 4500000000 as a value of type int32"):
        te.compute((4,), lambda i: i * 1500000000)
    with pytest.raises(ExprError, match=r"x.astype\('int64'\), or x.astype\('int32'\) if it"):
        te.compute((4,), lambda i: (i * 1500000000) & 255)


def test_an_explicit_int32_wraps(run: Run) -> None:
    got = _results(run, lambda i: (i * 1500000000).astype("int32").astype("float64"))
    expected = (np.arange(4) * 1500000000).astype(np.int32)
    np.testing.assert_array_equal(got, expected.astype(np.float64))


def test_what_is_printed_names_every_conversion() -> None:
    i = tir.Var("i", 0, 3)
    assert tir.text((i * 3) * 1.0) == "float32(i*3) * 1.0"
    assert tir.text(tir.cast_to(i.astype("int32"), "float32")) == "float32(int32(i))"
    assert tir.text(i.astype("int32") * 3) == "int32(i) * 3"
    assert tir.text(tir.compare("<", i.astype("int32"), 3)) == "int32(i) < 3"
    assert tir.text(i.astype("int32")) == "i"


def test_an_int32_that_wraps_stays_a_value_as_an_index() -> None:
    i = tir.Var("i", 0, 3)
    assert tir.prove_equal(tir.index((i * 3).astype("int32")), i * 3)
    wrapped = tir.index((i * 1500000000).astype("int32"))
    assert (tir.lower_bound(wrapped), tir.upper_bound(wrapped)) == (-(2**31), 2**31 - 1)
