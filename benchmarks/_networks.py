"""The networks that are measured, and calls of the same networks in other libraries.

Import this after arguments() of _common, which sets the number of threads.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import graph

try:
    import torch
    from _torch_net import TorchNet
except ImportError:
    torch = TorchNet = None

NETWORKS: dict[str, Callable[[], graph.Graph]] = {
    "resnet18": graph.networks.resnet18,
    "resnet50": graph.networks.resnet50,
    "mobilenet_v2": graph.networks.mobilenet_v2,
    "squeezenet": graph.networks.squeezenet,
    "bert": lambda: graph.networks.bert(layers=1),
}
Run = Callable[[], Any]


def peers(net: graph.Graph, x: np.ndarray, threads: int) -> dict[str, Run]:
    """Return calls by library: torch, and installed libraries that load what torch exports."""
    if torch is None:
        return {}
    warnings.simplefilter("ignore")  # about torch's exporters
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tensor, module = torch.from_numpy(x), TorchNet(net).eval()
    found: dict[str, Run | None] = {"torch": lambda: module(tensor)}
    if x.ndim == 4:
        last = TorchNet(net).eval().to(memory_format=torch.channels_last)
        other = tensor.to(memory_format=torch.channels_last)
        found["channels_last"] = lambda: last(other)
    found["onnxruntime"] = _by_onnx_runtime(module, tensor, threads)
    found["openvino"] = _by_openvino(module, tensor, threads)
    return {name: run for name, run in found.items() if run is not None}


def _by_onnx_runtime(module: Any, x: Any, threads: int) -> Run | None:
    """Return a call of ONNX Runtime, or None if it or the exporter is not installed."""
    try:
        import onnx  # noqa: F401  # torch's exporter needs it
        import onnxruntime
    except ImportError:
        return None
    options, exported = onnxruntime.SessionOptions(), io.BytesIO()
    options.intra_op_num_threads = threads
    torch.onnx.export(module, (x,), exported, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        exported.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    given = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, given)


def _by_openvino(module: Any, x: Any, threads: int) -> Run | None:
    """Return a call of OpenVINO, or None if it is not installed."""
    try:
        import openvino
    except ImportError:
        return None
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.convert_model(module, example_input=x)
    request = openvino.compile_model(model, "CPU", config).create_infer_request()
    given = {0: x.numpy()}
    return lambda: request.infer(given)
