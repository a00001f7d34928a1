"""Networks that torch exports equal those of the builder."""

import io

import numpy as np
import pytest

from minitvm import graph

pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
from benchmarks._torch_net import TorchNet  # noqa: E402

NETWORKS = {
    "resnet18": lambda: graph.networks.resnet18(size=32, width=0.125, classes=10),
    "mobilenet_v2": lambda: graph.networks.mobilenet_v2(size=32, width=0.25, classes=10),
    "squeezenet": lambda: graph.networks.squeezenet(size=48, classes=10),
    "bert": lambda: graph.networks.bert(layers=1, hidden=32, heads=4, length=8),
}


def exported(net: graph.Graph, dynamo: bool) -> bytes:
    inputs = tuple(torch.zeros(x.type.shape) for x in net.inputs)
    names = [x.name for x in net.inputs]
    module = TorchNet(net).eval()
    if dynamo:
        pytest.importorskip("onnxscript")
        program = torch.onnx.export(module, inputs, input_names=names, dynamo=True)
        return program.model_proto.SerializeToString()
    file = io.BytesIO()
    torch.onnx.export(module, inputs, file, input_names=names, dynamo=False, opset_version=17)
    return file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True], ids=["script", "dynamo"])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_torch_exports_computes_what_the_builder_says(name, dynamo, rng) -> None:
    net = NETWORKS[name]()
    found = graph.from_onnx(exported(net, dynamo))
    inputs = [rng.standard_normal(x.type.shape, np.float32) for x in net.inputs]
    assert [x.name for x in found.inputs] == [x.name for x in net.inputs]
    for y, z in zip(graph.evaluate(found, *inputs), graph.evaluate(net, *inputs), strict=True):
        np.testing.assert_allclose(y, z, 1e-4, 1e-4 * np.abs(z).max())
    assert len(graph.optimized(found).calls) == len(graph.optimized(net).calls)
