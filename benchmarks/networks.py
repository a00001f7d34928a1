"""Compare whole networks, compiled without search, with torch, ONNX Runtime and OpenVINO.

    python benchmarks/networks.py --threads 1 [--quick] [--json FILE] [--winograd yes|no]
                                  [resnet18 resnet50 mobilenet_v2 squeezenet bert]

Batch 1, float32, images of 224x224 pixels; BERT is one encoder layer of 128 words. Weights are
random. The peers get the same network: torch runs it operator by operator, in both layouts; ONNX
Runtime and OpenVINO get it as torch exports it. All take turns in one process. Inferences per
second; the error is relative to the largest result, against float64 by numpy.

--winograd no   our convolutions are direct
"""

import io
import sys
import warnings
from collections.abc import Callable
from typing import Any

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__, winograd=("yes", "no"))

import numpy as np

import minitvm as tvm
from minitvm import graph

try:
    import torch
    from _torch_net import TorchNet
except ImportError:
    print("networks.py compares with torch, which is not installed: pip install -e '.[torch]'")
    sys.exit(0)

warnings.simplefilter("ignore")  # about torch's exporters
NETWORKS: dict[str, Callable[[], graph.Graph]] = {
    "resnet18": graph.networks.resnet18,
    "resnet50": graph.networks.resnet50,
    "mobilenet_v2": graph.networks.mobilenet_v2,
    "squeezenet": graph.networks.squeezenet,
    "bert": lambda: graph.networks.bert(layers=1),
}
ROUNDS = 8 if flags.quick else 25


def by_onnx_runtime(module: Any, x: Any) -> Callable[[], Any] | None:
    """Return a call of ONNX Runtime, or None if it or the exporter is not installed."""
    try:
        import onnx  # noqa: F401  # torch's exporter needs it
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = flags.threads
    exported = io.BytesIO()
    torch.onnx.export(module, (x,), exported, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        exported.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    given = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, given)


def by_openvino(module: Any, x: Any) -> Callable[[], Any] | None:
    """Return a call of OpenVINO, or None if it is not installed."""
    try:
        import openvino
    except ImportError:
        return None
    config = {
        "INFERENCE_NUM_THREADS": flags.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.convert_model(module, example_input=x)
    compiled = openvino.compile_model(model, "CPU", config)
    request, array = compiled.create_infer_request(), x.numpy()
    return lambda: request.infer({0: array})


def runs_of(net: graph.Graph) -> tuple[dict[str, Callable[[], Any]], float]:
    """Return our call and those of the peers, and our error."""
    x = np.random.default_rng(0).random(net.inputs[0].type.shape, np.float32)
    compiled = graph.compile(net, winograd=flags.winograd == "yes")
    (exact,) = graph.evaluate(net, x, dtype="float64")
    error = float(np.abs(compiled(x) - exact).max() / np.abs(exact).max())
    tensor, module = torch.from_numpy(x), TorchNet(net).eval()
    found: dict[str, Callable[[], Any] | None] = {"ours": lambda: compiled(x)}
    found["torch"] = lambda: module(tensor)
    if x.ndim == 4:
        last = TorchNet(net).eval().to(memory_format=torch.channels_last)
        other = tensor.to(memory_format=torch.channels_last)
        found["channels_last"] = lambda: last(other)
    found["onnxruntime"] = by_onnx_runtime(module, tensor)
    found["openvino"] = by_openvino(module, tensor)
    return {name: run for name, run in found.items() if run is not None}, error


def main() -> None:
    """Measure the chosen networks and print the table."""
    torch.set_num_threads(flags.threads)
    torch.set_grad_enabled(False)
    tvm.set_num_threads(flags.threads)
    rows = list[Row]()
    for name in flags.cases or NETWORKS:
        runs, error = runs_of(NETWORKS[name]())
        seconds = best_seconds(runs, ROUNDS, burst=2)
        rates = {each: 1 / t for each, t in seconds.items()}
        print(f"{name}: {seconds['ours'] * 1e3:.2f} ms, error {error:.1e}", flush=True)
        rows.append(Row(name, flags.threads, "inferences/s", rates.pop("ours"), rates))
    report(rows, flags.json, ("torch", "channels_last", "onnxruntime", "openvino"))


main()
