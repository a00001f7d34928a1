"""Compare quantised networks with ONNX Runtime and OpenVINO: results on 10 images, and times.

    python benchmarks/int8_net.py --threads 1 [--quick] [--json FILE] [--models FOLDER] [case ...]

The networks are torchvision's with random weights, quantised by ONNX Runtime's static quantiser:
QuantizeLinear and DequantizeLinear nodes, int8 weights with a scale for each channel, uint8
activations, ranges of 8 images. --models keeps the files in FOLDER, or reads them from there.

Every output must be equal to that of ONNX Runtime's optimised session on 10 images. With one thread
the CPU time of the process counts, which other programs do not change; with more threads the wall
time. "fp32" is our network in float32.

The goals, on a CPU with VNNI and without AMX: ResNet-18 at 1.1 times the rate of ONNX Runtime and
1.05 times that of OpenVINO, ResNet-50 at 1.05 and 1.0, MobileNet-V2 at 1.1 times the faster one.
"""

from _common import Row, arguments, prepared, report

CASES = ["resnet18", "resnet50", "mobilenet_v2"]

flags = arguments(__doc__, ("models",))

import random  # after arguments() has set the number of threads
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
import torchvision
from onnxruntime import quantization

import minitvm as tvm
from minitvm import graph

IMAGES, SIZE = 10, 224
KINDS = ("onnx", "pre.onnx", "u8s8.onnx")


def images(count: int, seed: int) -> torch.Tensor:
    """Return smooth random images with noise."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.randn(count, 3, SIZE // 8, SIZE // 8, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, size=SIZE, mode="bicubic")
    return smooth + 0.3 * torch.randn(count, 3, SIZE, SIZE, generator=g)


class Calibration(quantization.CalibrationDataReader):
    """Feeds 8 images to the quantiser."""

    def __init__(self) -> None:
        self.feeds = iter([{"x": images(1, 100 + k).numpy()} for k in range(8)])

    def get_next(self) -> Any:
        """Return the next input, or None."""
        return next(self.feeds, None)


def written(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the files of a network in float32 and quantised; write them unless they exist."""
    plain, ready, quantised = (folder / f"{name}.{kind}" for kind in KINDS)
    if not quantised.exists():
        torch.manual_seed(0)
        net = getattr(torchvision.models, name)(weights=None)
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = None
                torch.nn.init.uniform_(module.weight, 0.5, 1.5)
                torch.nn.init.normal_(module.bias, 0, 0.1)
        with torch.no_grad():  # statistics of the batch normalisations
            net.train()(images(16, 10))
        example = (images(1, 0),)
        options = {"dynamo": False, "opset_version": 17, "input_names": ["x"]}
        torch.onnx.export(net.eval(), example, str(plain), **options)
        quantization.quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(ready),
            str(quantised),
            Calibration(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
    return plain, quantised


def runtime(file: Path, threads: int) -> Any:
    """Return a session of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def openvino_run(file: Path, threads: int, x: np.ndarray) -> Callable[[], Any]:
    """Return a function that runs a network by OpenVINO."""
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(file), "CPU", options).create_infer_request()
    return lambda: request.infer({0: x})


def seconds(runs: Mapping[str, Callable[[], Any]], rounds: int, threads: int) -> dict[str, float]:
    """Return the shortest time of each run; they take turns, in a new order each round."""
    clock = time.process_time if threads == 1 else time.perf_counter
    best, order = dict.fromkeys(runs, float("inf")), random.Random(0)
    for n in range(rounds + 1):
        for name in order.sample([*runs], len(runs)):
            for _ in range(3):
                start = clock()
                runs[name]()
                taken = clock() - start
                if n > 0:
                    best[name] = min(best[name], taken)
    return best


def measure(name: str, folder: Path) -> Row:
    """Compare one network with the peers."""
    plain, quantised = written(name, folder)
    target, threads = f"llvm -num-cores={flags.threads}", flags.threads
    net = graph.from_onnx(quantised)
    ours, session = graph.compile(net, target), runtime(quantised, threads)
    floats = graph.compile(graph.from_onnx(plain), target)
    rng, equal = np.random.default_rng(0), 0
    for _ in range(IMAGES):
        x = (rng.standard_normal((1, 3, SIZE, SIZE)) * rng.uniform(0.3, 3)).astype(np.float32)
        equal += np.array_equal(ours(x), session.run(None, {"x": x})[0])
    print(f"{name}: all outputs equal to ONNX Runtime's for {equal} of {IMAGES} images")
    left = [d for d in graph.explain(net).operators if d.why]
    print(f"{name}: {len(left)} operators in float32", *left, sep="\n  ")
    x = images(1, 7).numpy()
    peers = prepared({"openvino": lambda: openvino_run(quantised, threads, x)})
    runs = {"ours": lambda: ours(x), "onnxruntime": lambda: session.run(None, {"x": x})}
    found = seconds({**runs, **peers, "fp32": lambda: floats(x)}, 4 if flags.quick else 12, threads)
    print(f"{name}:", ", ".join(f"{key} {value * 1e3:.2f} ms" for key, value in found.items()))
    rates = {key: 1 / value for key, value in found.items()}
    return Row(name, threads, "inferences/s", rates.pop("ours"), rates)


def main() -> None:
    """Measure all cases and print the table."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(flags.threads)
    tvm.set_num_threads(flags.threads)
    with tempfile.TemporaryDirectory() as temporary:
        folder = flags.models or Path(temporary)
        rows = [measure(name, folder) for name in flags.cases or CASES]
    report(rows, flags.json, ("onnxruntime", "openvino", "fp32"))


if __name__ == "__main__":
    main()
