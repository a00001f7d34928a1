"""The command line of networks: a table, a profile, a page, and explained mistakes."""

import re
from pathlib import Path

import pytest

from minitvm import __main__ as command_line
from minitvm import graph, net, viz
from minitvm.base import ArgumentError, Target
from minitvm.graph import cache

PASS = r"<tr><td>(\w+)</td><td class=\"n\">(\d+)</td>"


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> tuple[str, str]:
    """What `net dqn` prints, and the page that it writes."""
    folder = tmp_path_factory.mktemp("net")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.VARIABLE, str(folder))
        lines, page = list[str](), folder / "page.html"
        net.main(["dqn", "--no-winograd", "--time", "--report", str(page)], lines.append)
    assert lines[-1] == f"wrote {page}"
    return "\n".join(lines), page.read_text(encoding="utf-8")


def test_a_network_is_summarised(said: tuple[str, str]) -> None:
    text, _ = said
    assert re.search(r"dqn: \d kernels, \d calls, \d+ MFLOP", text)
    assert re.search(r"conv2d_add_relu +float32\[1, 9, 9, 64\] +1 ", text)
    naive, pool, offsets, least = map(
        float,
        re.search(
            r"naive ([\d.]+) MB, pool ([\d.]+) MB, offsets ([\d.]+) MB\n"
            r" +no plan needs less than ([\d.]+) MB",
            text,
        ).groups(),  # pyright: ignore[reportOptionalMemberAccess]
    )
    assert 0 < least <= offsets <= pool <= naive
    (error,) = re.findall(r"error +([\de.-]+) of the largest output", text)
    assert 0 < float(error) < 1e-5
    assert re.search(r"one run: [\d.]+ us", text)
    for name in ("conv0", "conv2", "hidden", "values"):
        assert re.search(rf"^{name} +\d", text, re.MULTILINE)


def test_the_page_needs_no_other_file(said: tuple[str, str]) -> None:
    _, page = said
    assert not re.search(r'(src|href)="?http', page)
    assert page.count("<svg") == 3
    for part in ("The network dqn", "GFLOP/s", "fold_constants", "a pool of blocks", "Machine"):
        assert part in page
    rows = dict(re.findall(PASS, page.split("<h2>Passes")[1].split("<h2>")[0]))
    assert list(rows) == ["before", *(name for name, _ in graph.PASSES)]
    assert int(rows["fuse"]) < int(rows["before"])


def test_the_page_draws_where_each_tensor_lies(said: tuple[str, str]) -> None:
    _, page = said
    memory = page.split("<h2>Memory")[1].split("<h2>")[0]
    assert memory.count("<svg") == 1
    drawn = set(re.findall(r'data-key="(tensor:\d+)"', memory))
    kernels = graph.optimized(graph.networks.dqn(), winograd=False)
    assert len(drawn) == len(kernels.calls) - len(kernels.outputs)
    for name in ("own memory", "pool", "offsets"):
        assert f"{name}: " in memory


def test_a_page_of_a_very_long_network_has_no_picture_of_its_memory(monkeypatch) -> None:
    b = graph.Builder("short")
    y = b.softmax(b.softmax(b.input("x", (4, 8))))
    found = net.measured(b.graph(y), Target("python"))
    assert "own memory: " in net.report(found)
    monkeypatch.setattr(viz.MemoryPlan, "most_calls", 1)
    assert "own memory: " not in net.report(found)


def test_images_have_a_size() -> None:
    parser = net.parser().parse_args(["resnet18", "--size", "64"])
    assert net.network(parser.name, parser.size).inputs[0].type.shape == (1, 3, 64, 64)


def test_open_shapes_of_a_model_are_given(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx").helper
    x, y = (helper.make_tensor_value_info(n, 1, ("batch", 4)) for n in "xy")
    draft = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(draft, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    found = net.network(str(path), shapes=dict([net.shape("x=3,4")]))
    assert found.inputs[0].type.shape == (3, 4)
    assert net.shape("x=3x4") == net.shape("x=3,4")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resnet17",), "there is no such network"),
        (("resnet17",), "resnet18"),
        (("dqn", "--size", "64"), "dqn has no images"),
        (("dqn", "--shape", "data=1,2"), "only an ONNX model has open shapes"),
        (("net.onnx", "--shape", "data"), "not the name of an input and its sizes"),
        (("net.onnx", "--size", "64"), "--shape NAME="),
        (("dqn", "--threads", "0"), "it must be at least 1"),
        (("resnet18", "--size", "0"), "not an integer of at least 1"),
        (("dqn", "--log", "log.jsonl"), "--tune SECONDS too"),
        (("dqn", "--tune", "0"), "a number above 0"),
        (("dqn", "--report", "no/such/folder.html"), "there is no folder"),
    ],
)
def test_mistakes_are_explained(words, message, capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["net", *words]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_network_is_tuned_before_it_is_measured(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(net.commands, "network", lambda *_: relu())
    tune, budgets = graph.tune, list[float]()

    def briefly(*args, seconds: float, **options):
        budgets.append(seconds)
        return tune(*args, trials=2, **options)

    monkeypatch.setattr(graph, "tune", briefly)
    said, log = list[str](), tmp_path / "log.jsonl"
    net.main(["relu", "--tune", "0.5", "--log", str(log)], said.append)
    assert budgets == [0.5]
    assert "Estimated total latency" in said[0]
    assert "kernels faster than their default: " in said[0]
    assert "one run" in said[1]
    assert log.exists()


def relu() -> graph.Graph:
    b = graph.Builder("relu")
    return b.graph(b.relu(b.input("x", (8, 64))))


def test_an_onnx_model_is_a_network_too(tmp_path) -> None:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    parts = [value(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    made = onnx.helper.make_graph([node], "tiny", parts[:1], parts[1:])
    opset = [onnx.helper.make_opsetid("", 20)]
    model = onnx.helper.make_model(made, opset_imports=opset, ir_version=10)
    path = tmp_path / "tiny.onnx"
    onnx.save(model, path)
    said: list[str] = []
    net.main([str(path)], said.append)
    assert "relu" in said[0]
    with pytest.raises(ArgumentError, match="an ONNX model has the sizes of its inputs"):
        net.main([str(path), "--size", "8"])
