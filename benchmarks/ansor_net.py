"""Tune whole networks, and compare them with their defaults, torch, ONNX Runtime and OpenVINO.

    python benchmarks/ansor_net.py [--threads 1] [--quick] [--json FILE] [--log FILE] [--seeds 1]
                                   [--isa all|avx2] [SECONDS] [resnet18 resnet50 mobilenet_v2
                                   squeezenet bert lstm dqn dcgan]

SECONDS (300; 60 with --quick) is the time for each network, without the last measurements. With
--log, the same command continues; with several --seeds, each search has a log of its own:
NAME-seed1.jsonl
Batch 1, float32; the peers get the network as torch exports it, and are left out if they or torch
are not installed. All take turns in one process. Inferences per second. --isa avx2: ours and the
peers without AVX-512; those that cannot be held back are named
"""

from __future__ import annotations

import sys
from pathlib import Path

from _common import ISAS, Row, arguments, best_seconds, report, searches, target

flags = arguments(__doc__, files=("log",), seeds=("1", "3", "5"), isa=ISAS)

import numpy as np
from _networks import NETWORKS, inputs_of, peers, relative_error

import minitvm as tvm
from minitvm import auto_scheduler, graph

TARGET = f"{target(flags, flags.threads)} -unroll=0"  # halves the time of compiling a candidate
SECONDS = next((float(c) for c in flags.cases if c not in NETWORKS), 60 if flags.quick else 300)
CASES = [c for c in flags.cases if c in NETWORKS] or ["resnet18", "mobilenet_v2", "resnet50"]
ROUNDS = 8 if flags.quick else 25


def compared(label: str, name: str, seed: int, log: Path | None) -> Row:
    """Tune a network, and measure it beside its default and the peers."""
    net = NETWORKS[name]()
    line = auto_scheduler.TasksLine() if sys.stderr.isatty() else None
    rng = np.random.default_rng(seed)
    tuned = graph.tune(net, TARGET, seconds=SECONDS, log=log, on=line, rng=rng)
    print(f"{label}\n{tuned}", flush=True)
    inputs = inputs_of(net)
    ours = graph.compile(net, TARGET, pick=tuned.pick, passes=tuned.passes)
    default = graph.compile(net, TARGET)
    error = relative_error(ours(*inputs), default(*inputs))
    runs = {"tuned": lambda: ours(*inputs), "default": lambda: default(*inputs)}
    runs |= peers(net, inputs, flags.threads, flags.isa)
    seconds = best_seconds(runs, ROUNDS, 0.3 if flags.threads > 1 else 0.0)
    print(f"{label}: {seconds['tuned'] * 1e3:.2f} ms, {error:.1e} from the default", flush=True)
    rates = {each: 1 / t for each, t in seconds.items()}
    return Row(label, flags.threads, "inferences/s", rates.pop("tuned"), rates)


def main() -> None:
    """Tune the chosen networks and print the table."""
    tvm.set_num_threads(flags.threads)
    rows = [compared(*search) for search in searches(CASES, int(flags.seeds), flags.log)]
    report(rows, flags.json, ("default", "onnxruntime", "openvino"))


if __name__ == "__main__":  # measuring processes may import this file
    main()
