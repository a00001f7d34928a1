"""Networks in bfloat16: stored in two bytes, computed in float32."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import graph

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
nn = torch.nn


class Normalised(nn.Module):
    """RMSNorm as language models write it: it computes in float32 and converts the result."""

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "dense": (lambda: nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 16)), (4, 64)),
    "image": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        (1, 3, 9, 9),
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (1, 5, 32)),
    "conversion": (Normalised, (4, 64)),
}


def in_torch(name: str) -> tuple[Any, Any, np.ndarray]:
    """A module in bfloat16, its input, and what it would compute in float64."""
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module, x = make().eval().bfloat16(), torch.randn(shape).bfloat16()
    with torch.no_grad():
        exact = make().eval().double()
        exact.load_state_dict(module.state_dict())
        return module, x, exact(x.double()).numpy()


def array(x: Any) -> np.ndarray:
    """The same bits as an array."""
    return x.view(torch.int16).numpy().view("bfloat16")


@pytest.mark.parametrize("reader", ["torch", "onnx"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_at_least_as_exact_as_in_torch(name: str, reader: str) -> None:
    module, x, exact = in_torch(name)
    if reader == "torch":
        net = graph.from_torch(module, (x,))
    else:
        pytest.importorskip("onnxscript")
        file = io.BytesIO()
        torch.onnx.export(module, (x,), file, dynamo=True, verbose=False)
        net = graph.from_onnx(file.getvalue())
    y = graph.compile(net, "llvm -num-cores=1")(array(x))
    assert str(y.dtype) == "bfloat16"
    with torch.no_grad():
        theirs = np.abs(module(x).double().numpy() - exact).max()
    rounding = np.abs(exact).max() * 2.0**-8  # half the distance of two numbers of bfloat16
    assert np.abs(y.astype("float64") - exact).max() <= max(theirs, rounding)


def test_weights_are_read_as_they_are_stored_also_from_a_file(tmp_path: Path) -> None:
    module, x, _ = in_torch("dense")
    net = graph.from_torch(module, (x,))
    text = str(graph.optimized(net, "llvm"))
    assert "dense(p0, p1, p2)" in text
    assert 'param("0.weight", bfloat16[128, 64])' in text
    compiled = graph.compile(net, "llvm -num-cores=1")
    compiled.export(tmp_path / "net.mtvm")
    loaded = graph.load(tmp_path / "net.mtvm")
    np.testing.assert_array_equal(loaded(array(x)), compiled(array(x)))


@pytest.mark.parametrize("rows", [1, 40])
def test_weights_of_a_network_in_float32_are_rounded(rows: int) -> None:
    random, b = np.random.default_rng(0), graph.Builder("net")
    w = random.standard_normal((48, 64)).astype("float32")
    net = b.graph(b.dense(b.input("x", (rows, 64)), b.param("w", w)))
    narrow = graph.bfloat16_weights(net)
    assert {n: str(a.dtype) for n, a in narrow.params.items()} == {"w.bfloat16": "bfloat16"}
    x = random.standard_normal((rows, 64)).astype("float32")
    expected = x @ w.astype("bfloat16").astype("float32").T
    y = graph.compile(narrow, "llvm -num-cores=1")(x)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_other_readers_find_weights_in_bfloat16_too() -> None:
    class Words(nn.Module):
        """An embedding, a product and a layer with the weight of the embedding."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(20, 32)
            self.w = nn.Parameter(torch.randn(32, 32))

        def forward(self, words: Any) -> Any:
            return nn.functional.linear(self.embedding(words) @ self.w, self.embedding.weight)

    words = torch.tensor([[3, 0, 19]])
    net = graph.from_torch(Words().eval().bfloat16(), (words,))
    best = graph.optimized(net, "llvm")
    assert {str(a.dtype) for a in best.params.values()} == {"bfloat16"}
    assert "dense(" in str(best)
    assert "matmul(" not in str(best)
    assert str(graph.int8_weights(net)).count("dense_int8(") == 2
    (expected,) = graph.evaluate(net, words.numpy(), dtype="float64")
    y = graph.compile(net, "llvm -num-cores=1")(words.numpy())
    np.testing.assert_allclose(y.astype("float64"), expected, rtol=2.0**-7, atol=1e-6)


def test_layers_with_one_weight_share_it_and_others_are_left_alone() -> None:
    b = graph.Builder("net")
    x, w = b.input("x", (4, 64)), b.param("w", np.ones((64, 64), "float32"))
    net = b.graph(b.dense(b.dense(x, w), w))
    assert list(graph.bfloat16_weights(net).params) == ["w.bfloat16"]
    assert list(graph.int8_weights(net).params) == ["w.int8", "w.scales"]
    for kind in ("int8", "float16"):
        b = graph.Builder("net")
        x, w = b.input("x", (4, 64), kind), b.param("w", np.ones((8, 64), "float32"))
        net = b.graph(b.dense(x, w))
        assert list(graph.bfloat16_weights(net).params) == ["w"]


def test_a_sum_that_asks_for_bfloat16_adds_in_float32() -> None:
    class Mean(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.mean(-1, dtype=torch.bfloat16)

    net = graph.from_torch(Mean(), (torch.ones(2, 4096),))
    (mean,) = graph.evaluate(net, np.ones((2, 4096), "float32"))
    assert mean.tolist() == [1.0, 1.0]


def test_constants_of_onnx_stay_constants() -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    w = helper.make_tensor("w", kind.BFLOAT16, [2, 2], [0.0, 1.5, 2.0, 0.0])
    nodes = [helper.make_node("NonZero", ["w"], ["y"]), helper.make_node("Add", ["x", "y"], ["z"])]
    x, z = (helper.make_tensor_value_info(n, kind.INT64, [2, 2]) for n in "xz")
    model = helper.make_model(helper.make_graph(nodes, "nonzero", [x], [z], [w]))
    net = graph.from_onnx(model.SerializeToString())
    (z,) = graph.evaluate(net, np.zeros((2, 2), "int64"))
    assert z.tolist() == [[0, 1], [1, 0]]


def test_kernels_are_tuned_and_their_results_checked() -> None:
    b = graph.Builder("net")
    x, w = b.input("x", (4, 64)), b.param("w", np.ones((32, 64), "bfloat16"))
    net = b.graph(b.cast(b.dense(x, w), dtype="bfloat16"))
    tuned = graph.tune(net, "llvm -num-cores=1", trials=2, seconds=20)
    trials = [trial for each in tuned.outcome.outcomes for trial in each.trials]
    assert [trial.error for trial in trials] == ["", ""]
