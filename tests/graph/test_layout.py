"""Layouts are assigned to a whole network; what it computes stays."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph
from minitvm.graph import networks, passes

TARGET = tvm.Target("llvm")


def assigned(net: graph.Graph) -> graph.Graph:
    return passes.fold_constants(passes.simplify(passes.assign_layouts(net, TARGET)))


def calls(net: graph.Graph) -> list[str]:
    """The lines of the nodes that are computed."""
    return [
        line.split("  #")[0].strip()
        for line in str(net).split("\n")
        if "(" in line and "param(" not in line and not line.startswith("def")
    ]


def float32(b: graph.Builder, name: str, *shape: int) -> graph.Node:
    values = np.random.default_rng(len(name)).standard_normal(shape, np.float32)
    return b.param(name, values)


def check_equal(net: graph.Graph, changed: graph.Graph, rng: np.random.Generator) -> None:
    inputs = [rng.random(n.type.shape, np.float32) for n in net.inputs]
    for x, y in zip(graph.evaluate(net, *inputs), graph.evaluate(changed, *inputs), strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-5)


def test_a_chain_of_convolutions_is_transposed_once(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (1, 16, 14, 14))
    y = b.relu(
        b.add(b.conv2d(x, float32(b, "w", 32, 16, 3, 3), padding=1), float32(b, "s", 32, 1, 1))
    )
    y = b.max_pool2d(b.conv2d(y, float32(b, "v", 32, 32, 1, 1)), 2)
    net = b.graph(b.mean(y, axis=(2, 3)))
    found = assigned(net)
    assert calls(found) == [
        "transpose_1 = transpose(x, axes=(0, 2, 3, 1))",
        'conv2d_1 = conv2d(transpose_1, w_transpose, padding=1, layout="NHWC")',
        "add_1 = add(conv2d_1, s_reshape)",
        "relu_1 = relu(add_1)",
        'conv2d_2 = conv2d(relu_1, v_transpose, layout="NHWC")',
        'max_pool2d_1 = max_pool2d(conv2d_2, kernel=2, layout="NHWC")',
        "mean_1 = mean(max_pool2d_1, axis=(1, 2))",
    ]
    check_equal(net, found, rng)


def test_dimensions_are_renamed_in_every_attribute(rng) -> None:
    b = graph.Builder()
    x = b.conv2d(b.input("x", (1, 16, 12, 12)), float32(b, "w", 32, 16, 3, 3))
    y = b.pad(x, (0, 0, 1, 2), (0, 0, 3, 4))
    y = b.strided_slice(y, (0, 4, 0, 1), (1, 20, 13, 9))
    y = b.concatenate(y, b.exp(y), axis=1)
    y = b.softmax(y, axis=-3)
    y = b.batch_norm(
        y,
        *(float32(b, n, 32) for n in ("gamma", "b")),
        b.param("m", np.ones(32, "f4")),
        b.param("v", np.ones(32, "f4")),
    )
    net = b.graph(b.mean(b.conv2d(y, float32(b, "u", 64, 32, 3, 3)), axis=(2, 3)))
    found = assigned(net)
    text = "\n".join(calls(found))
    assert text.count("transpose(") == 1
    for part in (
        "pad_before=(0, 1, 2, 0), pad_after=(0, 3, 4, 0)",
        "begin=(0, 0, 1, 4), end=(1, 13, 9, 20)",
        "axis=3",
    ):
        assert part in text
    check_equal(net, found, rng)


def test_inputs_and_outputs_keep_their_layout(rng) -> None:
    b = graph.Builder()
    x, z = b.input("x", (1, 32, 14, 14)), b.input("z", (1, 32, 14, 14))
    y = b.conv2d(x, float32(b, "w", 128, 32, 3, 3), padding=1)
    y = b.conv2d(y, float32(b, "wide", 32, 128, 3, 3), padding=1)
    net = b.graph(b.relu(b.add(y, z)), b.sum(y, axis=(1, 2)))
    found = assigned(net)
    assert [n.type for n in found.outputs] == [n.type for n in net.outputs]
    assert 'layout="NHWC"' in str(found)
    check_equal(net, found, rng)


def test_weights_that_are_computed_keep_their_layout(rng) -> None:
    b = graph.Builder()
    x, w = b.input("x", (1, 64, 28, 28)), b.input("w", (64, 64, 3, 3))
    y = b.conv2d(b.conv2d(x, b.multiply(w, 0.5), padding=1), w, padding=1)
    net = b.graph(b.mean(y, axis=(2, 3)))
    found = assigned(net)
    assert 'layout="NHWC"' in str(found)
    check_equal(net, found, rng)


def test_a_network_without_images_stays() -> None:
    net = networks.bert(layers=1, hidden=32, heads=4, length=8)
    assert passes.assign_layouts(net, TARGET) is net


def test_a_small_convolution_between_fixed_operators_is_not_worth_two_transposes(rng) -> None:
    b = graph.Builder()
    x = b.reshape(b.input("x", (1, 64 * 56 * 56)), (1, 64, 56, 56))
    y = b.conv2d(x, float32(b, "w", 64, 1, 1, 1), groups=64)
    net = b.graph(b.reshape(y, (1, y.type.elements)))
    assert passes.assign_layouts(net, TARGET) is net


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet"])
def test_a_network_for_images_is_transposed_once(name, rng) -> None:
    options = {} if name == "squeezenet" else {"width": 0.25}
    net = passes.fold_batch_norm(getattr(networks, name)(size=64, classes=10, **options))
    found = assigned(net)
    assert str(found).count(" transpose(") == 1
    check_equal(net, found, rng)
