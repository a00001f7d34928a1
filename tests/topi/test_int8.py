"""Products of bytes: right for all numbers and sizes, by the CPU's instruction for them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import LoweringError, host
from minitvm.te import Tensor
from minitvm.topi.int8 import tile_shape
from tests.covering import covering

ARM = "neon" in host().features
WITHOUT = f"llvm -num-cores=1 -mattr={'-dotprod,-i8mm' if ARM else '-avx512vnni,-avxvnni'}"
NARROW = f"llvm -num-cores=1 -mattr={'-i8mm' if ARM else '-avx512f'}"
INSTRUCTION = re.compile(r"\b(vpdpbusd|sdot|udot|usdot)\b")
LLVM = ["llvm -num-cores=1", "llvm -num-cores=2", NARROW, WITHOUT]
TARGETS = [*LLVM, "python"]
M, N, K = 37, 45, 30  # a tail in each
has_vnni = pytest.mark.skipif(
    "avx2" not in host().features or not tvm.Target().dot4, reason="needs VNNI"
)
Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: str = "int8") -> Array:
    ends = np.iinfo(dtype)
    return np.random.default_rng(0).integers(ends.min, ends.max + 1, shape).astype(dtype)


def operands(
    m: int = M, n: int = N, k: int = K, dtype: str = "int8", right: str = "int8"
) -> list[Tensor]:
    return [te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), right, "B")]


def product(a: Tensor, b: Tensor) -> Tensor:
    return topi.matmul(a, b, out_dtype="int32", name="C")


def exact(x: Array, y: Array) -> Array:
    return x.astype("int32") @ y.astype("int32")


def run(out: Tensor, inputs: list[Tensor], arrays: list[Array], target: str) -> Array:
    """What `out` is under its default schedule."""
    shape = tuple(n for n in out.shape if isinstance(n, int))
    got = np.full(shape, 77, out.dtype)
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    return got


# --- numbers and sizes ---------------------------------------------------------------------------


SIZES = [(12, 64, 32), (8, 16, 4), (33, 70, 65), (13, 17, 3), (7, 20, 9), (1, 5, 3), (9, 3, 8)]


@pytest.mark.parametrize(
    ("shape", "dtype", "target"), covering(SIZES, ["int8", "uint8"], TARGETS), ids=str
)
def test_all_sizes_are_right(shape: tuple[int, int, int], dtype: str, target: str) -> None:
    m, n, k = shape
    a, b = operands(m, n, k, dtype)
    x, y = random(m, k, dtype=dtype), random(k, n)
    np.testing.assert_array_equal(run(product(a, b), [a, b], [x, y], target), exact(x, y))


def test_numba_computes_it_too() -> None:
    a, b = operands()
    x, y = random(M, K), random(K, N)
    got = run(product(a, b), [a, b], [x, y], "numba -num-cores=1")
    np.testing.assert_array_equal(got, exact(x, y))


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "python"])
@pytest.mark.parametrize("cpu", ["apple-m1", "neoverse-v1"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_formulas_for_other_cpus_are_right(
    dtype: str, right: str, cpu: str, target: str
) -> None:
    a, b = operands(dtype=dtype, right=right)
    x, y = random(M, K, dtype=dtype), random(K, N, dtype=right)
    with tvm.Target(f"llvm -mcpu={cpu}"):
        c = product(a, b)
    np.testing.assert_array_equal(run(c, [a, b], [x, y], target), exact(x, y))


@pytest.mark.parametrize("target", TARGETS)
def test_the_ends_of_the_range_do_not_saturate(target: str) -> None:
    a, b = operands()
    c = product(a, b)
    f = tvm.build(topi.schedule(c, target), [a, b, c], target)
    for left, right in [(-128, -128), (-128, 127), (127, -128), (127, 127)]:
        x, y = np.full((M, K), left, "int8"), np.full((K, N), right, "int8")
        got = np.zeros((M, N), "int32")
        f(x, y, got)
        np.testing.assert_array_equal(got, np.full((M, N), K * left * right))


@pytest.mark.parametrize("target", ["llvm -num-cores=1", "llvm -num-cores=2", WITHOUT, "python"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("m", [1, 7, 20])
def test_constant_weights_are_packed_before_the_calls(m: int, dtype: str, target: str) -> None:
    a, b = te.placeholder((m, K), dtype, "A"), te.placeholder((N, K), "int8", "B", constant=True)
    out = topi.dense(a, b, out_dtype="int32")
    s = topi.schedule(out, target)
    assert "T_dense_groups = allocate" not in str(tvm.lower(s, [a, b, out], until="nest"))
    x, y, got = random(m, K, dtype=dtype), random(N, K), np.zeros((m, N), "int32")
    tvm.build(s, [a, b, out], target).bind(B=y)(x, got)
    np.testing.assert_array_equal(got, exact(x, y.T))


@pytest.mark.parametrize("target", LLVM)
def test_a_sum_beyond_int32_wraps(target: str) -> None:
    k = 66_000 * 4  # times 128 * 128 is more than 2**32
    a, b = operands(8, 16, k)
    x, y = np.full((8, k), -128, "int8"), np.full((k, 16), -128, "int8")
    want = np.full((8, 16), (k << 14) & 0xFFFFFFFF, "uint32").view("int32")
    np.testing.assert_array_equal(run(product(a, b), [a, b], [x, y], target), want)


FLIPS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize(
    ("flips", "dtype", "target"), covering(FLIPS, ["int8", "uint8"], TARGETS), ids=str
)
def test_operands_may_be_transposed(flips: tuple[bool, bool], dtype: str, target: str) -> None:
    (ta, tb), k = flips, 32
    a = te.placeholder((k, M) if ta else (M, k), dtype, "A")
    b = te.placeholder((N, k) if tb else (k, N), "int8", "B")
    x, y = random(M, k, dtype=dtype), random(k, N)
    c = topi.matmul(a, b, transpose_a=ta, transpose_b=tb, out_dtype="int32")
    arrays = [np.ascontiguousarray(x.T if ta else x), np.ascontiguousarray(y.T if tb else y)]
    np.testing.assert_array_equal(run(c, [a, b], arrays, target), exact(x, y))


def test_rows_may_be_symbolic() -> None:
    m = te.var("m")
    a, b = te.placeholder((m, K), "int8", "A"), te.placeholder((K, N), "int8", "B")
    c = product(a, b)
    f = tvm.build(topi.schedule(c), [a, b, c])
    for rows in (1, 6, 37):
        x, y, got = random(rows, K), random(K, N), np.zeros((rows, N), "int32")
        f(x, y, got)
        np.testing.assert_array_equal(got, exact(x, y))


# --- networks ------------------------------------------------------------------------------------


def narrow(c: Tensor) -> Tensor:
    """c / 256, rounded down, as int8."""
    return te.compute(c.shape, lambda i, j: (c(i, j) >> 8).astype("int8"), name="narrow")


READERS: dict[str, tuple[Any, Any]] = {
    "relu": (topi.relu, lambda w: np.maximum(w, 0)),
    "narrow": (narrow, lambda w: (w >> 8).astype("int8")),
    "row sums": (lambda c: topi.sum(c, axis=1), lambda w: w.sum(1)),
    "transpose": (topi.transpose, lambda w: w.T),
    "corner": (lambda c: topi.strided_slice(c, [0, 0], [20, 5]), lambda w: w[:20, :5]),
    "two": (lambda c: topi.add(topi.relu(c), topi.negative(c)), lambda w: np.maximum(w, 0) - w),
    "reshape": (lambda c: topi.reshape(c, (M * N,)), lambda w: w.reshape(-1)),
}


@pytest.mark.parametrize("target", ["llvm", WITHOUT, "python"])
@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_the_product_reads_the_right_one(reader: str, target: str) -> None:
    (a, b), (make, meaning) = operands(), READERS[reader]
    x, y = random(M, K), random(K, N)
    got = run(make(product(a, b)), [a, b], [x, y], target)
    np.testing.assert_array_equal(got, meaning(exact(x, y)))


@pytest.mark.parametrize("target", ["llvm", WITHOUT, "python"])
def test_a_square_product_may_be_transposed(target: str) -> None:
    a, b = operands(33, 33, 32)
    x, y = random(33, 32), random(32, 33)
    got = run(topi.relu(topi.transpose(product(a, b))), [a, b], [x, y], target)
    np.testing.assert_array_equal(got, np.maximum(exact(x, y).T, 0))


@pytest.mark.parametrize("target", ["llvm", WITHOUT])
def test_a_product_of_products_uses_the_intrinsic_twice(target: str) -> None:
    (a, b), d = operands(), te.placeholder((N, 33), "int8", "D")
    out = topi.matmul(narrow(product(a, b)), d, out_dtype="int32", name="E")
    x, y, z = random(M, K), random(K, N), random(N, 33)
    want = exact((exact(x, y) >> 8).astype("int8"), z)
    np.testing.assert_array_equal(run(out, [a, b, d], [x, y, z], target), want)
    assert topi.schedule(out, target).python().count("tensorize") == 2


def test_elementwise_readers_work_on_the_tile() -> None:
    a, b = operands(64, 128, 32)
    out = topi.relu(product(a, b))
    s = topi.schedule(out, "llvm -mattr=+avx512f")
    f = str(tvm.lower(s, [a, b, out], until="nest"))
    assert 'C_dots = allocate((5, 4, 16), "int32", "local")' in f
    assert " C = allocate" not in f


# --- the schedule --------------------------------------------------------------------------------


@has_vnni
def test_the_hot_loop_is_loads_and_the_instruction() -> None:
    a, b = operands(48, 128, 64)
    c = product(a, b)
    assembly = tvm.build(topi.schedule(c, "llvm"), [a, b, c]).source("asm")
    loops = re.findall(r"^\.LBB\w+:\n((?:\t[^j].*\n)+)\tj", assembly, flags=re.MULTILINE)
    hot = max(loops, key=lambda loop: loop.count("vpdpbusd")).splitlines()
    plain = [line.replace("\t{vex}", "") for line in hot]  # how AVX-VNNI is told from AVX-512
    vectors = [line.split() for line in plain if line.startswith("\tv")]
    names = [name.removesuffix("64") for name, *_ in vectors]
    assert set(names) == {"vpdpbusd", "vpbroadcastd", *(n for n in names if "vmovdq" in n)}
    assert all(into.startswith("%") for *_, into in vectors)  # nothing is stored
    rows, groups = tile_shape(tvm.Target())
    assert names.count("vpdpbusd") % (rows * groups) == 0


@pytest.mark.parametrize(
    "target", [WITHOUT, *([] if ARM else ["llvm -num-cores=1 -mattr=-avx512f,-avxvnni"])]
)
def test_without_the_instruction_it_is_not_used(target: str) -> None:
    a, b = operands()
    c = product(a, b)
    s = topi.schedule(c, target)
    assert "tensorize" in s.python()
    assert not INSTRUCTION.search(tvm.build(s, [a, b, c], target).source("asm"))


@pytest.mark.parametrize(
    ("cpu", "shape"), [("skylake-avx512", (5, 4)), ("haswell", (4, 1)), ("apple-m1", (6, 1))]
)
def test_the_tile_fits_the_registers(cpu: str, shape: tuple[int, int]) -> None:
    assert tile_shape(tvm.Target(f"llvm -mcpu={cpu}")) == shape


@pytest.mark.parametrize(
    ("cpu", "dtype"), [("znver4", "uint8"), ("apple-m1", "int8"), ("neoverse-v1", "uint8")]
)
def test_rows_of_whole_fours_are_read_where_they_are(cpu: str, dtype: str) -> None:
    a, b = operands(k=32, dtype=dtype)
    with tvm.Target(f"llvm -mcpu={cpu}"):
        c = product(a, b)
    assert [s.name for s in te.create_schedule(c.op).stages] == [
        "A",
        "B",
        "C_groups",
        "C_dots",
        "C",
    ]


@pytest.mark.parametrize(("m", "n", "k"), [(7, 64, 64), (64, 15, 64)])
def test_small_products_keep_the_plain_formula(m: int, n: int, k: int) -> None:
    assert [s.name for s in te.create_schedule(product(*operands(m, n, k)).op).stages] == [
        "A",
        "B",
        "C",
    ]


# --- the intrinsic -------------------------------------------------------------------------------


def by_hand(n: int = 32, k: int = 8, split: int = 16) -> tuple[list[Tensor], te.Schedule]:
    """out[j] = sum(x[k] * y[j, k]), as a student would tensorize it."""
    x, y = te.placeholder((k,), "uint8", "x"), te.placeholder((n, k), "int8", "y")
    r = te.reduce_axis((0, k), name="k")
    out = te.compute(
        (n,),
        lambda j: te.sum(x(r).astype("int32") * y(j, r).astype("int32"), axis=r),
        name="out",
    )
    s = te.create_schedule(out.op)
    jo, ji = s[out].split(out.op.axis[0], factor=split)
    ko, ki = s[out].split(r, factor=4)
    s[out].reorder(jo, ko, ji, ki)
    s[out].tensorize(ji, topi.tensor_intrin.dot4_intrin(16))
    return [x, y, out], s


@pytest.mark.parametrize("target", ["llvm", WITHOUT, "python", "numba -num-cores=1"])
def test_the_intrinsic_serves_any_schedule(target: str) -> None:
    args, s = by_hand()
    x, y, got = random(8, dtype="uint8"), random(32, 8), np.zeros(32, "int32")
    tvm.build(s, args, target)(x, y, got)
    np.testing.assert_array_equal(got, y.astype("int32") @ x.astype("int32"))


def test_loops_of_another_length_are_refused() -> None:
    args, s = by_hand(split=8)
    with pytest.raises(LoweringError, match="the intrinsic over 16 of 'j'"):
        tvm.lower(s, args)
