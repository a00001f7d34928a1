"""The tile of a matrix product follows from the registers and caches of the target alone."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import FLOAT32
from minitvm.topi.gemm import plan, score

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


def test_columns_that_are_not_contiguous_are_always_packed() -> None:
    assert plan((8, 64, 64), FLOAT32, WIDE, gather=True).pack


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
