"""The tile of a matrix product follows from the registers and caches of the target alone."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import schedule, te, tir, topi
from minitvm.base import FLOAT32
from minitvm.topi.gemm import Plan, blocked, plan, score
from tests.covering import covering

WIDE = tvm.Target("llvm -num-cores=1 -mattr=+avx512f")
NARROW = tvm.Target("llvm -num-cores=1 -mattr=+avx2,-avx512f")


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=["avx512", "avx2"])
@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (1000, 700, 900), (3, 5, 7), (64, 16, 9000)])
def test_a_tile_fits_the_registers(target: tvm.Target, shape: tuple[int, int, int]) -> None:
    p = plan(shape, FLOAT32, target, gather=False)
    vectors = p.columns // p.lanes
    assert p.rows * vectors + vectors + 1 <= target.vector_registers


def test_a_panel_that_overflows_the_cache_costs_more_than_a_narrower_tile() -> None:
    assert score(6, 4, panel=1 << 18, cache=1 << 20) > score(8, 3, panel=1 << 18, cache=1 << 20)
    assert score(6, 4, panel=1 << 20, cache=1 << 20) < score(8, 3, panel=3 << 18, cache=1 << 20)


def test_small_products_are_not_packed_and_not_parallel() -> None:
    four = tvm.Target("llvm -num-cores=4")
    small = plan((8, 64, 64), FLOAT32, four, gather=False)
    assert not small.pack
    assert not small.parallel
    big = plan((1024, 1024, 1024), FLOAT32, four, gather=False)
    assert big.pack
    assert big.parallel


def _blocks(m: int, n: int, k: int, target: tvm.Target = WIDE) -> Plan:
    return blocked(plan((m, n, k), FLOAT32, target, False, splits=True), (m, n, k), FLOAT32, target)


def test_a_panel_of_few_rows_is_a_block() -> None:
    p = _blocks(1024, 1024, 1024)
    assert (p.depth, p.panels) == (0, 1)


@pytest.mark.parametrize("shape", [(128, 768, 3072), (64, 4096, 3001), (2048, 2048, 8192)])
def test_a_deep_product_is_split_so_that_a_panel_fits_half_the_cache(
    shape: tuple[int, int, int],
) -> None:
    p = _blocks(*shape)
    assert 0 < p.depth * p.columns * 4 <= WIDE.l2 // 2
    assert p.panels > 1


def test_blocks_leave_columns_for_every_thread() -> None:
    two = tvm.Target("llvm -num-cores=2 -mattr=+avx512f")
    p = _blocks(128, 768, 3072, two)
    assert p.parallel
    assert -(-768 // (p.columns * p.panels)) >= 2


@pytest.mark.parametrize(
    ("shape", "transposed", "batches", "fused"),
    covering([(50, 33, 2053), (49, 130, 1536)], [False, True], [0, 3], [False, True]),
    ids=str,
)
def test_deep_products_equal_numpy(
    shape: tuple[int, int, int], transposed: bool, batches: int, fused: bool
) -> None:
    m, n, k = shape
    batch = (batches,) if batches else ()
    a = te.placeholder((*batch, m, k), name="A")
    b = te.placeholder((*batch, *((n, k) if transposed else (k, n))), name="B")
    multiply = topi.batch_matmul if batches else topi.matmul
    c = multiply(a, b, transpose_b=transposed)
    c = topi.relu(c) if fused else c
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, t.shape).astype("float32") for t in (a, b))
    want = x @ (y.swapaxes(-1, -2) if transposed else y)
    target = "llvm -num-cores=2"
    f = tvm.build(topi.schedule(c, target), [a, b, c], target)
    out = np.zeros(want.shape, "float32")
    f(x, y, out)
    np.testing.assert_array_equal(out, np.maximum(want, 0) if fused else want)


@pytest.mark.parametrize(("cores", "masked"), [(1, [0, 0, 1, 1]), (2, [0, 0, 1, 1]), (64, [1, 1])])
def test_only_the_last_block_of_a_batch_is_masked(cores: int, masked: list[int]) -> None:
    """With more cores than batches, blocks and batches are one loop, all of it masked."""
    target = tvm.Target(f"llvm -num-cores={cores} -mattr=+avx512f")
    a, b = te.placeholder((12, 197, 64), name="A"), te.placeholder((12, 64, 197), name="B")
    c = topi.batch_matmul(a, b)
    func = tvm.lower(topi.schedule(c, target), [a, b, c], target=target)
    sums = [n for n in tir.walk(func.body) if isinstance(n, tir.For) and n.var.name == "k"]
    assert [any(isinstance(n, tir.If) for n in tir.walk(s)) for s in sums] == masked


def test_columns_that_are_not_contiguous_are_always_packed() -> None:
    assert plan((8, 64, 64), FLOAT32, WIDE, gather=True).pack


@pytest.mark.parametrize(
    ("rows", "cores", "constant", "loops"),
    [
        (128, 1, True, ["k", "j.outer"]),
        (128, 2, True, ["k"]),  # the next panel may be for another thread
        (6, 1, True, ["k"]),  # there is one tile for each panel
        (128, 1, False, []),  # it is packed in the loop
    ],
)
def test_the_next_panel_of_a_constant_matrix_is_requested(
    rows: int, cores: int, constant: bool, loops: list[str]
) -> None:
    target = tvm.Target(f"llvm -num-cores={cores}").on(
        vector_bytes=64, vector_registers=32, l2=1 << 20
    )
    a, b = te.placeholder((rows, 768)), te.placeholder((3072, 768), constant=constant)
    steps = topi.schedule(topi.dense(a, b), target).steps
    assert [s.axis for s in steps if isinstance(s, schedule.Prefetch)] == loops


def test_symbolic_rows_are_one_build_for_many_sizes() -> None:
    n = te.var("n")
    a, b = te.placeholder((n, 40), name="A"), te.placeholder((40, 50), name="B")
    c = topi.matmul(a, b)
    f = tvm.build(topi.schedule(c), [a, b, c])
    for rows in (1, 7, 64):
        x, y = np.ones((rows, 40), "float32"), np.ones((40, 50), "float32")
        out = np.zeros((rows, 50), "float32")
        f(x, y, out)
        assert (out == 40).all()


def test_a_product_is_known_by_its_formula_whoever_wrote_it() -> None:
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    for body in (
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        lambda i, j: te.sum(b[k, j] * a[i, k], axis=k),
    ):
        mine = te.compute((64, 64), body, name="T_matmul")
        theirs = topi.matmul(a, b)
        assert topi.schedule(mine, WIDE).python() == topi.schedule(theirs, WIDE).python()


def test_a_sum_of_squares_is_no_product() -> None:
    a = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * a[j, k] + a[i, j], axis=k), name="C")
    f = tvm.build(topi.schedule(c), [a, c])
    x, out = np.eye(64, dtype="float32"), np.zeros((64, 64), "float32")
    f(x, out)
    np.testing.assert_allclose(out, x @ x.T + 64 * x)


@pytest.mark.parametrize(
    "shape", [(1, 1000, 512), (1, 13, 100), (2, 37, 65), (1, 5, 7), (2, 8, 32)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_few_rows_times_a_transposed_matrix_equal_numpy(
    shape: tuple[int, int, int], bias: bool
) -> None:
    m, n, k = shape
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    v = te.placeholder((n,), name="V")
    c = topi.dense(a, b, v if bias else None)
    rng = np.random.default_rng(0)
    x, y, z = (rng.integers(-4, 5, t.shape).astype("float32") for t in (a, b, v))
    out = np.zeros((m, n), "float32")
    f = tvm.build(topi.schedule(c), [a, b, *([v] if bias else []), c])
    f(x, y, *([z] if bias else []), out)
    np.testing.assert_array_equal(out, x @ y.T + (z if bias else 0))
