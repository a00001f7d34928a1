"""The networks that are measured, and calls of the same networks in other libraries.

Import this after arguments() of _common, which sets the number of threads.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
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
    "lstm": graph.networks.lstm,
    "dqn": graph.networks.dqn,
    "dcgan": graph.networks.dcgan,
}
Run = Callable[[], Any]


def inputs_of(net: graph.Graph) -> list[np.ndarray]:
    """Return an array for each input: random numbers in 0 .. 1 for floats, zeros for integers."""
    rng = np.random.default_rng(0)
    return [
        rng.random(n.type.shape, np.float32)
        if n.type.dtype.is_float
        else np.zeros(n.type.shape, n.type.dtype.numpy)
        for n in net.inputs
    ]


def relative_error(found: Any, exact: Any) -> float:
    """Return the largest difference of the first results, relative to the largest element."""
    a, b = (each[0] if isinstance(each, list | tuple) else each for each in (found, exact))
    return float(np.abs(a - b).max() / np.abs(b).max())


def peers(net: graph.Graph, inputs: Sequence[np.ndarray], threads: int) -> dict[str, Run]:
    """Return calls by library: torch, and installed libraries that load what torch exports."""
    if torch is None:
        return {}
    warnings.simplefilter("ignore")  # about torch's exporters
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tensors, module = tuple(map(torch.from_numpy, inputs)), TorchNet(net).eval()
    found: dict[str, Run | None] = {"torch": lambda: module(*tensors)}
    if inputs[0].ndim == 4:
        last = TorchNet(net).eval().to(memory_format=torch.channels_last)
        other = tensors[0].to(memory_format=torch.channels_last)
        found["channels_last"] = lambda: last(other)
    found["onnxruntime"] = _by_onnx_runtime(module, tensors, threads)
    found["openvino"] = _by_openvino(module, tensors, threads)
    return {name: run for name, run in found.items() if run is not None}


def _by_onnx_runtime(module: Any, inputs: tuple[Any, ...], threads: int) -> Run | None:
    """Return a call of ONNX Runtime, or None if it or the exporter is not installed."""
    try:
        import onnx  # noqa: F401  # torch's exporter needs it
        import onnxruntime
    except ImportError:
        return None
    options, exported = onnxruntime.SessionOptions(), io.BytesIO()
    options.intra_op_num_threads = threads
    torch.onnx.export(module, inputs, exported, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        exported.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    given = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    return lambda: session.run(None, given)


def _by_openvino(module: Any, inputs: tuple[Any, ...], threads: int) -> Run | None:
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
    model = openvino.convert_model(module, example_input=inputs)
    request = openvino.compile_model(model, "CPU", config).create_infer_request()
    given = {n: x.numpy() for n, x in enumerate(inputs)}
    return lambda: request.infer(given)
