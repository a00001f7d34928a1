"""The networks that are measured, and calls of the same networks in other libraries.

Import this after arguments() of _common, which sets the number of threads.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _common import prepared

from minitvm import graph

NETWORKS: dict[str, Callable[[], graph.Graph]] = {
    "resnet18": graph.networks.resnet18,
    "resnet50": graph.networks.resnet50,
    "mobilenet_v2": graph.networks.mobilenet_v2,
    "squeezenet": graph.networks.squeezenet,
    "bert": lambda: graph.networks.bert(layers=1),
    "lstm": graph.networks.lstm,
    "dqn": graph.networks.dqn,
    "dcgan": graph.networks.dcgan,
    "mobilenet_v1": graph.networks.mobilenet_v1,
    "resnet3d18": lambda: graph.networks.resnet3d18(frames=4, size=56),
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


def peers(net: graph.Graph, inputs: Sequence[np.ndarray], threads: int, isa: str) -> dict[str, Run]:
    """Return calls by library: torch, and the libraries that load what torch exports."""

    def module() -> Any:
        import torch
        from _torch_net import TorchNet

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        return TorchNet(net).eval()

    warnings.simplefilter("ignore")  # about torch's exporters
    found: dict[str, Callable[[], Run]] = {"torch": lambda: _by_torch(module(), inputs)}
    if inputs[0].ndim == 4:
        found["channels_last"] = lambda: _by_torch(module(), inputs, "channels_last")
    found["onnxruntime"] = lambda: _by_onnx_runtime(module(), inputs, threads)
    found["openvino"] = lambda: _by_openvino(module(), inputs, threads)
    return prepared(found, isa)


def _by_torch(module: Any, inputs: Sequence[np.ndarray], layout: str = "contiguous_format") -> Run:
    import torch

    memory = getattr(torch, layout)
    module = module.to(memory_format=memory)
    tensors = [
        torch.from_numpy(x).to(memory_format=memory) if x.ndim == 4 else torch.from_numpy(x)
        for x in inputs
    ]
    return lambda: module(*tensors)


def _by_onnx_runtime(module: Any, inputs: Sequence[np.ndarray], threads: int) -> Run:
    import onnxruntime
    import torch

    options, exported = onnxruntime.SessionOptions(), io.BytesIO()
    options.intra_op_num_threads = threads
    tensors = tuple(map(torch.from_numpy, inputs))
    torch.onnx.export(module, tensors, exported, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        exported.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    given = dict(zip(names, inputs, strict=True))
    return lambda: session.run(None, given)


def _by_openvino(module: Any, inputs: Sequence[np.ndarray], threads: int) -> Run:
    import openvino
    import torch

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    model = openvino.convert_model(module, example_input=tuple(map(torch.from_numpy, inputs)))
    request = openvino.compile_model(model, "CPU", config).create_infer_request()
    given = dict(enumerate(inputs))
    return lambda: request.infer(given)
