"""Models of Keras, as it stores them, become networks that compute the same."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError


def layer(kind: str, name: str, *sources: str, **config: Any) -> dict[str, Any]:
    """A layer as Keras 2 stores it: sources are [name, node, tensor, {}]."""
    uses = [[[s, 0, 0, {}] for s in sources]] if sources else []
    return {"class_name": kind, "name": name, "config": {"name": name, **config}} | {
        "inbound_nodes": uses
    }


def layer3(kind: str, name: str, *sources: str, **config: Any) -> dict[str, Any]:
    """A layer as Keras 3 stores it."""
    tensors = [
        {"class_name": "__keras_tensor__", "config": {"keras_history": [s, 0, 0]}} for s in sources
    ]
    args = tensors if len(sources) == 1 else [tensors]
    uses = [{"args": args, "kwargs": {}}] if sources else []
    return layer(kind, name, **config) | {"inbound_nodes": uses}


def model(kind: str, layers: list[Any], weights: list[Any], **config: Any) -> Any:
    whole = {"class_name": kind, "config": {"name": "net", "layers": layers, **config}}
    return SimpleNamespace(
        to_json=lambda: json.dumps(whole),
        get_weights=lambda: [np.asarray(w, "float32") for w in weights],
    )


def computed(given: Any, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    net, params = graph.frontend.from_keras(given)
    assert not net.params
    return graph.evaluate(net.with_params(params), *inputs)


CONV = {"kernel_size": [3, 3], "strides": [2, 2], "dilation_rate": [1, 1], "padding": "same"}


def naive(x: np.ndarray, w: np.ndarray, before: int, stride: int) -> np.ndarray:
    """A convolution of x [1, H, W, C] by [3, 3, C, O], whose odd row of padding is the last one."""
    _, high, wide, _ = x.shape
    out = np.zeros((1, -(-high // stride), -(-wide // stride), w.shape[3]))
    for y, c, ky, kx in np.ndindex(*out.shape[1:3], 3, 3):
        i, j = y * stride + ky - before, c * stride + kx - before
        if 0 <= i < high and 0 <= j < wide:
            out[0, y, c] += x[0, i, j] @ w[ky, kx]
    return out


def test_a_sequential_model(rng) -> None:
    x, w, bias = rng.random((1, 6, 6, 2)), rng.random((3, 3, 2, 4)), rng.random(4)
    v = rng.random((36, 5))
    layers = [
        layer("InputLayer", "data", batch_shape=[None, 6, 6, 2]),
        layer("Conv2D", "conv", **CONV, activation="relu"),
        layer("Dropout", "drop", rate=0.5),
        layer("Flatten", "flat"),
        layer("Dense", "fc", use_bias=False, activation="linear"),
        layer("Softmax", "soft", axis=-1),
    ]
    (y,) = computed(model("Sequential", layers, [w, bias, v]), x)
    rows = np.maximum(naive(x, w, 0, 2) + bias, 0).reshape(1, 36) @ v
    e = np.exp(rows - rows.max())
    np.testing.assert_allclose(y, e / e.sum(), 1e-5)


@pytest.mark.parametrize("make", [layer, layer3], ids=["keras2", "keras3"])
def test_a_functional_model(make, rng) -> None:
    x, w = rng.random((1, 5, 4, 3)), rng.random((3, 3, 3, 2))
    vectors = [rng.random(6) + 0.5 for _ in range(4)]
    layers = [
        make("InputLayer", "image", batch_input_shape=[None, 5, 4, 3]),
        make("DepthwiseConv2D", "deep", "image", **CONV | {"strides": [1, 1]}, use_bias=False),
        make("BatchNormalization", "bn", "deep", axis=[3], epsilon=0.01),
        make("ReLU", "relu", "bn", max_value=6.0),
        make("ZeroPadding2D", "pad", "image", padding=[[0, 0], [0, 0]]),
        make("Concatenate", "join", "relu", "pad", axis=-1),
        make("Add", "sum", "relu", "bn"),
        make("GlobalAveragePooling2D", "mean", "join"),
    ]
    given = model(
        "Functional", layers, [w, *vectors], output_layers=[["mean", 0, 0], ["sum", 0, 0]]
    )
    mean, total = computed(given, x)
    alone = [np.zeros((3, 3, 3, 2)) for _ in range(3)]  # kernels [3, 3, C, M] of one channel each
    for c in range(3):
        alone[c][:, :, c] = w[:, :, c]
    deep = np.concatenate([naive(x, k, 1, 1) for k in alone], axis=3)
    gamma, beta, average, variance = vectors
    bn = (deep - average) / np.sqrt(variance + 0.01) * gamma + beta
    relu = np.clip(bn, 0, 6)
    np.testing.assert_allclose(total, relu + bn, 1e-4)
    np.testing.assert_allclose(mean, np.concatenate([relu, x], 3).mean((1, 2)), 1e-4)


@pytest.mark.parametrize("kind", ["MaxPooling2D", "AveragePooling2D"])
def test_windows_at_the_edge_have_only_the_pixels_inside(kind: str, rng) -> None:
    x = rng.random((1, 5, 5, 1), np.float32)
    options = {"pool_size": [2, 2], "strides": [2, 2], "padding": "same"}
    layers = [
        layer("InputLayer", "x", batch_shape=[1, 5, 5, 1]),
        layer(kind, "pool", **options),
        layer("Activation", "out", activation="linear"),
    ]
    (y,) = computed(model("Sequential", layers, []), x)
    fold = np.max if kind == "MaxPooling2D" else np.mean
    wanted = [[fold(x[0, i : i + 2, j : j + 2]) for j in (0, 2, 4)] for i in (0, 2, 4)]
    np.testing.assert_allclose(y[0, :, :, 0], wanted, 1e-6)


def test_a_compiled_model_reads_images_with_channels_last(rng) -> None:
    x, w = rng.random((2, 6, 6, 8), np.float32), rng.random((3, 3, 8, 8), np.float32)
    layers = [
        layer("Conv2D", "conv", **CONV, use_bias=False, batch_input_shape=[None, 6, 6, 8]),
        layer("Activation", "act", activation="tanh"),
    ]
    net, params = graph.frontend.from_keras(model("Sequential", layers, [w]), batch=2)
    assert [(n.name, n.type.shape) for n in net.inputs] == [("data", (2, 6, 6, 8))]
    module = graph.compile(net, params=params)
    wanted = np.tanh(np.concatenate([naive(each[None], w, 0, 2) for each in x]))
    np.testing.assert_allclose(module(x), wanted, 1e-5)


START = layer("InputLayer", "x", batch_shape=[None, 4])
IMAGE = layer("InputLayer", "x", batch_shape=[None, 4, 4, 1])


@pytest.mark.parametrize(
    ("layers", "weights", "words"),
    [
        ([START, layer("LSTM", "rnn")], [], r"layer 'rnn' \(LSTM\): graphs do not read this kind"),
        ([START, layer("Activation", "a", activation="elu")], [], "activation 'elu'"),
        ([START, layer("Dense", "fc")], [], "the model has no weight for its kernel"),
        ([START, layer("Dense", "fc")], [np.ones((3, 2)), np.ones(2)], "dense of"),
        ([START, layer("Dense", "fc")], [np.ones(3)], "its kernel has 1 dimensions, not 2"),
        ([START], [np.ones(3)], "1 weights belong to no layer"),
        ([IMAGE, layer("Dense", "fc")], [np.ones((1, 2))], "not a matrix"),
        ([IMAGE, layer("Conv2D", "c")], [np.ones((1, 1, 1, 1))], "its options are not those"),
        ([IMAGE, layer("Flatten", "f", data_format="channels_first")], [], "channels are not last"),
        ([IMAGE, layer("ReLU", "r", threshold=1.0)], [], "a threshold"),
        ([layer("InputLayer", "x", batch_shape=[None, None])], [], "the shape of its input is"),
        ([layer("Flatten", "f")], [], "the shape of its input is None"),
        ([START, layer("Dropout", "d") | {"inbound_nodes": [[], []]}], [], "used more than once"),
        ([], [], "no layers"),
    ],
)
def test_other_models_are_refused(layers, weights, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        graph.frontend.from_keras(model("Sequential", layers, weights))


def test_references_to_no_layer_are_refused() -> None:
    net = model("Functional", [START, layer("Dropout", "d", "z")], [], output_layers=[["d", 0, 0]])
    with pytest.raises(GraphError, match="it reads 'z'"):
        graph.frontend.from_keras(net)
    net = model("Functional", [START], [], output_layers=[["y", 0, 0]])
    with pytest.raises(GraphError, match="no layer computes the output"):
        graph.frontend.from_keras(net)


@pytest.mark.parametrize("what", [None, "model.h5", SimpleNamespace(to_json=lambda: "{")])
def test_what_is_no_model_is_refused(what) -> None:
    with pytest.raises(GraphError, match="it is not a Keras model"):
        graph.frontend.from_keras(what)
    with pytest.raises(GraphError, match="class 'Custom'"):
        graph.frontend.from_keras(model("Custom", [], []))


FILES = Path(graph.networks.__file__).parent


def stored() -> graph.Graph:
    """The trained model of benchmarks/train_keras.py, from Keras's files."""
    with np.load(FILES / "keras.npz") as weights:
        values = list(weights.values())
    to_json = (FILES / "keras.json").read_text
    net, params = graph.frontend.from_keras(
        SimpleNamespace(to_json=to_json, get_weights=lambda: values)
    )
    return net.with_params(params)


def test_a_model_that_keras_has_stored_reads_digits() -> None:
    images, digits = graph.networks.digit_images()
    net = stored()
    scores = [graph.evaluate(net, x[None].transpose(0, 2, 3, 1))[0] for x in images[:60]]
    assert sum(int(s.argmax()) == d for s, d in zip(scores, digits, strict=False)) == 59


def test_what_keras_exports_to_onnx_computes_the_same_in_as_many_kernels() -> None:
    pytest.importorskip("onnx")
    nets = stored(), graph.from_onnx(FILES / "keras.onnx")
    image = graph.networks.digit_images()[0][0][None].transpose(0, 2, 3, 1)
    scores = [graph.evaluate(net, image)[0] for net in nets]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-6)
    before, after = (graph.counts(net) for net in (nets[1], graph.optimized(nets[1])))
    assert (before.transposes, after.transposes) == (6, 0)
    assert after.kernels == graph.counts(graph.optimized(nets[0])).kernels
