"""Tune whole networks, and compare them with their defaults, ONNX Runtime and OpenVINO.

    python benchmarks/ansor_net.py [--threads 1] [--quick] [--json FILE] [--log FILE]
                                   [SECONDS] [resnet18 resnet50 mobilenet_v2 squeezenet bert]

SECONDS (300; 60 with --quick) is the time for each network, without the final turns. With --log,
the same command continues. Batch 1, float32; the peers get the network as torch exports it, and are
left out if they or torch are not installed. All take turns in one process. Inferences per second.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from typing import Any

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__, files=("log",))

import numpy as np

import minitvm as tvm
from minitvm import auto_scheduler, graph

warnings.simplefilter("ignore")  # about torch's exporters
NETWORKS: dict[str, Callable[[], graph.Graph]] = {
    "resnet18": graph.networks.resnet18,
    "resnet50": graph.networks.resnet50,
    "mobilenet_v2": graph.networks.mobilenet_v2,
    "squeezenet": graph.networks.squeezenet,
    "bert": lambda: graph.networks.bert(layers=1),
}
TARGET = f"llvm -num-cores={flags.threads} -unroll=0"  # halves the time of compiling a candidate
SECONDS = next((float(c) for c in flags.cases if c not in NETWORKS), 60 if flags.quick else 300)
CASES = [c for c in flags.cases if c in NETWORKS] or ["resnet18", "mobilenet_v2", "resnet50"]
ROUNDS = 8 if flags.quick else 25


def peers(net: graph.Graph, x: Any) -> dict[str, Callable[[], Any]]:
    """Return the calls of the peers that are installed."""
    found: dict[str, Callable[[], Any]] = {}
    try:
        import torch
        from _torch_net import TorchNet
    except ImportError:
        return found
    torch.set_num_threads(flags.threads)
    module, tensor = TorchNet(net).eval(), torch.from_numpy(x)
    try:
        import onnx  # noqa: F401  # torch's exporter needs it
        import onnxruntime

        options, exported = onnxruntime.SessionOptions(), io.BytesIO()
        options.intra_op_num_threads = flags.threads
        torch.onnx.export(module, (tensor,), exported, dynamo=True, verbose=False)
        session = onnxruntime.InferenceSession(
            exported.getvalue(), options, providers=["CPUExecutionProvider"]
        )
        given = {session.get_inputs()[0].name: x}
        found["onnxruntime"] = lambda: session.run(None, given)
    except ImportError:
        pass
    try:
        import openvino

        config = {
            "INFERENCE_NUM_THREADS": flags.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        model = openvino.convert_model(module, example_input=tensor)
        request = openvino.compile_model(model, "CPU", config).create_infer_request()
        found["openvino"] = lambda: request.infer({0: x})
    except ImportError:
        pass
    return found


def compared(name: str) -> Row:
    """Tune a network, and measure it beside its default and the peers."""
    net = NETWORKS[name]()
    line = auto_scheduler.TasksLine() if sys.stderr.isatty() else None
    rng = np.random.default_rng(0)
    tuned = graph.tune(net, TARGET, seconds=SECONDS, log=flags.log, on=line, rng=rng)
    print(f"{name}\n{tuned}", flush=True)
    x = np.random.default_rng(0).random(net.inputs[0].type.shape, np.float32)
    ours, default = graph.compile(net, TARGET, pick=tuned.pick), graph.compile(net, TARGET)
    error = float(np.abs(ours(x) - default(x)).max() / np.abs(default(x)).max())
    runs = {"tuned": lambda: ours(x), "default": lambda: default(x), **peers(net, x)}
    seconds = best_seconds(runs, ROUNDS, burst=2)
    print(f"{name}: {seconds['tuned'] * 1e3:.2f} ms, {error:.1e} from the default", flush=True)
    rates = {each: 1 / t for each, t in seconds.items()}
    return Row(name, flags.threads, "inferences/s", rates.pop("tuned"), rates)


def main() -> None:
    """Tune the chosen networks and print the table."""
    tvm.set_num_threads(flags.threads)
    report([*map(compared, CASES)], flags.json, ("default", "onnxruntime", "openvino"))


if __name__ == "__main__":  # measuring processes may import this file
    main()
