"""The pass `integers`: what runs in integers, what it computes, and what stays float32."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.graph import passes

from . import random_images
from .random_images import CPU

NOT_QUANTISED = "its input is not quantised, with one scale, to bytes"


def integers(net: graph.Graph) -> graph.Graph:
    return passes.integers(passes.simplify(net))


def lines(net: graph.Graph) -> str:
    return "\n".join(line.split("  #")[0].strip() for line in str(net).split("\n")[1:])


def exact(net: graph.Graph, *inputs: np.ndarray) -> None:
    """Compiled code computes to the last bit what numpy does after the pass."""
    outputs = graph.compile(net, CPU)(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for x, y in zip(graph.evaluate(integers(net), *inputs), outputs, strict=True):
        np.testing.assert_array_equal(x, y)


def real(b: graph.Builder, shape: tuple[int, ...], name: str = "q", **scaling) -> graph.Node:
    """An input of bytes, dequantised."""
    return b.dequantise(b.input(name, shape, "uint8"), **{"scale": 0.1, "zero": 9, **scaling})


def weights(b: graph.Builder, shape: tuple[int, ...], rng: np.random.Generator) -> graph.Node:
    """Constant weights of int8, dequantised, with a scale for each output channel."""
    w = b.param("w", rng.integers(-127, 128, shape).astype(np.int8))
    scales = b.param("scales", rng.uniform(0.01, 0.02, shape[0]).astype(np.float32))
    return b.dequantise(w, scales, axis=0)


def test_a_convolution_is_summed_in_integers_and_quantised_again(rng) -> None:
    b = graph.Builder()
    y = b.conv2d(real(b, (1, 8, 6, 6)), weights(b, (16, 8, 3, 3), rng), padding=1)
    shift = b.param("shift", rng.standard_normal((16, 1, 1), np.float32))
    net = b.graph(b.quantise(b.relu(b.add(y, shift)), scale=0.5, zero=3))
    assert lines(integers(net)) == (
        'w = param("w", int8[16, 8, 3, 3])\n'
        'conv2d_1 = conv2d(q, w, padding=1, out_dtype="int32", pad_value=9)\n'
        'sums_bias = param("sums.bias", int32[16])\n'
        'sums_scale = param("sums.scale", float32[16])\n'
        "requantise_1 = requantise(conv2d_1, sums_bias, sums_scale, zero=3, low=3, high=255, "
        'dtype="uint8", axis=1)\n'
        "return requantise_1"
    )
    x = rng.integers(0, 256, (1, 8, 6, 6)).astype(np.uint8)
    (steps,), (wanted,) = graph.evaluate(integers(net), x), graph.evaluate(net, x)
    assert abs(steps.astype(int) - wanted).max() <= 1  # real numbers are rounded more often
    exact(net, x)


def test_a_bias_is_rounded_to_the_steps_of_the_sums(rng) -> None:
    b = graph.Builder()
    y = b.dense(
        real(b, (2, 8), scale=0.5, zero=0),
        weights(b, (4, 8), rng),
        b.param("bias", np.float32([1, 2, 3, 4])),
    )
    whole = integers(b.graph(b.quantise(y, scale=1.0)))
    scales = np.float32(0.5) * b.graph(y).params["scales"]
    np.testing.assert_array_equal(whole.params["sums.bias"], np.rint([1, 2, 3, 4] / scales))


def test_reshaped_and_transposed_weights_keep_their_scales(rng) -> None:
    b = graph.Builder()
    w = b.transpose(b.reshape(weights(b, (4, 8), rng), (1, 4, 8)), (2, 0, 1))
    y = b.matmul(real(b, (2, 8)), b.reshape(w, (8, 4)))
    net = b.graph(b.quantise(y, scale=0.5))
    assert 'dtype="uint8", axis=1)' in lines(integers(net))
    exact(net, rng.integers(0, 256, (2, 8)).astype(np.uint8))


def test_a_sum_of_two_quantised_tensors_keeps_its_limits(rng) -> None:
    b = graph.Builder()
    x, y = real(b, (2, 4)), real(b, (2, 4), "p", scale=0.2, zero=100)
    net = b.graph(b.quantise(b.clip(b.add(x, y), 0.0, 6.0), scale=0.1, zero=5))
    assert lines(integers(net)) == (
        "add_requantised_1 = add_requantised(q, p, ra=1.0, rb=2.0, rc=-204.0, low=5, high=65, "
        'dtype="uint8")\n'
        "return add_requantised_1"
    )
    exact(net, *(rng.integers(0, 256, (2, 4)).astype(np.uint8) for _ in "ab"))


def test_limits_after_limits_are_those_of_both(rng) -> None:
    b = graph.Builder()
    limited = b.clip(b.relu(b.add(real(b, (2, 4)), real(b, (2, 4), "p"))), -2.0, -1.0)
    net = b.graph(b.quantise(limited, scale=0.1, zero=100))
    assert "low=90, high=90" in lines(integers(net))
    x, y = (rng.integers(0, 256, (2, 4)).astype(np.uint8) for _ in "xy")
    assert (graph.evaluate(net, x, y)[0] == 90).all()
    exact(net, x, y)


@pytest.mark.parametrize("scale", [0.0, -0.5, float("inf")])
def test_scales_that_are_not_positive_numbers_stay_real(scale) -> None:
    b = graph.Builder()
    x = b.max_pool2d(real(b, (1, 1, 2, 2), scale=scale), 2)
    net = b.graph(x, b.quantise(b.relu(b.add(real(b, (2, 4), "p"), 1.0)), scale=scale))
    assert graph.explain(net).operators[0].why == NOT_QUANTISED
    assert [n.op for n in integers(net).calls].count("quantise") == 1


def test_operators_that_move_elements_move_bytes(rng) -> None:
    b = graph.Builder()
    x = b.relu(b.max_pool2d(real(b, (1, 4, 4, 4)), 2, 2))
    y = b.reshape(b.transpose(b.concatenate(x, x, axis=1), (0, 2, 3, 1)), (4, 8))
    net = b.graph(b.quantise(y, scale=0.1, zero=9))
    assert lines(integers(net)) == (
        "max_pool2d_1 = max_pool2d(q, kernel=2, strides=2)\n"
        "clip_1 = clip(max_pool2d_1, a_min=9, a_max=255)\n"
        "concatenate_1 = concatenate(clip_1, clip_1, axis=1)\n"
        "transpose_1 = transpose(concatenate_1, axes=(0, 2, 3, 1))\n"
        "reshape_1 = reshape(transpose_1, shape=(4, 8))\n"
        "return reshape_1"
    )
    exact(net, rng.integers(0, 256, (1, 4, 4, 4)).astype(np.uint8))


def test_sums_of_products_are_moved_before_they_are_quantised(rng) -> None:
    b = graph.Builder()
    y = b.matmul(real(b, (6, 8)), weights(b, (4, 8), rng), transpose_b=True)
    y = b.add(b.reshape(y, (2, 3, 4)), b.param("bias", np.float32([1, 2, 3, 4])))
    net = b.graph(b.quantise(b.transpose(y, (2, 0, 1)), scale=0.1, zero=5))
    assert [n.op for n in integers(net).calls] == ["matmul", "reshape", "transpose", "requantise"]
    exact(net, rng.integers(0, 256, (6, 8)).astype(np.uint8))


def test_what_is_read_as_real_numbers_is_dequantised(rng) -> None:
    b = graph.Builder()
    y = b.dense(real(b, (2, 8), zero=0), weights(b, (4, 8), rng))
    net = b.graph(b.quantise(y, scale=0.5), b.tanh(y))
    assert lines(integers(net)).split("\n")[1:] == [
        'dense_1 = dense(q, w, out_dtype="int32")',
        'sums_bias = param("sums.bias", int32[4])',
        'sums_scale = param("sums.scale", float32[4])',
        "requantise_1 = requantise(dense_1, sums_bias, sums_scale, zero=0, low=0, high=255, "
        'dtype="uint8", axis=1)',
        'codes_scale = param("codes.scale", float32[4])',
        'codes_zero = param("codes.zero", int32[4])',
        "dequantise_1 = dequantise(dense_1, codes_scale, codes_zero, axis=1)",
        "tanh_1 = tanh(dequantise_1)",
        "return requantise_1, tanh_1",
    ]


def test_explain_says_what_stays_float32_and_why(rng) -> None:
    b = graph.Builder()
    x = real(b, (2, 8))
    y = b.dense(x, weights(b, (4, 8), rng), name="fc")
    gated = b.sigmoid(y, name="gate")
    z = b.dense(gated, b.param("v", rng.random((4, 4), np.float32)), name="last")
    net = b.graph(b.quantise(b.relu(y), scale=1.0), b.add(z, z, name="twice"))
    assert str(graph.explain(net)) == (
        "fc                       dense                int8\n"
        "                         relu                 int8\n"
        "gate                     sigmoid              float32: sigmoid has no integer form\n"
        "last                     dense                float32: its input is not quantised, "
        "with one scale, to bytes\n"
        "twice                    add                  float32: its inputs are not both "
        "quantised, with one scale each, to bytes"
    )


@pytest.mark.parametrize(
    ("scaling", "shape", "why"),
    [
        ({"zero": -128}, (8, 8), "its weights without their zero point do not fit in int8"),
        ({}, (8, 70_000), "it adds 70,000 products; int32 holds sums of 66,000"),
    ],
)
def test_explain_says_why_weights_do_not_fit(scaling, shape, why) -> None:
    b = graph.Builder()
    w = b.dequantise(b.param("w", np.full(shape, 1, np.int8)), scale=0.1, **scaling)
    net = b.graph(b.dense(real(b, (1, shape[1])), w))
    assert graph.explain(net).operators[0].why == why


def test_a_bias_with_steps_of_its_own_is_rounded_to_those_of_the_sums(rng) -> None:
    b = graph.Builder()
    bias = b.dequantise(b.param("bias", np.int32([10, -20, 30, -40])), scale=0.25)
    w = b.dequantise(b.param("w", np.ones((4, 8), np.int8)), scale=1.0)
    net = b.graph(b.quantise(b.dense(real(b, (1, 8), scale=0.5, zero=0), w, bias), scale=1.0))
    np.testing.assert_array_equal(integers(net).params["sums.bias"], [5, -10, 15, -20])


@pytest.mark.parametrize("seed", range(4))
def test_random_networks_are_computed_as_by_numpy_in_float32_and_int8(seed) -> None:
    random_images.check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 60))
def test_more_random_networks(seed) -> None:
    random_images.check(seed)
