"""from_onnx: each operator computes what ONNX's own reference does."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.graph.onnx import OPERATORS

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

I = (1, 4, 9, 8)  # noqa: E741 - an image
UNKNOWN = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
ROWS = np.array([[4, 0, 8]], "int64")
ROTARY = {"interleaved": 1, "rotary_embedding_dim": 4}
RNG = np.random.default_rng(0)


def weights(*shape):
    return RNG.standard_normal(shape).astype("float32")


def ints(*values):
    return np.array(values, "int64")


def above(*shape):
    return RNG.random(shape, np.float32) + 0.5


class Case:
    """A model of one operator: inputs are shapes or arrays, which are fed; constants follow."""

    def __init__(self, op, inputs, *constants, outputs=1, opset=22, **attrs) -> None:
        self.op, self.outputs, self.opset, self.attrs = op, outputs, opset, attrs
        self.fed = [weights(*x) if isinstance(x, tuple) else x for x in inputs]
        self.constants = constants

    def __repr__(self) -> str:
        return self.op


def case(op, *inputs, const=(), **options):
    return Case(op, inputs, *const, **options)


def value_type(name, array):
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )


def model_of(each: Case):
    """Return the model, without declared types of its outputs' sizes."""
    names = [f"x{k}" for k in range(len(each.fed))]
    consts = [f"c{k}" if c is not None else "" for k, c in enumerate(each.constants)]
    outs = [f"y{k}" for k in range(each.outputs)]
    node = helper.make_node(each.op, names + consts, outs, name="the node", **each.attrs)
    stored = [
        numpy_helper.from_array(c, n) for c, n in zip(each.constants, consts, strict=True) if n
    ]
    inputs = [value_type(n, x) for n, x in zip(names, each.fed, strict=True)]
    draft = helper.make_graph(
        [node], "one", inputs, [helper.make_empty_tensor_value_info(o) for o in outs], stored
    )
    opsets = [helper.make_opsetid("", each.opset)]
    model = helper.make_model(draft, opset_imports=opsets)
    found = ReferenceEvaluator(model).run(None, dict(zip(names, each.fed, strict=True)))
    found = [np.asarray(y) for y in found]
    del model.graph.output[:]
    model.graph.output.extend(value_type(o, y) for o, y in zip(outs, found, strict=True))
    return model, found


CONV = (weights(6, 4, 3, 3), weights(6))
CASES = [
    *(case(op, (3, 5)) for op in ("Abs", "Erf", "Exp", "Neg", "Relu", "Sigmoid", "Tanh")),
    *(case(op, above(3, 5)) for op in ("Log", "Sqrt", "Reciprocal")),
    *(case(op, (3, 5)) for op in ("HardSwish", "HardSigmoid", "Softplus", "Identity", "Gelu")),
    case("Dropout", (3, 5)),
    case("Dropout", (3, 5), const=(np.float32(0.5), np.bool_(False))),
    case("Gelu", (3, 5), approximate="tanh"),
    case("HardSigmoid", (3, 5), alpha=1 / 6, beta=0.5),
    case("LeakyRelu", (3, 5), alpha=0.2),
    case("PRelu", (3, 5), const=(weights(5),)),
    case("Clip", (3, 5), const=(np.float32(-0.5), np.float32(0.5))),
    case("Clip", (3, 5), const=(None, np.float32(0.5))),
    case("Clip", (3, 5), const=(np.float32(0.1),)),
    case("Clip", ints(3, 8, -2), const=(np.int64(0), np.int64(5))),
    case("Clip", (3, 5), const=(np.float32(0.7), np.float32(0.5))),
    case("Clip", (3, 5), np.float32(0.1), np.float32(0.2)),
    *(case(op, (3, 5), (5,)) for op in ("Add", "Sub", "Mul", "Max", "Min")),
    *(case(op, (3, 5), const=(np.float32(0.5),)) for op in ("Add", "Sub", "Mul", "Div", "Max")),
    *(case(op, np.float32(2), (3, 5)) for op in ("Add", "Sub", "Mul", "Min", "Greater")),
    case("Div", (3, 5), above(3, 1)),
    case("Add", ints(1, 2), const=(ints(5),)),
    case("Add", np.float32(1), const=(np.float32(5),)),
    case("Max", (3, 5), (5,), (3, 1)),
    case("Sum", (3, 5), (5,), (3, 1)),
    case("Sum", (3, 5)),
    case("Mean", (3, 5), (5,), (3, 1)),
    *(case("Pow", above(3, 5), const=(np.float32(p),)) for p in (2, 0.5, 3.0, -1)),
    case("Pow", above(3, 5), const=(np.int64(3),)),
    case("Pow", above(3, 5), above(5)),
    *(case(op, ints(1, 2, 3), ints(3, 2, 1)) for op in ("Equal", "Less", "Greater")),
    *(case(op, ints(1, 2, 3), ints(3, 2, 1)) for op in ("LessOrEqual", "GreaterOrEqual")),
    *(case(op, ints(1, 2, 3), const=(ints(2),)) for op in ("Equal", "Less", "LessOrEqual")),
    *(case(op, ints(1, 0) > 0, ints(0, 0) > 0) for op in ("And", "Or", "Equal")),
    *(case(op, ints(1, 0, 1) > 0, const=(ints(1, 1, 0) > 0,)) for op in ("And", "Or")),
    case("Not", ints(1, 0) > 0),
    case("Where", weights(3, 5) > 0, (3, 5), (5,)),
    case("Where", weights(3, 5) > 0, const=(np.float32(-np.inf), weights(5))),
    case("Cast", (3, 5), to=TensorProto.INT64),
    case("Cast", (3, 5), to=TensorProto.BOOL),
    case("Cast", weights(3, 5) > 0, to=TensorProto.FLOAT),
    case("Conv", I, const=CONV),
    case("Conv", I, const=CONV[:1], strides=[2, 1], pads=[1, 0, 1, 0]),
    case("Conv", I, const=CONV, pads=[0, 1, 2, 1], dilations=[2, 1]),
    *(case("Conv", I, const=CONV, auto_pad=p) for p in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    case("Conv", I, const=CONV, auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", I, const=CONV, auto_pad="SAME_LOWER", strides=[2, 3]),
    case("Conv", I, const=(weights(6, 2, 3, 3), weights(6)), group=2, kernel_shape=[3, 3]),
    case("Conv", I, const=(weights(4, 1, 3, 3),), group=4, pads=[1, 1, 1, 1]),
    case("Conv", (2, 3, 9), const=(weights(4, 3, 3), weights(4)), strides=[2], pads=[1, 0]),
    case("Conv", (1, 3, 5, 6, 7), const=(weights(4, 3, 3, 2, 2), weights(4)), strides=[1, 2, 2]),
    case("Conv", (1, 3, 5, 6, 7), const=(weights(4, 3, 3, 2, 2),), pads=[1, 0, 0, 0, 1, 0]),
    case("Conv", (1, 3, 5, 6, 7), const=(weights(4, 3, 3, 3, 3),), pads=[1] * 6),
    case("ConvTranspose", I, const=(weights(4, 3, 4, 4), weights(3)), strides=[2, 2], pads=[1] * 4),
    case("ConvTranspose", I, const=(weights(4, 3, 3, 3),), strides=[2, 2], output_padding=[1, 1]),
    case(
        "ConvTranspose",
        I,
        const=(weights(4, 3, 3, 3),),
        strides=[2, 2],
        pads=[1] * 4,
        output_padding=[1, 1],
    ),
    case("ConvTranspose", I, const=(weights(4, 3, 3, 3),), strides=[2, 2], auto_pad="SAME_UPPER"),
    case("ConvTranspose", (1, 4, 7), const=(weights(4, 3, 3), weights(3)), strides=[2]),
    case("BatchNormalization", I, const=(above(4), weights(4), weights(4), above(4))),
    case("BatchNormalization", I, const=(above(4), weights(4), weights(4), above(4)), epsilon=1e-3),
    case("LayerNormalization", (2, 3, 8), const=(weights(8), weights(8))),
    case("LayerNormalization", (2, 3, 8), const=(weights(3, 8),), axis=1, epsilon=1e-6),
    case("MaxPool", I, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", I, kernel_shape=[2, 3]),
    case("MaxPool", I, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", I, kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
    case("MaxPool", (1, 4, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    case("MaxPool", (1, 2, 5, 6, 7), kernel_shape=[3, 2, 2], strides=[2, 2, 1]),
    case("AveragePool", I, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("AveragePool", I, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", I, kernel_shape=[3, 3], pads=[1, 1, 0, 0], count_include_pad=1),
    case("AveragePool", I, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    case(
        "AveragePool",
        (1, 2, 8, 8),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 0, 1, 0],
        count_include_pad=1,
    ),
    case("AveragePool", (1, 2, 5, 6, 7), kernel_shape=[3, 2, 2], pads=[1] * 6, count_include_pad=1),
    case("AveragePool", (1, 4, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    case("AveragePool", (1, 2, 5, 6, 7), kernel_shape=[3, 2, 2], pads=[1] * 6),
    case("GlobalAveragePool", I),
    case("GlobalMaxPool", I),
    *(case(op, (2, 3, 4), axis=a) for op in ("Softmax", "LogSoftmax") for a in (-1, 1, 0)),
    *(case(f"Reduce{op}", (2, 3, 4), const=(ints(-1, 0),)) for op in ("Max", "Mean", "Min")),
    *(case(f"Reduce{op}", (2, 3, 4), const=(ints(1),), keepdims=0) for op in ("Sum", "Mean", "L2")),
    *(case(f"Reduce{op}", (2, 3, 4), opset=13, axes=[1, 2]) for op in ("Max", "Mean", "L2")),
    *(case(f"Reduce{op}", (2, 3, 4), keepdims=0) for op in ("Sum", "Mean", "Max")),
    case("ReduceSum", (2, 3, 4), noop_with_empty_axes=1),
    *(case("MatMul", a, b) for a, b in (((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)))),
    *(case("MatMul", a, b) for a, b in (((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)))),
    *(case("MatMul", a, b) for a, b in (((2, 3, 4, 5), (3, 5, 6)), ((4,), (2, 4, 5)))),
    *(case("MatMul", a, b) for a, b in (((2, 1, 4, 5), (1, 3, 5, 6)), ((2, 3, 4), (4,)))),
    *(case("MatMul", a, b) for a, b in (((3, 4), (2, 4, 5)), ((1, 1, 3, 4), (2, 2, 4, 5)))),
    *(case("MatMul", a, const=(weights(4, 5),)) for a in ((2, 3, 4), (4,))),
    case("Gemm", (3, 4), const=(weights(5, 4), weights(5)), transB=1),
    case("Gemm", (3, 4), const=(weights(4, 5), weights(3, 1)), alpha=0.5, beta=2.0),
    case("Gemm", (4, 3), (4, 5), (5,), transA=1),
    case("Gemm", (4, 3), (5, 4), transA=1, transB=1),
    *(case("Flatten", (2, 3, 4), axis=a) for a in (0, 1, -1, 3)),
    case("Reshape", (2, 3, 4), const=(ints(0, -1),)),
    case("Reshape", (2, 3, 4), const=(ints(4, -1, 2),)),
    case("Transpose", (2, 3, 4)),
    case("Transpose", (2, 3, 4), perm=[0, 2, 1]),
    case("Concat", (2, 3), (2, 1), const=(weights(2, 2),), axis=-1),
    case("Split", (2, 6), outputs=3, axis=1, num_outputs=3),
    case("Split", (7, 2), outputs=3, num_outputs=3),
    case("Split", (7, 2), const=(ints(3, 4),), outputs=2),
    case("Split", (4, 2), outputs=2, opset=13),
    case("Slice", (6, 8), const=(ints(1, -5), ints(100, -1))),
    case("Slice", (6, 8), const=(ints(1), ints(7), ints(-1), ints(3))),
    case("Slice", (6, 8), const=(ints(-1), ints(-(2**63)), ints(0), ints(-2))),
    case("Squeeze", (1, 3, 1), const=(ints(-1),)),
    case("Squeeze", (1, 3, 1)),
    case("Unsqueeze", (3, 4), const=(ints(0, -1),)),
    case("Expand", (3, 1), const=(ints(2, 1, 4),)),
    case("Expand", (3, 4), const=(ints(1),)),
    case("Gather", (5, 4), const=(ints(4, -5, 0),)),
    case("Gather", (5, 4), const=(np.int64(-1),), axis=1),
    case("Gather", (5, 4), np.array([[4, -1], [0, -5]])),
    case("Gather", (5, 4), np.array([1, -1], "int32"), axis=1),
    case("Pad", (3, 4), const=(ints(0, 1, 2, 0), np.float32(7))),
    case("Pad", (3, 4), const=(ints(1, 2), None, ints(-1))),
    case("Shape", (3, 4, 5), start=1, end=-1),
    case("Size", (3, 4)),
    case("ConstantOfShape", const=(ints(2, 3),), value=numpy_helper.from_array(np.array([4]))),
    case("Constant", value=numpy_helper.from_array(weights(3))),
    case("Constant", value_floats=[1.0, 2.0]),
    case("Constant", value_int=3),
    case("Range", const=(np.int64(2), np.int64(9), np.int64(3))),
    case("Floor", const=(weights(4),)),
    case("Ceil", const=(weights(4),)),
    case("Div", const=(ints(7, -7), ints(2, 2))),
    case("Pow", const=(ints(2, 3), ints(3, 2))),
    case("ReduceProd", const=(ints(2, 3), ints(0)), keepdims=0),
    case("ReduceProd", (2, 3, 4), const=(ints(-1),)),
    case("ReduceProd", const=(ints(),), keepdims=0),
    case("ReduceProd", (2, 3), noop_with_empty_axes=1),
    case("ReduceMin", np.array([255, 0, 7], "uint8")),
    case("ReduceMin", np.array([-128, 5], "int8")),
    case("LSTM", (3, 2, 4), const=(weights(1, 20, 4), weights(1, 20, 5)), hidden_size=5),
    case("GRU", (3, 2, 4), const=(weights(1, 15, 4), weights(1, 15, 5)), hidden_size=5),
    case("Attention", (1, 4, 3, 6), (1, 2, 5, 6), (1, 2, 5, 7), is_causal=1, opset=23),
    case("Attention", *[(2, 3, 8)] * 3, q_num_heads=2, kv_num_heads=2, softcap=2.0, opset=23),
    case("RotaryEmbedding", (1, 2, 3, 8), const=(weights(9, 4), weights(9, 4), ROWS), opset=23),
    case("RotaryEmbedding", (1, 2, 3, 8), const=(weights(1, 3, 2),) * 2, opset=23, **ROTARY),
    case("RNN", (3, 2, 4), const=(weights(1, 5, 4), weights(1, 5, 5)), hidden_size=5),
]


@pytest.mark.parametrize("each", CASES, ids=repr)
def test_an_operator_computes_what_onnx_says(each) -> None:
    model, wanted = model_of(each)
    net = graph.from_onnx(model.SerializeToString())
    assert graph.parse(str(net)) == net
    found = graph.evaluate(net, *each.fed)
    for y, z in zip(found, wanted, strict=True):
        assert y.shape == z.shape
        assert y.dtype == z.dtype
        np.testing.assert_allclose(y, z, 1e-5, 1e-5)


def test_every_operator_has_a_case() -> None:
    assert sorted({each.op for each in CASES}) == sorted(OPERATORS)


def test_a_transposed_convolution_may_be_given_the_size_of_its_result() -> None:
    kernel, image = weights(4, 3, 3, 3), weights(*I)
    found = [
        graph.evaluate(graph.from_onnx(_transposed(kernel, **attrs)), image)[0]
        for attrs in ({"output_shape": [18, 16]}, {"pads": [1, 1, 0, 0]})
    ]
    np.testing.assert_array_equal(*found)


def _transposed(kernel, **attrs):
    """Return a model; ONNX's reference cannot compute all of these."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attrs)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, I)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 18, 16))
    stored = [numpy_helper.from_array(kernel, "w")]
    draft = helper.make_graph([node], "one", [image], [result], stored)
    return helper.make_model(draft, opset_imports=[helper.make_opsetid("", 18)])


def test_numbers_keep_their_rank() -> None:
    b = graph.Builder()
    net = b.graph(b.mean(b.add(b.input("x", (3,)), b.param("k", np.float32(2)))))
    (found,) = graph.evaluate(net, weights(3))
    assert found.shape == () == net.params["k"].shape
    assert graph.parse(str(net)) == net


def means(size, kernel):
    """Return the means of windows of ones in an image with a padding of 1, with steps of 2."""
    options = {"kernel_shape": [kernel] * 2, "strides": [2, 2], "pads": [1] * 4}
    options |= {"ceil_mode": 1, "count_include_pad": 1}
    node = helper.make_node("AveragePool", ["x"], ["y"], **options)
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, size, size))
    draft = helper.make_graph([node], "one", [image], [UNKNOWN])
    model = helper.make_model(draft, opset_imports=[helper.make_opsetid("", 19)])
    (found,) = graph.evaluate(graph.from_onnx(model), np.ones((1, 1, size, size), np.float32))
    return found[0, 0]


def test_a_last_step_past_the_padding_does_not_count_in_means() -> None:
    wanted = np.array([[4, 6, 2], [6, 9, 3], [2, 3, 1]]) / [[9, 9, 6], [9, 9, 6], [6, 6, 4]]
    np.testing.assert_allclose(means(size=4, kernel=3), wanted, 1e-6)


def test_a_window_that_starts_in_the_last_padding_is_left_out_of_means() -> None:
    np.testing.assert_allclose(means(size=3, kernel=2), [[0.25, 0.5], [0.5, 1]])


def test_the_product_of_two_vectors_is_compiled() -> None:
    each = Case("MatMul", [weights(3)], weights(3))
    model, wanted = model_of(each)
    net = graph.from_onnx(model)
    np.testing.assert_allclose(graph.compile(net)(*each.fed), wanted[0], 1e-5)


def test_a_thousand_tensors_are_concatenated() -> None:
    each = Case("Concat", [ints(k) for k in range(1000)], axis=0)
    (found,) = graph.evaluate(graph.from_onnx(model_of(each)[0]), *each.fed)
    np.testing.assert_array_equal(found, np.arange(1000))
