"""A minimum or maximum with a NaN among its operands is NaN on every target, as in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph, te, tensor, tir, topi
from minitvm.base import host
from tests.codegen.conftest import CONVERTS_FLOAT16

Array = np.ndarray[Any, Any]
TARGETS = ("interpreter", "python", "numba", "llvm")
NAN, INF = np.nan, np.inf
ODD = (NAN, 1.5, -INF, -0.0, INF, 0.0, -2.5, -NAN)
LANES = 8
FORMULAS: dict[str, tuple[Callable[..., Any], Callable[..., Array]]] = {
    "max(x, y)": (te.max, np.maximum),
    "min(x, y)": (te.min, np.minimum),
    "max(x, 1)": (lambda x, _: te.max(x, 1.0), lambda x, _: np.maximum(x, 1)),
    "max(1, x)": (lambda x, _: te.max(1.0, x), lambda x, _: np.maximum(1, x)),
    "min(-1, x)": (lambda x, _: te.min(-1.0, x), lambda x, _: np.minimum(-1, x)),
    "max(x, nan)": (lambda x, _: te.max(x, NAN), lambda x, _: x * NAN),
    "clip": (lambda x, y: te.min(te.max(x, y), 6.0), lambda x, y: np.minimum(np.maximum(x, y), 6)),
}


def computed(target: str, s: te.Schedule, args: list[te.Tensor], *inputs: Array) -> Array:
    """Return what the schedule computes on `target` for the last of `args`, its output."""
    out = np.zeros(args[-1].shape, args[-1].dtype)
    if target == "interpreter":
        tir.interpret(tvm.lower(s, args), *inputs, out, flat=True)
    else:
        tvm.build(s, args, target)(*inputs, out)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMULAS)
def test_an_element_is_nan_if_an_operand_is(name: str, target: str, lanes: int, dtype: str) -> None:
    formula, meaning = FORMULAS[name]
    x, y = (a.reshape(-1).astype(dtype) for a in np.meshgrid(ODD, ODD))
    X, Y = (te.placeholder((len(x),), dtype, name=n) for n in "XY")
    Z = te.compute((len(x),), lambda i: formula(X[i], Y[i]), name="Z")
    s = te.create_schedule(Z.op)
    s[Z].vectorize(s[Z].split(Z.op.axis[0], lanes)[1])
    np.testing.assert_array_equal(computed(target, s, [X, Y, Z], x, y), meaning(x, y))
    (evaluated,) = tensor.evaluate([Z], {X: x, Y: y})
    np.testing.assert_array_equal(evaluated, meaning(x, y))


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("fold", "meaning"), [(te.max, np.max), (te.min, np.min)])
def test_a_reduction_keeps_a_nan_at_any_position(
    fold: Any, meaning: Any, target: str, lanes: int
) -> None:
    n = 3 * LANES
    x = np.where(np.eye(n), NAN, np.random.default_rng(0).standard_normal((n, n)))
    x = np.concatenate([x, x[:, ::-1] * 0 + INF]).astype("float32")
    X, k = te.placeholder(x.shape, name="X"), te.reduce_axis((0, n), name="k")
    Y = te.compute((len(x),), lambda i: fold(X[i, k], axis=k), name="Y")
    s = te.create_schedule(Y.op)
    part = s.rfactor(Y, s[Y].split(k, lanes)[1])
    s[part].vectorize(part.op.axis[1])
    np.testing.assert_array_equal(computed(target, s, [X, Y], x), meaning(x, axis=1))


@pytest.mark.skipif(not CONVERTS_FLOAT16 & host().features, reason="LLVM refuses float16 here")
def test_a_float16_stays_nan() -> None:
    x = np.resize(np.array(ODD, "float16"), 35)
    X = te.placeholder(x.shape, "float16", name="X")
    Y = te.compute(x.shape, lambda i: te.min(te.max(X[i], X[34 - i]), 1.0), name="Y")
    want = np.minimum(np.maximum(x, x[::-1]), np.float16(1))
    for target in ("python", "llvm"):
        got = computed(target, topi.schedule(Y), [X, Y], x)
        np.testing.assert_array_equal(got, want)


NETWORKS: dict[str, Callable[[graph.Builder, graph.Node], graph.Node]] = {
    "relu": lambda b, x: b.relu(x),
    "clip": lambda b, x: b.clip(x, a_min=0.0, a_max=6.0),
    "leaky_relu": lambda b, x: b.leaky_relu(x),
    "maximum": lambda b, x: b.maximum(b.negative(x), x),
    "prelu": lambda b, x: b.add(b.relu(x), b.multiply(b.minimum(x, 0.0), 0.25)),
    "max": lambda b, x: b.max(x, axis=(2, 3)),
    "max_pool2d": lambda b, x: b.max_pool2d(x, 3, strides=2, padding=1),
    "softmax": lambda b, x: b.softmax(x),
    "conv2d and relu": lambda b, x: b.relu(b.conv2d(x, b.param("w", np.ones((4, 2, 1, 1), "f4")))),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_keeps_the_nans_that_its_reference_keeps(name: str) -> None:
    b = graph.Builder()
    x = np.random.default_rng(0).standard_normal((1, 2, 16, 16), np.float32)
    x[0, 0, 5, 7] = x[0, 1, 15, 0] = NAN
    net = b.graph(NETWORKS[name](b, b.input("x", x.shape)))
    (want,) = graph.evaluate(net, x)
    assert np.isnan(want).any()
    np.testing.assert_allclose(graph.compile(net)(x), want, 1e-5, 1e-6)
