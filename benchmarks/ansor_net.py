"""Tune whole networks, and compare them with their defaults, torch, ONNX Runtime and OpenVINO.

    python benchmarks/ansor_net.py [--threads 1] [--quick] [--json FILE] [--log FILE]
                                   [SECONDS] [resnet18 resnet50 mobilenet_v2 squeezenet bert]

SECONDS (300; 60 with --quick) is the time for each network, without the final turns. With --log,
the same command continues. Batch 1, float32; the peers get the network as torch exports it, and are
left out if they or torch are not installed. All take turns in one process. Inferences per second.
"""

from __future__ import annotations

import sys

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__, files=("log",))

import numpy as np
from _networks import NETWORKS, peers

import minitvm as tvm
from minitvm import auto_scheduler, graph

TARGET = f"llvm -num-cores={flags.threads} -unroll=0"  # halves the time of compiling a candidate
SECONDS = next((float(c) for c in flags.cases if c not in NETWORKS), 60 if flags.quick else 300)
CASES = [c for c in flags.cases if c in NETWORKS] or ["resnet18", "mobilenet_v2", "resnet50"]
ROUNDS = 8 if flags.quick else 25


def compared(name: str) -> Row:
    """Tune a network, and measure it beside its default and the peers."""
    net = NETWORKS[name]()
    line = auto_scheduler.TasksLine() if sys.stderr.isatty() else None
    rng = np.random.default_rng(0)
    tuned = graph.tune(net, TARGET, seconds=SECONDS, log=flags.log, on=line, rng=rng)
    print(f"{name}\n{tuned}", flush=True)
    x = np.random.default_rng(0).random(net.inputs[0].type.shape, np.float32)
    ours = graph.compile(net, TARGET, pick=tuned.pick, passes=tuned.passes)
    default = graph.compile(net, TARGET)
    error = float(np.abs(ours(x) - default(x)).max() / np.abs(default(x)).max())
    runs = {"tuned": lambda: ours(x), "default": lambda: default(x), **peers(net, x, flags.threads)}
    seconds = best_seconds(runs, ROUNDS, 0.3 if flags.threads > 1 else 0.0)
    print(f"{name}: {seconds['tuned'] * 1e3:.2f} ms, {error:.1e} from the default", flush=True)
    rates = {each: 1 / t for each, t in seconds.items()}
    return Row(name, flags.threads, "inferences/s", rates.pop("tuned"), rates)


def main() -> None:
    """Tune the chosen networks and print the table."""
    tvm.set_num_threads(flags.threads)
    report([*map(compared, CASES)], flags.json, ("default", "onnxruntime", "openvino"))


if __name__ == "__main__":  # measuring processes may import this file
    main()
