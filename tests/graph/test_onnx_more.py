"""from_onnx: indices, resizing, norms, bits and control flow, compared with ONNX's reference."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError
from minitvm.graph.onnx import OPERATORS, convert

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .test_onnx import CASES, I, above, case, check, ints, weights  # noqa: E402

BITS = np.array([1, 6, 255], "uint8"), np.array([3, 2, 1], "uint8")
ROWS = np.array([[2, -1, 0, 1], [0, 0, -3, 2]])
FLOATS = np.array([-2.5, -0.5, 0.0, 0.5, 1.5, np.inf, -np.inf, np.nan], "float32")


def floats(*values):
    return np.array(values, "float32")


def modes(op, *names):
    """Cases of Resize by a factor, and back, for each mode of the coordinates."""
    for name in names:
        attrs = {"coordinate_transformation_mode": name, "mode": op}
        yield case("Resize", (1, 1, 4, 5), const=(None, floats(1, 1, 2.4, 0.6)), **attrs)
        yield case("Resize", (1, 1, 4, 5), const=(None, None, ints(1, 1, 3, 8)), **attrs)


MORE = [
    *(case(op, (3, 5)) for op in ("Atan", "Asinh", "Cos", "Cosh", "Sin", "Sinh", "Tan")),
    *(case(op, floats(-1, -0.3, 0, 0.9)) for op in ("Acos", "Asin")),
    case("Atanh", floats(-0.9, -1e-6, 0, 0.5)),
    case("Acosh", above(3, 5) + 0.5),
    *(case(op, FLOATS) for op in ("Ceil", "Floor", "IsInf", "IsNaN", "Round")),
    case("Sign", FLOATS[:-1]),
    case("IsInf", FLOATS, detect_negative=0),
    case("IsInf", FLOATS, detect_positive=0),
    *(case(f"Bitwise{op}", *BITS) for op in ("And", "Or", "Xor")),
    case("BitwiseNot", BITS[0]),
    case("BitwiseNot", ints(-3, 0, 7)),
    *(case("BitShift", *BITS, direction=d) for d in ("LEFT", "RIGHT")),
    case("Xor", ints(1, 0, 1) > 0, ints(1, 1, 0) > 0),
    case("Mod", ints(7, -7, 7, -7), ints(3, 3, -3, -3)),
    case("Mod", ints(7, -7, 7, -7), ints(3, 3, -3, -3), fmod=1),
    case("Mod", floats(7.5, -7.5, 7.5), floats(2, 2, -2), fmod=1),
    case("Div", ints(7, -7, 7, -7), ints(3, 3, -3, -3)),
    case("Pow", ints(2, -3), ints(3, 2)),
    *(case(op, (3, 5), axis=1) for op in ("ArgMax", "ArgMin")),
    case("ArgMax", ints(3, 7, 7, 1), keepdims=0, select_last_index=1),
    case("Hardmax", np.array([[1, 3, 3], [2, 0, 1]], "float32")),
    case("CumSum", (3, 4), const=(np.int64(1),)),
    case("CumProd", (3, 4), const=(np.int64(1),), opset=26),
    case("CumSum", (3, 4), const=(np.int64(0),), exclusive=1, reverse=1),
    case("TopK", (3, 6), const=(ints(3),), outputs=2),
    case("TopK", ints(2, 9, 9, 1, 4), const=(ints(4),), outputs=2, largest=0),
    case("TopK", (4, 3), const=(ints(1),), outputs=2, axis=0),
    case("GatherElements", (3, 4), ROWS),
    case("GatherElements", (2, 3), ROWS[:, :3], axis=1),
    case("GatherND", (3, 4, 2), np.array([[0, 1], [-1, 3]])),
    case("GatherND", (2, 4, 2), np.array([[1], [3]]), batch_dims=1),
    *(
        case("ScatterElements", (3, 4), ROWS, (2, 4), reduction=r)
        for r in ("add", "mul", "max", "min")
    ),
    case("ScatterElements", (3, 4), const=(np.array([[1, -1]]), weights(1, 2)), axis=1),
    case("ScatterND", (4, 3), np.array([[1], [-1]]), (2, 3)),
    case("ScatterND", (4, 3), np.array([[1, 2], [1, 2]]), (2,), reduction="add"),
    case("OneHot", ints(0, -1, 2), const=(np.int64(3), floats(-1, 5))),
    case("OneHot", np.array([[1, 0]]), const=(np.int64(3), ints(0, 1)), axis=0),
    *(case("Trilu", (2, 4, 3), const=(np.int64(k),), upper=u) for k in (-1, 2, 9) for u in (0, 1)),
    case("Trilu", (4, 3)),
    case("Tile", (2, 3), const=(ints(2, 3),)),
    case("Compress", (3, 4), const=(ints(1, 0, 1) > 0,), axis=0),
    case("Compress", (2, 2), const=(ints(0, 1, 1, 0) > 0,)),
    case("NonZero", const=(floats(0, 2, 3),)),
    case("EyeLike", (3, 4), k=1, dtype=TensorProto.INT32),
    case("ReverseSequence", (4, 3), const=(ints(1, 3, 4),)),
    case("ReverseSequence", (3, 4, 2), const=(ints(1, 3, 4),), time_axis=1, batch_axis=0),
    case("DepthToSpace", (1, 8, 2, 3), blocksize=2),
    case("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    *(case("Pad", (4, 5), const=(ints(1, 2, 3, 1),), mode=m) for m in ("reflect", "edge", "wrap")),
    case("Pad", ints(1, 2, 3), const=(ints(1, 2), np.int64(9))),
    case("Einsum", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bki"),
    case("Einsum", (3, 4), (4, 5), (5, 2), equation="ij,jk,kl->li"),
    case("Einsum", (2, 3, 3), equation="...ii->...i"),
    case("Einsum", (3, 4), (3, 5), equation="ij,ik"),
    case("Einsum", (2, 3, 4), equation="b...->"),
    case("InstanceNormalization", I, const=(weights(4), weights(4))),
    case("GroupNormalization", I, const=(weights(4), weights(4)), num_groups=2),
    case("LayerNormalization", (2, 3, 8), const=(weights(8),), outputs=3, axis=-1),
    case("LRN", (5, 5, 2, 2), size=3, alpha=0.1),
    case("LRN", (5, 5, 2, 2), size=2, bias=2.0, beta=0.5),
    *(case("LpNormalization", above(3, 4), p=p, axis=0) for p in (1, 2)),
    *(case("LpPool", I, kernel_shape=[3, 2], pads=[1, 0, 1, 0], p=p) for p in (1, 2, 3)),
    case("ReduceL1", (2, 3, 4), const=(ints(1),)),
    case("ReduceSumSquare", (2, 3, 4), const=(ints(0, 2),), keepdims=0),
    case("ReduceLogSum", above(2, 3, 4), const=(ints(1),)),
    case("ReduceLogSumExp", above(2, 3, 4) * 100, const=(ints(1),)),
    case("MaxPool", I, kernel_shape=[2, 3], dilations=[2, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", I, kernel_shape=[2, 3], dilations=[2, 3], pads=[1, 2, 1, 2]),
    case("AveragePool", I, kernel_shape=[2, 2], dilations=[2, 2], strides=[3, 3], ceil_mode=1),
    case("Conv", (1, 4, 4, 5, 5), const=(weights(6, 2, 2, 3, 3), weights(6)), group=2),
    *modes("nearest", "half_pixel", "asymmetric", "align_corners"),
    *modes("linear", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"),
    *modes("cubic", "half_pixel", "asymmetric"),
    case("Resize", (1, 1, 9, 8), const=(None, floats(1, 1, 0.4, 0.5)), mode="linear", antialias=1),
    case(
        "Resize",
        (1, 1, 4, 5),
        const=(floats(0, 0, 0.2, 0.3, 1, 1, 0.8, 1.2), None, ints(1, 1, 3, 4)),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
    ),
    *(
        case(
            "Resize", (1, 2, 4, 5), const=(None, None, ints(7, 7)), axes=[2, 3], mode="linear", **a
        )
        for a in ({"keep_aspect_ratio_policy": "not_larger"}, {"exclude_outside": 1})
    ),
    *(
        case("GridSample", (2, 2, 4, 5), 1.4 * weights(2, 3, 3, 2), mode=m, padding_mode=p)
        for m in ("nearest", "linear", "cubic")
        for p in ("zeros", "border", "reflection")
    ),
    case("GridSample", (1, 2, 4, 5, 3), weights(1, 2, 3, 3, 3), align_corners=1),
]
OTHERS = {"GlobalLpPool", "If", "Loop", "QLinearAdd", "Scan"}  # no reference, or subgraphs


@pytest.mark.parametrize("each", MORE, ids=repr)
def test_an_operator_computes_what_onnx_says(each) -> None:
    check(each)


def test_every_operator_has_a_case() -> None:
    listed = {each.op for each in (*CASES, *MORE)} | OTHERS
    assert sorted(listed) == sorted(OPERATORS)


def network(*nodes, stored=(), opset=18, **inputs):
    """Return the network of nodes; its inputs have these shapes, and its output is y: float32."""
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    declared = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in dict(stored).items()]
    draft = helper.make_graph(list(nodes), "net", declared, outputs, constants)
    return graph.from_onnx(helper.make_model(draft, opset_imports=[helper.make_opsetid("", opset)]))


def subgraph(*nodes, inputs=(), outputs=("z",)):
    ins, outs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
        for names in (inputs, outputs)
    )
    return helper.make_graph(list(nodes), "body", ins, outs)


def text(net):
    """Return the operators of a network, in order."""
    return " ".join(node.op for node in net.calls)


def test_a_norm_of_all_pixels() -> None:
    net = network(helper.make_node("GlobalLpPool", ["x"], ["y"], p=3), x=I)
    x = weights(*I)
    (y,) = graph.evaluate(net, x)
    np.testing.assert_allclose(y[0, :, 0, 0], (abs(x) ** 3).sum((0, 2, 3)) ** (1 / 3), 1e-5)


def test_the_logarithm_of_no_probability_is_minus_infinity() -> None:
    net = network(helper.make_node("ReduceLogSumExp", ["x"], ["y"], keepdims=0), x=(2,))
    with np.errstate(divide="ignore"):
        assert graph.evaluate(net, floats(-np.inf, -np.inf))[0] == -np.inf


@pytest.mark.parametrize(("condition", "op"), [(True, "exp"), (False, "tanh")])
def test_a_constant_decides_a_branch_which_sees_the_values_around_it(condition, op) -> None:
    branches = {
        key: subgraph(helper.make_node(each, ["x"], ["z"]))
        for key, each in (("then_branch", "Exp"), ("else_branch", "Tanh"))
    }
    node = helper.make_node("If", ["c"], ["y"], **branches)
    assert text(network(node, stored={"c": np.array(condition)}, x=(3,))) == f"{op}"


def loop(count):
    """Return a loop that adds x to itself, and the iteration's number."""
    body = subgraph(
        helper.make_node("Add", ["s", "x"], ["sum"]),
        helper.make_node("Identity", ["c"], ["go"]),
        inputs=("i", "c", "s"),
        outputs=("go", "sum"),
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    return network(node, stored={"n": np.int64(count)}, x=(3,))


def test_a_loop_of_constant_length_is_unrolled() -> None:
    assert text(loop(3)) == "add add add"
    assert text(loop(0)) == "identity"


def test_a_loop_must_not_be_too_long(monkeypatch) -> None:
    monkeypatch.setattr(convert, "MOST_RUNS", 10)
    assert len(loop(10).calls) == 10
    with pytest.raises(GraphError, match="run more than 10 times"):
        loop(1 << 40)


@pytest.mark.parametrize("back", [0, 1])
def test_a_scan_runs_once_for_each_row(back) -> None:
    body = subgraph(
        helper.make_node("Add", ["s", "row"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["out"]),
        inputs=("s", "row"),
        outputs=("sum", "out"),
    )
    ways = {"scan_input_directions": [back], "scan_output_directions": [back]}
    node = helper.make_node("Scan", ["start", "x"], ["", "y"], num_scan_inputs=1, body=body, **ways)
    net = network(node, stored={"start": np.zeros(3, "float32")}, x=(4, 3))
    x = weights(4, 3)
    wanted = np.flip(np.flip(x, 0).cumsum(0), 0) if back else x.cumsum(0)
    np.testing.assert_allclose(graph.evaluate(net, x)[0], wanted, 1e-6)


def test_an_operator_that_graphs_lack_is_read_by_its_definition() -> None:
    assert "Mish" not in OPERATORS
    net = network(helper.make_node("Mish", ["x"], ["y"]), opset=22, x=(3,))
    x = weights(3)
    np.testing.assert_allclose(graph.evaluate(net, x)[0], x * np.tanh(np.log1p(np.exp(x))), 1e-5)


def test_the_attributes_of_a_defined_operator_reach_its_definition() -> None:
    net = network(helper.make_node("Shrink", ["x"], ["y"], lambd=1.5, bias=0.5), x=(3,))
    np.testing.assert_allclose(graph.evaluate(net, floats(-2, 1, 2))[0], [-1.5, 0, 1.5])


@pytest.mark.parametrize(("op", "is_read"), [("Relu", True), ("Softmax", False)])
def test_an_old_operator_is_read_if_it_means_what_it_means_today(op, is_read) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="n")
    if is_read:
        assert text(network(node, opset=9, x=(2, 3))) == op.lower()
    else:
        with pytest.raises(GraphError, match=f"{op} of operator set 9 is not that of 13"):
            network(node, opset=9, x=(2, 3))
