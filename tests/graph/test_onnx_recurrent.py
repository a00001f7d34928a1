"""from_onnx of LSTM, GRU and RNN: directions, lengths, layouts, and what is refused."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
T, B, N, H = 5, 3, 6, 8
X = np.random.default_rng(1).standard_normal((T, B, N), np.float32)


def network(op: str, *, lengths: object = None, x: np.ndarray = X, **attrs) -> graph.Graph:
    """Return a layer x -> Y, Y_h (and Y_c) with random weights, the same in each call."""
    rng, wide = np.random.default_rng(0), GATES[op] * H
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    shapes = {"W": (wide, N), "R": (wide, H), "B": (2 * wide,)}
    stored = {k: rng.standard_normal((2, *s), np.float32)[:directions] for k, s in shapes.items()}
    if lengths is not None:
        stored["lengths"] = np.array(lengths, "int32")
    names = ["x", "W", "R", "B", "lengths" if lengths is not None else ""]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, name="layer", hidden_size=H, **attrs)
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    tensors = [numpy_helper.from_array(a, n) for n, a in stored.items()]
    draft = helper.make_graph([node], "net", [given], types, tensors)
    model = helper.make_model(draft, opset_imports=[helper.make_opsetid("", 22)])
    return graph.from_onnx(model.SerializeToString())


def run(op: str, x: np.ndarray = X, **options) -> tuple[np.ndarray, ...]:
    return graph.evaluate(network(op, x=x, **options), x)


@pytest.mark.parametrize("op", GATES)
def test_a_reverse_layer_is_a_forward_layer_of_the_reversed_input(op: str) -> None:
    y, *last = run(op, direction="reverse")
    z, *other = run(op, x=X[::-1].copy())
    np.testing.assert_allclose(y, z[::-1], 1e-6)
    np.testing.assert_allclose(last, other, 1e-6)


@pytest.mark.parametrize("op", GATES)
def test_the_first_direction_of_two_is_that_of_a_forward_layer(op: str) -> None:
    y, hidden, *_ = run(op, direction="bidirectional")
    z, other, *_ = run(op)
    assert y.shape == (T, 2, B, H)
    np.testing.assert_allclose(y[:, :1], z, 1e-6)
    np.testing.assert_allclose(hidden[:1], other, 1e-6)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("op", GATES)
def test_a_sequence_that_ends_early_is_one_of_its_length(op: str, direction: str) -> None:
    y, *last = run(op, lengths=[2, T, 4], direction=direction)
    for b, n in enumerate((2, T, 4)):
        z, *other = run(op, x=X[:n], direction=direction)
        np.testing.assert_allclose(y[:n, :, b], z[:, :, b], 1e-6)
        assert not y[n:, :, b].any()
        np.testing.assert_allclose([v[:, b] for v in last], [v[:, b] for v in other], 1e-6)


@pytest.mark.parametrize("op", GATES)
def test_the_batch_may_be_the_first_dimension(op: str) -> None:
    y, *last = run(op, x=X.transpose(1, 0, 2).copy(), layout=1, direction="bidirectional")
    z, *other = run(op, direction="bidirectional")
    np.testing.assert_allclose(y, z.transpose(2, 0, 1, 3), 1e-6)
    np.testing.assert_allclose(last, [v.transpose(1, 0, 2) for v in other], 1e-6)


def test_the_number_of_kernels_does_not_depend_on_the_length() -> None:
    def kernels(steps: int) -> list[str]:
        x = np.zeros((steps, 1, N), np.float32)
        return [node.body.name for node in graph.optimized(network("LSTM", x=x)).calls]

    assert kernels(1000) == kernels(2)
    assert kernels(1000).count("lstm") == 1


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "sigmoid, relu, tanh are not sigmoid, tanh"),
        ({"input_forget": 1}, "its attribute input_forget=1 is not supported, only 0"),
    ],
)
def test_a_layer_of_another_kind_is_refused(attrs: dict[str, object], why: str) -> None:
    with pytest.raises(GraphError) as caught:
        network("LSTM", **attrs)
    assert "node 'layer' (LSTM)" in str(caught.value)
    assert why in str(caught.value)
