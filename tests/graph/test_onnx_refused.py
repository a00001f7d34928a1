"""from_onnx refuses what it cannot read, and says which node and why."""

import os
import sys

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import GraphError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

node = helper.make_node
FLOAT = TensorProto.FLOAT
W = np.arange(6, dtype="float32").reshape(2, 3)


def tensor(name, *shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(*nodes, inputs=None, outputs=None, stored=None, opset=18, **options):
    """Return a model x[2, 3] -> y[2, 3] with a constant w of that shape."""
    stored = [numpy_helper.from_array(W, "w")] if stored is None else stored
    draft = helper.make_graph(
        list(nodes), "net", inputs or [tensor("x", 2, 3)], outputs or [tensor("y", 2, 3)], stored
    )
    return helper.make_model(draft, opset_imports=[helper.make_opsetid("", opset)], **options)


def relu(name="y", **options):
    return model(node("Relu", ["x"], [name], name="r"), **options)


def branch():
    body = helper.make_graph([node("Identity", ["x"], ["z"])], "then", [], [tensor("z", 2, 3)])
    return node("If", ["c"], ["y"], name="choice", then_branch=body, else_branch=body)


def two_domains():
    made = model(node("Relu", ["x"], ["y"], name="r", domain="com.example"))
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    return made


def misfit():
    bad = numpy_helper.from_array(W, "w")
    bad.dims[0] = 5
    return relu(stored=[bad])


REFUSED = {  # what is wrong -> the model, and parts of the message
    "operator": (lambda: model(node("Det", ["x"], ["y"], name="s")), "node 's' (Det)", "operator"),
    "unknown operator": (
        lambda: model(node("Foo", ["x"], ["y"], name="f")),
        "'f' (Foo)",
        "no oper",
    ),
    "operator of a later set": (
        lambda: model(node("Gelu", ["x"], ["y"], name="g")),
        "node 'g' (Gelu)",
        "operator set 18 has no operator Gelu",
    ),
    "old operator set": (lambda: relu(opset=6), "ONNX model", "6; 7 to 28"),
    "new operator set": (lambda: relu(opset=29), "ONNX model", "29; 7 to 28"),
    "domain": (two_domains, "node 'r' (Relu)", "com.example"),
    "branch that is computed": (
        lambda: model(branch(), inputs=[tensor("x", 2, 3), tensor("c", kind=TensorProto.BOOL)]),
        "node 'choice' (If)",
        "its condition must be constant, but depends on the input 'c'",
    ),
    "cycle": (
        lambda: model(
            node("Add", ["x", "b"], ["a"], name="p"), node("Relu", ["a"], ["b"], name="q")
        ),
        "node 'p' (Add)",
        "cycle",
    ),
    "order": (
        lambda: model(node("Relu", ["a"], ["y"], name="p"), node("Relu", ["x"], ["a"], name="q")),
        "node 'p' (Relu)",
        "reads 'a' before node 'q' (Relu) computes it",
    ),
    "missing constant": (
        lambda: model(node("Add", ["x", "v"], ["y"], name="p")),
        "node 'p' (Add)",
        "'v'",
    ),
    "missing output": (lambda: relu("z"), "output 'y'", "no input, constant or node"),
    "name computed twice": (
        lambda: model(node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"], name="again")),
        "node 'again' (Relu)",
        "'y'",
    ),
    "shapes": (
        lambda: model(node("MatMul", ["x", "w"], ["y"], name="m")),
        "node 'm' (MatMul)",
        "inner sizes",
    ),
    "shapes that do not broadcast": (
        lambda: model(
            node("Add", ["x", "v"], ["y"], name="a"), inputs=[tensor("x", 2, 3), tensor("v", 4)]
        ),
        "node 'a' (Add)",
        "broadcast",
    ),
    "element types": (
        lambda: model(
            node("Add", ["x", "v"], ["y"], name="a"),
            inputs=[tensor("x", 2, 3), tensor("v", 3, kind=TensorProto.INT64)],
        ),
        "node 'a' (Add)",
        "float32 and int64",
    ),
    "element type of an operator": (
        lambda: model(node("Not", ["x"], ["y"], name="n")),
        "node 'n' (Not)",
        "float32",
    ),
    "declared shape": (lambda: relu(outputs=[tensor("y", 3, 2)]), "output 'y'", "float32[2, 3]"),
    "declared type": (
        lambda: relu(outputs=[tensor("y", 2, 3, kind=TensorProto.INT32)]),
        "output 'y'",
        "int32",
    ),
    "dynamic dimension": (
        lambda: relu(inputs=[tensor("x", "batch", 3)]),
        "input 'x'",
        "dimension 0 ('batch') is dynamic",
    ),
    "shape that is not known": (
        lambda: relu(inputs=[tensor("x", None, 3)]),
        "input 'x'",
        "dynamic",
    ),
    "size 0": (lambda: relu(inputs=[tensor("x", 0, 3)]), "input 'x'", "0 elements"),
    "very large input": (
        lambda: relu(inputs=[tensor("x", 1 << 40)]),
        "input 'x'",
        "it needs 4,398,046,511,104 bytes",
    ),
    "number of inputs": (
        lambda: model(node("Add", ["x"], ["y"], name="a")),
        "node 'a' (Add)",
        "1 inputs, not 2",
    ),
    "input left out": (
        lambda: model(node("Add", ["x", ""], ["y"], name="a")),
        "node 'a' (Add)",
        "input 1 is missing",
    ),
    "attribute": (
        lambda: model(node("Relu", ["x"], ["y"], name="r", alpha=1)),
        "node 'r' (Relu)",
        "no attribute 'alpha'",
    ),
    "type of an attribute": (
        lambda: model(node("Concat", ["x", "w"], ["y"], name="c", axis=0.5)),
        "node 'c' (Concat)",
        "'axis'",
    ),
    "shape of a scale": (
        lambda: model(
            node("LayerNormalization", ["x", "s"], ["y"], name="l"),
            stored=[numpy_helper.from_array(np.ones((3, 1), "float32"), "s")],
        ),
        "node 'l' (LayerNormalization)",
        "do not have the shape [3] of a row",
    ),
    "bounds": (
        lambda: model(node("Clip", ["x", "w"], ["y"], name="c")),
        "node 'c' (Clip)",
        "its bounds are not one number each",
    ),
    "flag": (
        lambda: model(node("ReduceMax", ["x"], ["y"], name="m", keepdims=2)),
        "node 'm' (ReduceMax)",
        "keepdims=2 is neither 0 nor 1",
    ),
    "missing attribute": (
        lambda: model(node("Concat", ["x", "w"], ["y"], name="c")),
        "node 'c' (Concat)",
        "'axis' is missing",
    ),
    "second output": (
        lambda: model(
            node("MaxPool", ["x"], ["y", "i"], name="m", kernel_shape=[1]),
            inputs=[tensor("x", 1, 2, 3)],
            outputs=[tensor("y", 1, 2, 3)],
        ),
        "node 'm' (MaxPool)",
        "output 1, 'i'",
    ),
    "shape that is computed": (
        lambda: model(
            node("Reshape", ["x", "s"], ["y"], name="r"),
            inputs=[tensor("x", 2, 3), tensor("s", 2, kind=TensorProto.INT64)],
        ),
        "node 'r' (Reshape)",
        "its shape must be constant, but depends on the input 's'",
    ),
    "very large constant": (
        lambda: model(
            node("ConstantOfShape", ["s"], ["y"], name="c"),
            stored=[numpy_helper.from_array(np.array([1 << 40]), "s")],
        ),
        "node 'c' (ConstantOfShape)",
        "a tensor [1099511627776] needs 4,398,046,511,104 bytes; a model may take 2,147,483,648",
    ),
    "constant that does not fit its shape": (misfit, "constant 'w'", "[5, 3]"),
    "no outputs": (onnx.ModelProto, "ONNX model", "malformed"),
    "no bytes": (lambda: b"", "ONNX model", "malformed"),
    "text": (lambda: b"a model, surely", "ONNX model", "malformed"),
    "half a model": (lambda: relu().SerializeToString()[:90], "ONNX model", "malformed"),
    "number": (lambda: 3, "ONNX model", "int"),
    "missing file": (lambda: "/nowhere/model.onnx", "model 'model.onnx'", "No such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_by_node_and_reason(name) -> None:
    make, what, why = REFUSED[name]
    with pytest.raises(GraphError) as caught:
        graph.from_onnx(make())
    assert what in caught.value.args[0]
    assert why in f"{caught.value.args[0]}: {caught.value.args[1]}"


def test_shapes_fix_dimensions() -> None:
    source = relu(inputs=[tensor("x", "batch", 3)], outputs=[tensor("y", "batch", 3)])
    net = graph.from_onnx(source, shapes={"x": (4, 3)}, name="fixed")
    assert str(net).startswith("def fixed(x: float32[4, 3])")
    with pytest.raises(GraphError, match=r"\[4, 5\], but the model \[batch, 3\]"):
        graph.from_onnx(source, shapes={"x": (4, 5)})
    with pytest.raises(GraphError, match="the inputs of the model are 'x'"):
        graph.from_onnx(source, shapes={"data": (4, 3)})


def test_without_onnx_the_message_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(GraphError, match=r"pip install 'minitvm\[onnx\]'"):
        graph.from_onnx(b"")


@pytest.fixture
def stored(tmp_path):
    """Return a function that stores a model whose constant is in the file `location`."""

    def store(location, **entries):
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        constant = numpy_helper.from_array(W, "w")
        constant.ClearField("raw_data")
        constant.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            constant.external_data.add(key=key, value=str(value))
        made = model(node("Add", ["x", "w"], ["y"]), stored=[constant])
        (folder / "m.onnx").write_bytes(made.SerializeToString())
        (tmp_path / "outside.bin").write_bytes(W.tobytes())
        return folder / "m.onnx"

    return store


def test_constants_are_read_from_files_in_the_folder(stored) -> None:
    path = stored("data/w.bin", offset=4, length=24)
    (path.parent / "data").mkdir()
    (path.parent / "data" / "w.bin").write_bytes(b"1234" + W.tobytes())
    np.testing.assert_array_equal(graph.from_onnx(path).params["w"], W)
    with pytest.raises(GraphError, match=r"constant 'w'.*folder of a model in memory"):
        graph.from_onnx(path.read_bytes())


@pytest.mark.parametrize(
    "location", ["../outside.bin", "/etc/hostname", "a/../../outside.bin", "C:\\x", "..\\x", ""]
)
def test_no_file_outside_the_folder_is_opened(stored, location) -> None:
    with pytest.raises(GraphError, match=r"constant 'w'.*not a path below the model's folder"):
        graph.from_onnx(stored(location))


@pytest.mark.parametrize("location", ["link.bin", "up/outside.bin"])
def test_no_symbolic_link_is_followed(stored, location) -> None:
    path = stored(location)
    os.symlink("../outside.bin", path.parent / "link.bin")
    os.symlink("..", path.parent / "up")
    with pytest.raises(GraphError, match=r"constant 'w'.*symbolic link"):
        graph.from_onnx(path)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"offset": 8}, "ends 8 bytes before"),
        ({"length": 8}, "needs 24 bytes"),
        ({"offset": -4}, "from byte -4"),
        ({"offset": "many"}, "not a number"),
    ],
)
def test_the_place_in_a_file_must_hold_the_constant(stored, entries, why) -> None:
    path = stored("w.bin", **entries)
    (path.parent / "w.bin").write_bytes(W.tobytes())
    with pytest.raises(GraphError, match=f"constant 'w'.*{why}"):
        graph.from_onnx(path)


def test_a_missing_file_is_named(stored) -> None:
    with pytest.raises(GraphError, match=r"constant 'w'.*no file 'w.bin'"):
        graph.from_onnx(stored("w.bin"))


def damaged_model() -> bytes:
    kernel = numpy_helper.from_array(np.ones((2, 2, 3, 3), "float32"), "k")
    rows = numpy_helper.from_array(np.array([0, -1]), "s")
    nodes = (
        node("Conv", ["x", "k"], ["a"], name="c", pads=[1, 1, 1, 1]),
        node("MaxPool", ["a"], ["b"], name="p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", ["b", "s"], ["d"], name="r"),
        node("Softmax", ["d"], ["y"], name="s", axis=1),
    )
    made = model(
        *nodes, inputs=[tensor("x", 1, 2, 4, 4)], outputs=[tensor("y", 1, 8)], stored=[kernel, rows]
    )
    return made.SerializeToString()


def test_a_damaged_model_is_a_network_or_refused() -> None:
    whole, rng, refused = damaged_model(), np.random.default_rng(0), 0
    for trial in range(400):
        data = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 4)):
            data[at] = rng.integers(256)
        source = bytes(data) if trial % 2 else whole[: rng.integers(len(whole))]
        try:
            assert isinstance(graph.from_onnx(source), graph.Graph)
        except GraphError:
            refused += 1
    assert refused > 200


def made(op, *constants, name="n", **attrs):
    """Return an operator on constants, which are the nodes before it."""
    names = [f"{name}{k}" for k in range(len(constants))]
    nodes = [
        node("Constant", [], [n], value=numpy_helper.from_array(np.asarray(c)))
        for n, c in zip(names, constants, strict=True)
    ]
    return [*nodes, node(op, names, ["v"], name=name, **attrs)]


COLUMN, ROW = np.ones((1 << 12, 1), "int64"), np.ones((1, 1 << 12), "int64")
IMAGE = np.ones((1, 1, 2, 2), "float32")
LARGE = {  # operators that make a large tensor of small ones
    "ConstantOfShape": made("ConstantOfShape", [1 << 24]),
    "Expand": made("Expand", np.float32(1), [1 << 12, 1 << 12]),
    "Range": made("Range", 0, 1 << 24, 1),
    "Pad": made("Pad", np.float32([1]), [1 << 24, 0]),
    "Mul": made("Mul", COLUMN, ROW),
    "Div": made("Div", COLUMN, ROW),
    "Pow": made("Pow", COLUMN, ROW),
    "Gather": made("Gather", ROW, np.zeros(1 << 12, "int64")),
    "MatMul": made("MatMul", COLUMN.astype("float32"), ROW.astype("float32")),
    "MaxPool": made(
        "MaxPool", IMAGE, kernel_shape=[1, 1], pads=[1 << 12] * 4, strides=[1 << 12] * 2
    ),
    "ConvTranspose": made("ConvTranspose", IMAGE, IMAGE, strides=[1 << 13] * 2, pads=[1 << 12] * 4),
}


@pytest.mark.parametrize("op", LARGE)
def test_a_large_constant_is_refused_before_it_is_computed(op) -> None:
    source = model(*LARGE[op], node("Relu", ["x"], ["y"]))
    with pytest.raises(GraphError, match=rf"node 'n' \({op}\): a tensor .* needs [\d,]+ bytes"):
        graph.from_onnx(source, budget=1 << 20)


def test_the_bytes_of_all_constants_are_added() -> None:
    parts = [made("ConstantOfShape", [1 << 8], name=f"n{k}")[0:2] for k in range(9)]
    for k, (_, last) in enumerate(parts):
        last.output[0] = f"v{k}"
    source = model(*(n for part in parts for n in part), node("Relu", ["x"], ["y"]))
    assert graph.from_onnx(source, budget=10_000)
    with pytest.raises(GraphError, match=r"node 'n7' .*needs 1,024 bytes; a model may take 8,000"):
        graph.from_onnx(source, budget=8000)


def test_the_bytes_of_intermediate_tensors_are_limited() -> None:
    source = relu(outputs=[tensor("y", 2, 3)])
    with pytest.raises(GraphError, match=r"node 'r' \(Relu\): a tensor \[2, 3\] needs 24 bytes"):
        graph.from_onnx(source, budget=60)
    with pytest.raises(GraphError, match=r"model 'net': all that it computes needs"):
        graph.from_onnx(model(node("Relu", ["x"], ["a"]), node("Exp", ["a"], ["y"])), budget=100)


@pytest.mark.parametrize(
    ("rows", "why"),
    [(1 << 40, r"needs 13,194,139,533,312 bytes"), (1 << 20, "bytes before the end")],
)
def test_a_file_is_not_read_if_its_size_does_not_fit(stored, rows, why) -> None:
    path = stored("w.bin")
    (path.parent / "w.bin").write_bytes(W.tobytes())
    large = onnx.load(path, load_external_data=False)
    large.graph.initializer[0].dims[0] = rows
    path.write_bytes(large.SerializeToString())
    with pytest.raises(GraphError, match=f"constant 'w': .*{why}"):
        graph.from_onnx(path)


def test_a_file_of_a_model_is_not_read_if_it_is_too_large(tmp_path) -> None:
    (tmp_path / "m.onnx").write_bytes(relu().SerializeToString())
    with pytest.raises(GraphError, match=r"model 'm.onnx': it needs \d+ bytes; a model may take 9"):
        graph.from_onnx(tmp_path / "m.onnx", budget=9)


def test_a_constant_may_be_empty() -> None:
    empty = numpy_helper.from_array(np.zeros(0, "int64"), "e")
    nodes = (
        node("Concat", ["e", "s", "e"], ["t"], axis=0),
        node("Slice", ["t", "b", "b"], ["none"]),
        node("Unsqueeze", ["x", "none"], ["z"]),
        node("Reshape", ["z", "t"], ["y"]),
    )
    shape, start = (numpy_helper.from_array(np.array(v), n) for n, v in (("s", [3, 2]), ("b", [1])))
    net = graph.from_onnx(model(*nodes, stored=[empty, shape, start], outputs=[tensor("y", 3, 2)]))
    assert net.outputs[0].type.shape == (3, 2)


@pytest.mark.parametrize(
    ("sizes", "fix"),
    [(("batch", 4), r"shapes={'x': \(1, 4\)}"), ((None, 3, "h"), r"shapes={'x': \(1, 3, 1\)}")],
)
def test_a_hint_has_the_name_and_the_rank_of_the_input(sizes, fix) -> None:
    with pytest.raises(GraphError, match=f"try: from_onnx.*{fix}"):
        graph.from_onnx(relu(inputs=[tensor("x", *sizes)]))
