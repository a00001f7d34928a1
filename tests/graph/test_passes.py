"""Each pass: a network before, the network after, and both compute the same."""

from collections.abc import Callable

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError
from minitvm.graph import passes

BN = ("gamma", "beta", "mean", "variance")
ONES = [np.ones(3, np.float32)] * 2


def after(change: Callable, net: graph.Graph, rng: np.random.Generator) -> str:
    """The lines of the network after the pass, which computes what it did before."""
    changed = change(net)
    inputs = [rng.random(n.type.shape, np.float32) for n in net.inputs]
    for x, y in zip(graph.evaluate(net, *inputs), graph.evaluate(changed, *inputs), strict=True):
        np.testing.assert_allclose(x, y, 1e-5, 1e-5)
    assert graph.parse(str(changed)) == changed
    return "\n".join(line.split("  #")[0].strip() for line in str(changed).split("\n")[1:])


def test_operators_that_change_nothing_are_removed(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (1, 3, 4, 4))
    y = b.transpose(b.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2))
    y = b.reshape(b.reshape(b.identity(y), (1, 48)), (1, 3, 4, 4))
    y = b.multiply(b.add(b.concatenate(y), 0.0), 1.0)
    y = b.pad(b.strided_slice(y, (0, 0, 0, 0), (1, 3, 4, 4)), (0, 0, 0, 0))
    assert after(passes.simplify, b.graph(b.relu(b.relu(y))), rng) == (
        "relu_1 = relu(x)\nreturn relu_1"
    )


def test_two_transposes_become_one_and_one_of_a_line_a_reshape(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (2, 3, 4, 5))
    y = b.transpose(b.transpose(x, (0, 2, 3, 1)), (0, 1, 3, 2))
    z = b.transpose(b.input("z", (1, 8, 1, 1)), (0, 2, 3, 1))
    assert after(passes.simplify, b.graph(y, z), rng) == (
        "transpose_1 = transpose(x, axes=(0, 2, 1, 3))\n"
        "reshape_1 = reshape(z, shape=(1, 1, 1, 8))\n"
        "return transpose_1, reshape_1"
    )


LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # the axes of transposes to channels last, and to first


def test_transposes_meet_behind_operators_on_images(rng) -> None:
    b = graph.Builder()
    x, c = b.input("x", (1, 3, 4, 5)), b.param("c", rng.random(3, np.float32))
    y = b.relu(b.add(b.transpose(x, LAST), c))
    z = b.add(b.transpose(b.tanh(b.transpose(y, FIRST)), LAST), y)
    assert after(passes.simplify, b.graph(b.mean(z, axis=(1, 2))), rng) == (
        'c = param("c", float32[3])\n'
        "reshape_1 = reshape(c, shape=(1, 3, 1, 1))\n"
        "add_1 = add(x, reshape_1)\n"
        "relu_1 = relu(add_1)\n"
        "tanh_1 = tanh(relu_1)\n"
        "add_2 = add(tanh_1, relu_1)\n"
        "mean_1 = mean(add_2, axis=(2, 3))\n"
        "return mean_1"
    )


def test_transposes_of_parts_become_one_of_the_whole(rng) -> None:
    b = graph.Builder()
    parts = [b.transpose(b.input(name, (1, n, 4, 5)), LAST) for name, n in (("x", 2), ("y", 3))]
    y = b.pad(b.concatenate(*parts, axis=3), (0, 1, 0, 0))
    z = b.strided_slice(y, (0, 1, 0, 0), (1, 5, 5, 4))
    assert after(passes.simplify, b.graph(z), rng) == (
        "concatenate_1 = concatenate(x, y, axis=1)\n"
        "pad_1 = pad(concatenate_1, pad_before=(0, 0, 1, 0))\n"
        "strided_slice_1 = strided_slice(pad_1, begin=(0, 0, 1, 0), end=(1, 4, 5, 5))\n"
        "transpose_1 = transpose(strided_slice_1, axes=(0, 2, 3, 1))\n"
        "return transpose_1"
    )


@pytest.mark.parametrize("op", ["softmax", "layer_norm"])
def test_an_operator_along_the_last_dimension_keeps_it_last(op: str) -> None:
    b = graph.Builder()
    x = b.transpose(b.input("x", (1, 3, 4, 5)), LAST)
    net = b.graph(b.softmax(x) if op == "softmax" else b.layer_norm(x, *map(b.param, "gb", ONES)))
    assert passes.simplify(net) is net


def test_a_transpose_that_others_read_is_not_done_twice() -> None:
    b = graph.Builder()
    x = b.transpose(b.input("x", (1, 3, 4, 5)), LAST)
    nets = b.graph(b.relu(x), b.softmax(x)), b.graph(b.relu(x), x)
    assert [passes.simplify(net) for net in nets] == list(nets)


def test_a_cast_a_pad_and_a_slice_that_do_something_stay(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (4, 4))
    net = b.graph(
        b.cast(x, "int32"), b.pad(x, (1, 0)), b.strided_slice(x, (3, 0), (-5, 4), (-1, 1))
    )
    assert passes.simplify(net) is net


def test_what_depends_on_parameters_alone_is_computed(rng) -> None:
    b = graph.Builder()
    w = b.param("w", rng.random((3, 8), np.float32))
    net = b.graph(b.matmul(b.input("x", (2, 8)), b.multiply(b.transpose(w, (1, 0)), 0.5)))
    assert after(passes.fold_constants, net, rng) == (
        'w_transpose_multiply = param("w.transpose.multiply", float32[8, 3])\n'
        "matmul_1 = matmul(x, w_transpose_multiply)\n"
        "return matmul_1"
    )
    assert list(passes.fold_constants(net).params) == ["w.transpose.multiply"]


def test_parameters_without_values_are_not_computed() -> None:
    b = graph.Builder()
    net = b.graph(b.relu(b.unknown("w", (3, 8))))
    assert passes.fold_constants(net) == net


def test_equal_nodes_are_computed_once(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (4, 4))
    net = b.graph(b.add(b.relu(b.exp(x)), b.relu(b.exp(x))))
    assert after(passes.merge_same, net, rng) == (
        "exp_1 = exp(x)\nrelu_1 = relu(exp_1)\nadd_1 = add(relu_1, relu_1)\nreturn add_1"
    )


def normalised(b: graph.Builder, x: graph.Node, rng: np.random.Generator) -> graph.Node:
    channels = x.type.shape[1]
    return b.batch_norm(x, *(b.param(n, rng.random(channels) + np.float32(0.5)) for n in BN))


def float32(b: graph.Builder, name: str, shape: tuple[int, ...], rng: np.random.Generator):
    return b.param(name, rng.random(shape, np.float32))


def test_batch_normalisation_goes_into_the_weights(rng) -> None:
    b = graph.Builder()
    x = b.conv2d(b.input("x", (1, 3, 6, 6)), float32(b, "w", (8, 3, 3, 3), rng))
    vectors = [b.param(n, rng.random(8, np.float32) + np.float32(0.5)) for n in BN]
    net = b.graph(b.relu(b.batch_norm(x, *vectors)))
    assert after(passes.fold_batch_norm, net, rng) == (
        'w2 = param("w2", float32[8, 3, 3, 3])\n'
        "conv2d_1 = conv2d(x, w2)\n"
        'gamma_shift = param("gamma.shift", float32[8, 1, 1])\n'
        "add_1 = add(conv2d_1, gamma_shift)\n"
        "relu_1 = relu(add_1)\n"
        "return relu_1"
    )


def test_a_folded_batch_normalisation_has_the_default_epsilon(rng) -> None:
    b = graph.Builder()
    x = b.conv2d(b.input("x", (1, 3, 6, 6)), float32(b, "w", (8, 3, 3, 3), rng))
    vectors = {n: np.full(8, 1.0, np.float32) for n in BN} | {BN[3]: np.full(8, 1e-6, np.float32)}
    net = b.graph(b.batch_norm(x, *(b.param(n, v) for n, v in vectors.items())))
    after(passes.fold_batch_norm, net, rng)  # compares what both compute


def test_a_convolution_that_others_read_keeps_its_weights(rng) -> None:
    b = graph.Builder()
    x = b.conv2d(b.input("x", (1, 3, 6, 6)), float32(b, "w", (8, 3, 3, 3), rng))
    vectors = [b.param(n, rng.random(8, np.float32) + np.float32(0.5)) for n in BN]
    text = after(passes.fold_batch_norm, b.graph(b.batch_norm(x, *vectors), x), rng)
    assert "conv2d_1 = conv2d(x, w)\n" in text
    assert "multiply_1 = multiply(conv2d_1, gamma_scale)\n" in text


def test_convolutions_of_one_input_become_one(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (1, 4, 5, 5))
    branches = []
    for k, channels in enumerate((8, 16, 8)):
        y = b.conv2d(x, float32(b, f"w{k}", (channels, 4, 1, 1), rng))
        y = b.add(y, float32(b, f"b{k}", (channels, 1, 1), rng))
        branches.append(b.relu(y))
    assert after(passes.merge_parallel, b.graph(b.concatenate(*branches, axis=1)), rng) == (
        'w0_concatenate = param("w0.concatenate", float32[32, 4, 1, 1])\n'
        "conv2d_1 = conv2d(x, w0_concatenate)\n"
        'b0_concatenate = param("b0.concatenate", float32[32, 1, 1])\n'
        "add_1 = add(conv2d_1, b0_concatenate)\n"
        "relu_1 = relu(add_1)\n"
        "strided_slice_1 = strided_slice(relu_1, begin=(0, 0, 0, 0), end=(1, 8, 5, 5))\n"
        "strided_slice_2 = strided_slice(relu_1, begin=(0, 8, 0, 0), end=(1, 24, 5, 5))\n"
        "strided_slice_3 = strided_slice(relu_1, begin=(0, 24, 0, 0), end=(1, 32, 5, 5))\n"
        "concatenate_1 = concatenate(strided_slice_1, strided_slice_2, strided_slice_3, axis=1)\n"
        "return concatenate_1"
    )


def test_dense_layers_of_one_input_become_one_and_chains_that_differ_stop(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (6, 16))
    q, k, v = (
        b.dense(x, float32(b, f"w{n}", (8, 16), rng), float32(b, f"b{n}", (8,), rng)) for n in "qkv"
    )
    text = after(passes.merge_parallel, b.graph(b.relu(q), b.relu(k), b.exp(v)), rng)
    assert text.count("dense(") == 1
    assert text.count("relu(") == 2


@pytest.mark.parametrize("groups", [(1, 1, 2), (2, 2, 2)])
def test_grouped_convolutions_are_not_joined(groups, rng) -> None:
    b = graph.Builder()
    x = b.input("x", (1, 4, 5, 5))
    net = b.graph(
        *(
            b.conv2d(x, float32(b, f"w{k}", (8, 4 // g, 1, 1), rng), groups=g)
            for k, g in enumerate(groups)
        )
    )
    assert str(passes.merge_parallel(net)) == str(net)


@pytest.mark.parametrize("rows", [1, 5])
def test_weights_are_stored_in_int8(rows: int, rng) -> None:
    w, bias = rng.standard_normal((16, 64), np.float32), rng.standard_normal(16, np.float32)
    w[3] = 0
    b = graph.Builder()
    y = b.dense(b.input("x", (rows, 64)), b.param("w", w), b.param("bias", bias))
    net = b.graph(b.dense(y, b.param("v", w[:, :16])))  # rows of 16 are no groups of 32
    changed = graph.int8_weights(net)
    assert [node.op for node in changed.calls] == ["dense_int8", "add", "dense"]
    assert changed.params["w.int8"].dtype == np.int8
    assert changed.params["w.scales"].shape == (16, 2)
    assert "w" not in changed.params
    x = rng.standard_normal((rows, 64), np.float32)
    (exact,), (rounded,) = graph.evaluate(net, x), graph.evaluate(changed, x)
    assert 0 < np.abs(exact - rounded).max() < 0.02 * np.abs(exact).max()
    np.testing.assert_allclose(graph.compile(changed)(x), rounded, 1e-5, 1e-4)


def test_groups_of_no_weights_are_refused() -> None:
    b = graph.Builder()
    with pytest.raises(GraphError, match="it must be at least 1"):
        graph.int8_weights(b.graph(b.relu(b.input("x", (1, 2)))), group=0)


# --- TensorRT's optimisations --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off", "kernels"),
    [
        ((), 11),
        (("fuse",), 25),
        (("merge_parallel",), 13),
        (("assign_layouts", "choose_formulas", "merge_attention"), 13),
    ],
)
def test_each_optimisation_changes_the_kernels_of_bert_and_no_result(off, kernels, rng) -> None:
    net = graph.networks.bert(layers=1, hidden=64, heads=2, length=8)
    x = rng.standard_normal((8, 64)).astype("float32")
    on = tuple(each for each in graph.PASSES if each[0] not in off)
    made = graph.optimized(net, "llvm", passes=on)
    assert len(made.calls) == kernels
    np.testing.assert_allclose(graph.evaluate(made, x)[0], graph.evaluate(net, x)[0], atol=1e-5)


def test_weights_in_int8_change_the_kernels_of_bert_and_hardly_a_result(rng) -> None:
    net = graph.networks.bert(layers=1, hidden=64, heads=2, length=8)
    x = rng.standard_normal((8, 64)).astype("float32")
    made = graph.optimized(graph.int8_weights(net), "llvm")
    assert len(made.calls) == 13
    assert "dense_int8" in str(made)
    np.testing.assert_allclose(graph.evaluate(made, x)[0], graph.evaluate(net, x)[0], atol=0.05)
