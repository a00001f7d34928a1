"""The target numba: its source is Python, and what it computes is what the loops mean."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import DTYPES, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, BuildError, DType
from minitvm.codegen import emit_numba
from minitvm.runtime import load_numba
from minitvm.tir import (
    INTRINSICS,
    Buffer,
    Evaluate,
    For,
    PrimFunc,
    Store,
    Var,
    binary,
    call_packed,
    cast_to,
    if_then_else,
    index,
    interpret,
    intrinsic,
    load,
    seq,
)

i, j = Var("i", 0, 63), Var("j", 0, 63)
A, C = Buffer("A", (64,), FLOAT32), Buffer("C", (64,), FLOAT32)
B, D, L, U = (
    Buffer(name, (64,), dtype)
    for name, dtype in (("B", INT8), ("D", INT32), ("L", INT64), ("U", UINT8))
)


def assigned(value: Any, to: Buffer) -> str:
    """What is assigned in  to[i] = value."""
    params = (A, C, B, D, L, U)
    text = emit_numba(PrimFunc("main", params, Store(to, (i,), value), (to,)))
    return text.rstrip("\n").rsplit("\n", 1)[1].partition(" = ")[2]


def rows() -> tuple[te.Schedule, list[Any]]:
    """C[i] = sum of A[i, k] * 2 over k, rows in parallel"""
    X = te.placeholder((12, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    Y = te.compute((12,), lambda i: te.sum(X[i, k] * 2.0, axis=k), name="C")
    s = te.create_schedule(Y.op)
    s[Y].parallel(Y.op.axis[0])
    return s, [X, Y]


@pytest.fixture(scope="module")
def f() -> tvm.Function:
    return tvm.build(*rows(), "numba -num-cores=2")


# --- the source ----------------------------------------------------------------------------------


def test_a_whole_program(golden: Callable[[str], None]) -> None:
    func = tvm.lower(*rows(), target="numba")
    golden(emit_numba(func).rstrip("\n"))


def test_the_source_is_what_was_compiled(f: tvm.Function) -> None:
    s, args = rows()
    assert f.source("python") == emit_numba(tvm.lower(s, args, target="numba"))
    assert f.source("tir").startswith("def main(")


@pytest.mark.parametrize(
    ("value", "to", "text"),
    [
        (load(A, i) * 2.0, C, "A[i] * np.float32(2.0)"),
        (if_then_else(load(A, i) > 0.0, 1.0, load(A, i)), C,
         "np.float32(1.0) if A[i] > np.float32(0.0) else A[i]"),
        (intrinsic("rsqrt", load(A, i)), C, "(np.float32(1) / np.sqrt(A[i]))"),
        (load(D, i) * load(D, 0) + 1, D, "D[i] * D[0] + 1"),
        (load(D, i) * load(D, 0) * load(D, 1), D, "np.int32(D[i] * D[0]) * D[1]"),
        (cast_to(load(D, i) + 1, FLOAT32), C, "np.float32(np.int32(D[i] + 1))"),
        ((load(B, i) + load(B, 0)) // 2, B, "np.int8(np.int8(B[i] + B[0]) // 2)"),
        (load(U, i) + 200, U, "np.uint8(U[i] + np.uint8(200))"),
        (load(L, i) + load(L, 0), L, "wrap_add(L[i], L[0])"),
        (binary("shl", load(D, i), load(D, 0)), D, "np.int32(shl(D[i], D[0], 32))"),
        (cast_to(load(A, i), INT8), B, "np.int8(to_integer(A[i], -128, 127))"),
        (load(A, index(load(U, i)) + 1), C, "A[np.int64(U[i]) + 1]"),
    ],
)  # fmt: skip
def test_types_are_named_where_numba_would_take_others(value: Any, to: Buffer, text: str) -> None:
    assert assigned(value, to) == text


def test_only_the_outermost_parallel_loop_is_shared() -> None:
    inner = For(j, 4, Store(C, (i * 4 + j,), load(A, j)), "parallel")
    f = PrimFunc("main", (A, C), For(i, 4, inner, "parallel"), (C,))
    text = emit_numba(f)
    assert "for i in numba.prange(4):" in text
    assert "for j in range(4):  # parallel" in text


def test_on_one_core_no_loop_is_shared() -> None:
    f = PrimFunc("main", (A, C), For(i, 4, Store(C, (i,), load(A, i)), "parallel"), (C,))
    assert "parallel=True" not in emit_numba(f, parallel=False)


def test_a_call_of_a_python_function_is_refused() -> None:
    f = PrimFunc("main", (A, C), Evaluate(call_packed("print_it", A)), (C,))
    with pytest.raises(BuildError, match="compiled by numba cannot call other functions"):
        emit_numba(f)


# --- results -------------------------------------------------------------------------------------


def test_a_parallel_loop_is_right_from_several_threads_at_once(f: tvm.Function) -> None:
    a = np.random.default_rng(0).integers(-9, 9, (12, 8)).astype("float32")

    def call(_: int) -> np.ndarray[Any, Any]:
        c = np.zeros(12, "float32")
        f(a, c)
        return c

    with ThreadPoolExecutor(4) as pool:
        for c in pool.map(call, range(40)):
            np.testing.assert_array_equal(c, 2 * a.sum(axis=1))


@pytest.fixture
def threads() -> Iterator[None]:
    before = tvm.num_threads()
    yield
    tvm.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_numba_uses_no_more_threads_than_minitvm_may() -> None:
    import numba

    seen: list[int] = []
    source = (
        "import numba\n\ndef main(seen):\n    # numba.prange(\n"
        "    seen.append(numba.get_num_threads())\n"
    )
    run = load_numba(source, 2)
    tvm.set_num_threads(1)
    before = numba.get_num_threads()
    run([Row(seen)])
    assert seen == [1]
    assert numba.get_num_threads() == before


class Row:
    """Passes for a writable array of one dimension."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen
        self.flags = self
        self.writeable = True

    def reshape(self, n: int) -> list[int]:
        return self.seen


def test_an_input_may_be_read_only(f: tvm.Function) -> None:
    a, c = np.ones((12, 8), "float32"), np.zeros(12, "float32")
    a.setflags(write=False)
    f(a, c)
    assert (c == 16).all()


def test_integers_wrap_as_machine_integers_do() -> None:
    """int64: sum; int8: product, and quotients by 0 and -1"""
    stores = [
        Store(L, (0,), load(L, 1) + load(L, 2)),
        Store(B, (0,), load(B, 1) * load(B, 1)),
        Store(L, (3,), binary("floordiv", load(L, 4), load(L, 5))),
        Store(D, (0,), binary("truncdiv", load(D, 1), load(D, 2))),
        Store(D, (3,), load(D, 1) // load(D, 4)),
        Store(U, (0,), load(U, 1) - load(U, 2)),
    ]
    text = emit_numba(PrimFunc("main", (L, B, D, U), seq(*stores), (L, B, D, U)))
    lowest = -(2**63)
    longs = np.array([0, lowest, -1, 0, lowest, -1], "int64")
    bytes_ = np.array([0, 100], "int8")
    ints = np.array([0, -7, 2, 5, 0], "int32")
    unsigned = np.array([0, 3, 5], "uint8")
    load_numba(text, 1)([longs, bytes_, ints, unsigned])
    assert (longs[0], bytes_[0], longs[3]) == (2**63 - 1, 16, lowest)
    assert (ints[0], ints[3], unsigned[0]) == (-3, 0, 254)


INTEGER = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max",
           "bitand", "bitor", "bitxor", "shl", "shr")  # fmt: skip


@pytest.mark.parametrize("dtype", [INT8, INT64, UINT8])
def test_every_operation_on_integers_means_what_it_means_in_the_loops(dtype: DType) -> None:
    low, high = int(dtype.low), int(dtype.high)
    numbers = np.array([low, low + 1, 0, 1, 2, 7, high - 1, high], dtype.numpy)
    x, y = np.repeat(numbers, 8), np.tile(numbers, 8)
    if dtype is not UINT8:
        x[-8:], y[-8:] = -1, numbers
        x[8:16], y[8:16] = numbers, -1
    X, Y, Z = Buffer("X", (64,), dtype), Buffer("Y", (64,), dtype), Buffer("Z", (1024,), dtype)
    stores = [
        Store(Z, (i * len(INTEGER) + n,), binary(op, load(X, i), load(Y, i)))
        for n, op in enumerate(INTEGER)
    ]
    f = PrimFunc("main", (X, Y, Z), For(i, 64, seq(*stores)), (Z,))
    results = np.zeros((2, 1024), dtype.numpy)
    interpret(f, x, y, results[0], flat=True)
    load_numba(emit_numba(f), 1)([x, y, results[1]])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_leading_zeros_are_counted_as_in_the_loops(dtype: DType) -> None:
    low, high = int(dtype.low), int(dtype.high)
    numbers = np.array([low, low + 1, 0, 1, 2, 7, high - 1, high], dtype.numpy)
    X, Y = Buffer("X", (8,), dtype), Buffer("Y", (8,), INT32)
    f = PrimFunc("main", (X, Y), For(i, 8, Store(Y, (i,), intrinsic("clz", load(X, i)))), (Y,))
    results = np.zeros((2, 8), "int32")
    interpret(f, numbers, results[0])
    load_numba(emit_numba(f), 1)([numbers, results[1]])
    mask = (1 << dtype.bits) - 1
    expected = [dtype.bits - (int(x) & mask).bit_length() for x in numbers]
    assert results.tolist() == [expected, expected]


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_every_function_of_floats_means_what_it_means_in_the_loops(dtype: DType) -> None:
    """Special numbers, and some inside and outside of the domain of each function."""
    ends = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30]
    some = np.random.default_rng(0).uniform(-3, 3, 22)
    numbers = np.array([*ends, *some], dtype.numpy)
    x, y = np.repeat(numbers, 32), np.tile(numbers, 32)
    X, Y = Buffer("X", (1024,), dtype), Buffer("Y", (1024,), dtype)
    names = [n for n, known in INTRINSICS.items() if "float" in known.on and not known.takes]
    at = Var("i", 0, 1023)
    outs = [Buffer(n, (1024,), INTRINSICS[n].gives or dtype) for n in names]
    operands = [load(X, at), load(Y, at)]
    stores = [
        Store(to, (at,), intrinsic(n, *operands[: INTRINSICS[n].args]))
        for n, to in zip(names, outs, strict=True)
    ]
    f = PrimFunc("main", (X, Y, *outs), For(at, 1024, seq(*stores)), tuple(outs))
    results = [[np.zeros(1024, b.dtype.numpy) for b in outs] for _ in range(2)]
    interpret(f, x, y, *results[0])
    load_numba(emit_numba(f), 1)([x, y, *results[1]])
    eps = float(np.finfo(dtype.numpy).eps)
    for name, want, found in zip(names, *results, strict=True):
        np.testing.assert_allclose(found, want, rtol=8 * eps, err_msg=name)
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(want[zero]), name)


def test_a_float_becomes_an_integer_as_in_the_loops() -> None:
    floats = [0.5, -1.9, 300.0, -300.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 2.0**63]
    x = np.resize(np.array(floats, "float32"), 64)
    stores = [Store(to, (i,), cast_to(load(A, i), to.dtype)) for to in (B, D, L, U)]
    f = PrimFunc("main", (A, B, D, L, U), For(i, 64, seq(*stores)), (B, D, L, U))
    results = [[np.zeros(64, b.dtype.numpy) for b in (B, D, L, U)] for _ in range(2)]
    interpret(f, x, *results[0], flat=True)
    load_numba(emit_numba(f), 1)([x, *results[1]])
    for want, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, want)


def test_a_reduction_by_max_over_one_element_compiles() -> None:
    """LLVM's vectorizer never came back from this one."""
    X = te.placeholder((4,), name="X")
    k = te.reduce_axis((0, 27), name="k")
    Y = te.compute((16,), lambda i: te.max(X[1], axis=k), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].split(k, 9)
    y = np.zeros(16, "float32")
    tvm.build(s, [X, Y], "numba")(np.arange(4, dtype="float32"), y)
    assert (y == 1).all()


def test_symbolic_sizes_and_scalars_are_ints() -> None:
    n, m = te.size_var("n"), te.var("m")
    X = te.placeholder((n,), "int8", name="X")
    Y = te.compute((n,), lambda i: X[n - 1 - i].astype("int32") * m, name="Y")
    g = tvm.build(te.create_schedule(Y.op), [m, X, Y], "numba")
    for size in (5, 0):
        y = np.zeros(size, "int32")
        g(1000, np.arange(size, dtype="int8"), y)
        np.testing.assert_array_equal(y, 1000 * np.arange(size)[::-1])


# --- failures ------------------------------------------------------------------------------------


def test_what_numba_refuses_is_a_build_error() -> None:
    source = "import numba\n@numba.njit('void(int64)')\ndef main(n):\n    n.no_such_method()\n"
    with pytest.raises(BuildError, match="numba rejects this source"):
        load_numba(source, 1)


def test_without_numba_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(BuildError, match="pip install numba"):
        load_numba("", 1)


def test_numba_is_imported_when_it_is_first_needed() -> None:
    program = "import sys, minitvm; assert 'numba' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
