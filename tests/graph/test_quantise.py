"""Quantise networks: calibration, the nodes that are inserted, and the errors."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError
from minitvm.graph import calibrate

from .test_integers import CPU, lines

LIMITS = {"low": -128, "high": 127, "dtype": "int8"}
PADDED = {"padding": 1, "out_dtype": "int32"}
OPERATORS = {  # operator -> types and shapes of its inputs, attributes
    "add_requantised": [
        (("uint8", (4, 6)), ("uint8", (4, 6)), {"ra": 0.3, "rb": 1.7, "rc": -100.3, "low": 7}),
        (("int8", (4, 6)), ("int8", (6,)), {"ra": 1.5, "rb": 0.5, "rc": 0.5, **LIMITS}),
    ],
    "conv2d": [
        (
            *(("uint8", (1, 6, 6, 8)), ("int8", (3, 3, 8, 16))),
            {**PADDED, "layout": "NHWC", "pad_value": 77},
        ),
        (("int8", (2, 3, 5, 5)), ("int8", (6, 3, 3, 3)), {**PADDED, "pad_value": -5}),
        (("uint8", (1, 4, 5, 5)), ("int8", (4, 1, 3, 3)), {"groups": 4}),
    ],
    "dense": [(("uint8", (3, 40)), ("int8", (10, 40)), {"out_dtype": "int32"})],
    "dequantise": [
        (("uint8", (4, 6)), {"scale": 0.1, "zero": 9}),
        (("int32", (4, 6)), ("float32", (4,)), ("int32", (4,)), {"axis": 0}),
    ],
    "matmul": [(("uint8", (3, 40)), ("uint8", (40, 10)), {"out_dtype": "int32"})],
    "quantise": [
        (("float32", (4, 6)), {"scale": 0.7, "zero": 3}),
        (("float32", (4, 6)), ("float32", (4,)), ("int8", (4,)), {"axis": 0, "dtype": "int8"}),
    ],
    "requantise": [
        (("int32", (1, 4, 4, 16)), ("int32", (16,)), ("float32", (16,)), {"zero": 9, "low": 9}),
        (("int32", (1, 6, 4, 4)), ("int32", (6,)), ("float32", (6,)), {"axis": 1, **LIMITS}),
    ],
}
LISTED = [(op, *case) for op, cases in OPERATORS.items() for case in cases]


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Random numbers: all bytes, small sums, positive scales or both signs of real numbers."""
    if dtype == "float32":
        values = rng.uniform(-200, 200, shape) if len(shape) > 1 else rng.uniform(0.001, 0.1, shape)
        return values.astype(dtype)
    limits = np.iinfo(dtype) if dtype != "int32" else np.iinfo("int16")
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("case", LISTED, ids=lambda case: case[0])
def test_compiled_operators_equal_their_references(case, rng) -> None:
    op, *types, attrs = case
    values = [drawn(rng, *each) for each in types]
    b = graph.Builder()
    net = b.graph(
        b.call(
            op, *(b.input(f"x{k}", x.shape, x.dtype.name) for k, x in enumerate(values)), **attrs
        )
    )
    found = graph.compile(net, CPU)(*values)
    np.testing.assert_array_equal(found, graph.evaluate(net, *values)[0])


def test_halves_are_rounded_to_even_and_limits_hold() -> None:
    b = graph.Builder()
    net = b.graph(b.quantise(b.input("x", (7,)), scale=1.0, zero=10))
    x = np.array([0.5, 1.5, -0.5, 1e30, -1e30, np.inf, np.nan], np.float32)
    for y in (*graph.evaluate(net, x), graph.compile(net, CPU)(x)):
        assert y.tolist() == [10, 12, 10, 255, 0, 255, 0]


def example(rng: np.random.Generator) -> graph.Graph:
    b = graph.Builder()
    x = b.input("x", (1, 4))
    w, v = (b.param(n, rng.standard_normal((4, 4), np.float32)) for n in "wv")
    h = b.relu(b.dense(x, w, name="first"), name="hidden")
    return b.graph(b.softmax(b.dense(b.add(h, x, name="sum"), v, name="second")))


def test_what_products_read_is_rounded_to_bytes(rng) -> None:
    images = [np.float32([[-1, 0, 1, 3]]), np.float32([[1, 1, -2, 1]]), np.float32([[1, 3, 2, 0]])]
    net = graph.quantise(example(rng), images)
    scales = [n.attrs["scale"] for n in net.calls if n.op == "quantise"]
    text = lines(net)
    for k, scale in enumerate(scales):
        text = text.replace(str(scale), f"s{k}")
    assert scales[0] == np.float32(5 / 255)
    assert text == (
        "quantise_1 = quantise(x, scale=s0, zero=102)\n"
        "dequantise_1 = dequantise(quantise_1, scale=s0, zero=102)\n"
        'w_int8 = param("w.int8", int8[4, 4])\n'
        'w_scale = param("w.scale", float32[4])\n'
        "dequantise_2 = dequantise(w_int8, w_scale, axis=0)\n"
        "dense_1 = dense(dequantise_1, dequantise_2)\n"
        "relu_1 = relu(dense_1)\n"
        "quantise_2 = quantise(relu_1, scale=s1, zero=0)\n"
        "dequantise_3 = dequantise(quantise_2, scale=s1, zero=0)\n"
        "add_1 = add(dequantise_3, dequantise_1)\n"
        "quantise_3 = quantise(add_1, scale=s2, zero=57)\n"
        "dequantise_4 = dequantise(quantise_3, scale=s2, zero=57)\n"
        'v_int8 = param("v.int8", int8[4, 4])\n'
        'v_scale = param("v.scale", float32[4])\n'
        "dequantise_5 = dequantise(v_int8, v_scale, axis=0)\n"
        "dense_2 = dense(dequantise_4, dequantise_5)\n"
        "softmax_1 = softmax(dense_2)\n"
        "return softmax_1"
    )


def test_weights_have_a_scale_for_each_output_channel(rng) -> None:
    net = graph.quantise(example(rng), [rng.standard_normal((1, 4), np.float32)])
    before = example(np.random.default_rng(0)).params["w"]
    scales, codes = net.params["w.scale"], net.params["w.int8"]
    np.testing.assert_allclose(scales, abs(before).max(1) / 127, 1e-6)
    np.testing.assert_allclose(codes * scales[:, None], before, atol=scales.max() / 2)
    assert (abs(codes).max(1) == 127).all()


def test_concatenated_tensors_have_one_scale(rng) -> None:
    b = graph.Builder()
    x, y = b.input("x", (1, 2)), b.input("y", (1, 2))
    net = b.graph(b.dense(b.concatenate(x, y, axis=1), b.param("w", np.ones((1, 4), np.float32))))
    quantised = graph.quantise(net, [(np.float32([[0, 1]]), np.float32([[0, 255]]))])
    scales = [n.attrs["scale"] for n in quantised.calls if n.op == "quantise"]
    assert scales == [1.0, 1.0]


def test_digits_lose_little_and_each_tensor_has_its_error() -> None:
    images, labels = graph.networks.digit_images()
    net = graph.networks.digits(batch=60)
    calls = [images[k : k + 60] for k in range(0, 360, 60)]
    for method in ("minmax", "entropy"):
        quantised = graph.quantise(net, calls[:1], method=method)
        assert not [d for d in graph.explain(quantised).operators if d.why]
        module = graph.compile(quantised, CPU)
        right = sum(
            (module(x).argmax(1) == labels[60 * k :][:60]).sum() for k, x in enumerate(calls)
        )
        assert right >= 354  # 359 in float32
    error = graph.quantisation_error(net, quantised, calls[:1])
    assert [e.name for e in error.tensors][:2] == ["data", "conv1"]
    assert error.tensors[-1].name == "output"
    assert all(20 < e.decibels < 70 for e in error.tensors)
    assert str(error).split("\n")[0].startswith("data                      5")


def test_a_tensor_that_is_not_changed_has_a_large_ratio() -> None:
    b = graph.Builder()
    net = b.graph(b.dense(b.input("x", (1, 2)), b.param("w", np.float32([[127, 1]]))))
    x = np.float32([[0, 255]])
    (first, last) = graph.quantisation_error(net, graph.quantise(net, [x]), [x]).tensors
    assert min(first.decibels, last.decibels) > 100


def test_rare_large_values_are_clipped_by_entropy(rng) -> None:
    values = rng.normal(0, 1, (1, 20_000)).astype(np.float32)
    values[0, 0] = 40
    b = graph.Builder()
    net = b.graph(b.relu(b.input("x", values.shape)))
    (wide,) = calibrate.ranges(net, net.inputs, [values])
    (narrow,) = calibrate.ranges(net, net.inputs, [values], "entropy")
    assert wide.high == 40
    assert 2.5 <= narrow.high <= 6
    assert narrow.low == wide.low


def test_evenly_spread_values_are_not_clipped_by_entropy() -> None:
    assert calibrate.entropy_threshold(np.full(2048, 7), 128) == 1.0


@pytest.mark.parametrize(
    ("calls", "method", "error"),
    [
        ([], "minmax", "there are no images"),
        ([np.zeros((1, 4))], "mean", "no such method"),
        ([np.zeros((2, 4))], "minmax", r"is not float32\[1, 4\]"),
        ([np.full((1, 4), np.inf)], "minmax", "not finite"),
        (["x"], "minmax", "is not float32"),
        (3, "minmax", "not a sequence of inputs"),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(calls, method, error, rng) -> None:
    with np.errstate(all="ignore"), pytest.raises(GraphError, match=error):
        graph.quantise(example(rng), calls, method=method)
