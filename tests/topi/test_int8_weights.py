"""A dense layer with weights in int8 computes what numpy does with the dequantised weights."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError


@pytest.mark.parametrize("target", ["llvm", "llvm -num-cores=2", "numba", "python", "cuda -sim"])
@pytest.mark.parametrize("constant", [False, True], ids=["variable", "constant"])
@pytest.mark.parametrize("shape", [(1, 64, 20, 2), (2, 96, 17, 3), (5, 64, 12, 4), (1, 20, 3, 5)])
def test_the_product_is_that_of_numpy(shape, constant: bool, target: str) -> None:
    m, k, n, groups = shape
    x = te.placeholder((m, k), name="x")
    w = te.placeholder((n, k), "int8", name="w", constant=constant)
    scales = te.placeholder((n, groups), name="scales", constant=constant)
    y = topi.dense_int8(x, w, scales)
    f = tvm.build(topi.schedule(y, target), [x, w, scales, y], target)
    rng = np.random.default_rng(0)
    values = (
        rng.standard_normal((m, k), np.float32),
        rng.integers(-127, 128, (n, k), np.int8),
        rng.random((n, groups), np.float32),
    )
    out = np.empty((m, n), np.float32)
    f(*values, out)
    expected = values[0] @ (values[1] * values[2].repeat(k // groups, 1)).T
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_large_product_runs_in_parallel_and_packs_its_weights() -> None:
    x, w = te.placeholder((1, 2048)), te.placeholder((2048, 2048), "int8", name="w", constant=True)
    y = topi.dense_int8(x, w, te.placeholder((2048, 64), name="scales", constant=True))
    text = topi.schedule(y, "llvm -num-cores=2").python()
    assert ".parallel(" in text
    assert ".prefetch(" in text
    assert text.count(".cache_read(") == 2


@pytest.mark.parametrize(
    ("shapes", "dtype", "told"),
    [
        (((2, 8), (3, 8), (3, 3)), "int8", "8 columns are not 3 groups"),
        (((2, 8), (3, 9), (3, 2)), "int8", "do not fit"),
        (((2, 8), (3, 8), (4, 2)), "int8", "do not fit"),
        (((2, 8), (3, 8), (3, 2)), "uint8", "the weight is uint8"),
        (((2, 8), (3, 8), (3,)), "int8", "dimensions"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, dtype: str, told: str) -> None:
    x, w, scales = shapes
    operands = te.placeholder(x), te.placeholder(w, dtype), te.placeholder(scales)
    with pytest.raises(ExprError, match=told):
        topi.dense_int8(*operands)
