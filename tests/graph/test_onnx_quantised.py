"""Quantised ONNX models: results are equal to those of ONNX Runtime's optimised session."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .test_integers import CPU  # noqa: E402


class Model:
    """A model that is written node by node."""

    def __init__(self, name: str = "quantised") -> None:
        self.name, self.nodes, self.stored = name, [], []

    def const(self, value, dtype: str = "float32") -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op: str, *inputs: str, **attrs) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attrs))
        return name

    def rounded(self, x: str, scale: float, zero: int) -> str:
        """Quantise to uint8 and dequantise."""
        scaling = self.const(scale), self.const(zero, "uint8")
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *scaling), *scaling)

    def conv(self, x: str, scale: float, w: np.ndarray, rng: np.random.Generator, **attrs) -> str:
        """Convolve with weights of int8 with a scale for each channel; add an int32 bias."""
        scales = rng.uniform(0.001, 0.002, len(w)).astype("float32")
        kernel = self.const(w, "int8"), self.const(scales), self.const(np.zeros(len(w)), "int8")
        bias = self.const(rng.integers(-5000, 5000, len(w)), "int32")
        scaling = self.const(np.float32(scale) * scales), self.const(np.zeros(len(w)), "int32")
        parts = (
            self.add("DequantizeLinear", *kernel, axis=0),
            self.add("DequantizeLinear", bias, *scaling, axis=0),
        )
        return self.add("Conv", x, *parts, **attrs)

    def proto(
        self, shape, output: str, kind=TensorProto.FLOAT, domains=("",), input_type=1, opset=17
    ):
        x = helper.make_tensor_value_info("x", input_type, shape)
        y = helper.make_tensor_value_info(output, kind, None)
        draft = helper.make_graph(self.nodes, self.name, [x], [y], self.stored)
        opsets = [helper.make_opsetid(domain, 1 if domain else opset) for domain in domains]
        return helper.make_model(draft, opset_imports=opsets, ir_version=8)


def residual(rng: np.random.Generator, head: bool = True) -> onnx.ModelProto:
    """Return a small residual network for images [1, 3, 12, 12]."""
    m = Model()
    kernels = [rng.integers(-127, 128, s) for s in ((16, 3, 3, 3), (16, 16, 3, 3), (16, 16, 1, 1))]
    x = m.rounded("x", 0.02, 121)
    x = m.add("Relu", m.conv(x, 0.02, kernels[0], rng, pads=[1] * 4, strides=[2, 2]))
    x = m.rounded(x, 0.013, 0)
    x = m.add("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    y = m.rounded(m.conv(x, 0.013, kernels[1], rng, pads=[1] * 4), 0.071, 133)
    z = m.rounded(m.conv(x, 0.013, kernels[2], rng), 0.043, 117)
    x = m.rounded(m.add("Relu", m.add("Add", y, z)), 0.037, 0)
    x = m.rounded(m.add("GlobalAveragePool", x), 0.019, 0)
    w = m.const(rng.integers(-127, 128, (10, 16)), "int8")
    v = m.add("DequantizeLinear", w, m.const(0.003), m.const(0, "int8"))
    bias = m.const(rng.integers(-999, 999, 10), "int32")
    shift = m.add("DequantizeLinear", bias, m.const(np.float32(0.019) * np.float32(0.003)))
    y = m.add("Gemm", m.add("Flatten", x), v, shift, transB=1)
    return m.proto((1, 3, 12, 12), m.rounded(y, 0.041, 99))


def runtime(model: onnx.ModelProto):
    """Return ONNX Runtime's session, which must be optimised to compute in integers."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    bytes_ = model.SerializeToString()
    return ort.InferenceSession(bytes_, options, providers=["CPUExecutionProvider"])


def test_a_residual_network_runs_in_integers_alone() -> None:
    net = graph.from_onnx(residual(np.random.default_rng(0)))
    assert [d for d in graph.explain(net).operators if d.why] == []
    kernels = [node.body.name for node in graph.optimized(net, CPU).calls]
    assert kernels == [
        "quantise_transpose",
        "conv2d_requantise",
        "max_pool2d",
        "conv2d_requantise",
        "conv2d_requantise_add_requantised_cast",
        "sum",
        "requantise_reshape",
        "dense_requantise_dequantise",
    ]


def test_a_residual_network_computes_what_onnx_runtime_does() -> None:
    model = residual(np.random.default_rng(0))
    session, module = runtime(model), graph.compile(graph.from_onnx(model), CPU)
    rng = np.random.default_rng(1)
    for _ in range(10):
        x = rng.normal(0, rng.uniform(0.3, 2), (1, 3, 12, 12)).astype(np.float32)
        np.testing.assert_array_equal(module(x), session.run(None, {"x": x})[0])


@pytest.mark.parametrize("opset", [10, 11, 13, 21])
@pytest.mark.parametrize("groups", [1, 4])
def test_operators_of_old_sets_compute_what_onnx_runtime_does(opset: int, groups: int) -> None:
    rng, m = np.random.default_rng(opset), Model()
    data, result = (
        [m.const(scale), m.const(zero, "uint8")] for scale, zero in ((0.02, 90), (0.4, 99))
    )
    kernel = rng.integers(-127, 128, (8, 4 // groups, 3, 3))
    q = m.add("QuantizeLinear", "x", *data)
    weights = [m.const(kernel, "int8"), m.const(0.01), m.const(0, "int8")]
    bias = m.const(rng.integers(-999, 999, 8), "int32")
    y = m.add("QLinearConv", q, *data, *weights, *result, bias, group=groups, pads=[1] * 4)
    columns = [m.const(rng.integers(-127, 128, (7, 5)), "int8"), m.const(0.03), m.const(0, "int8")]
    y = m.add("QLinearMatMul", y, *result, *columns, *result)
    model = m.proto((1, 4, 7, 7), m.add("DequantizeLinear", y, *result), opset=opset)
    module, x = graph.compile(graph.from_onnx(model), CPU), rng.normal(0, 2, (1, 4, 7, 7))
    x = x.astype(np.float32)
    np.testing.assert_array_equal(module(x), runtime(model).run(None, {"x": x})[0])


def test_a_sum_of_the_domain_of_onnx_runtime() -> None:
    m = Model()
    q = m.add("QuantizeLinear", "x", m.const(0.02), m.const(90, "uint8"))
    scaling = [m.const(0.02), m.const(90, "uint8")]
    end = [m.const(0.05), m.const(40, "uint8")]
    y = m.add("QLinearAdd", q, *scaling, q, *scaling, *end, domain="com.microsoft")
    model = m.proto((2, 50), y, TensorProto.UINT8, ("", "com.microsoft"))
    net = graph.from_onnx(model)
    x = np.random.default_rng(0).normal(0, 2, (2, 50)).astype(np.float32)
    real = np.clip(np.rint(x / np.float32(0.02)) + 90, 0, 255) - 90
    wanted = np.clip(np.rint(2 * real * 0.02 / 0.05) + 40, 0, 255)
    found = graph.compile(net, CPU)(x)
    assert abs(found - wanted).max() <= 1  # halves
    np.testing.assert_array_equal(found, runtime(model).run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (
            lambda m: m.add("QuantizeLinear", "x", m.const([0.1, 0.2]), axis=1),
            r"its scale or zero point \[2\] does not fit its input \[1, 8\] along axis 1",
        ),
        (
            lambda m: m.add("QLinearAdd", "x", domain="com.microsoft"),
            "it lacks an operand or a scale",
        ),
        (
            lambda m: m.add("QLinearSoftmax", "x", domain="com.microsoft"),
            "its operator is of the domain 'com.microsoft'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(write, why) -> None:
    m = Model()
    with pytest.raises(GraphError, match=why):
        graph.from_onnx(m.proto((1, 8), write(m), TensorProto.UINT8, ("", "com.microsoft")))
