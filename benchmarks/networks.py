"""Compare whole networks, compiled without search, with torch, ONNX Runtime and OpenVINO.

    python benchmarks/networks.py --threads 1 [--quick] [--json FILE] [--winograd yes|no]
                                  [--isa all|avx2] [resnet18 resnet50 mobilenet_v2 squeezenet bert
                                   lstm dqn dcgan mobilenet_v1 resnet3d18]

Batch 1, float32, images of 224x224 pixels; BERT is one encoder layer of 128 words; the 3D-ResNet
gets 4 frames of 56x56 pixels, not 16 of 112x112. Weights are random. By default, the first five.
The peers get the same network: torch runs it operator by operator, in both layouts; ONNX Runtime
and OpenVINO get it as torch exports it. All take turns in one process. Inferences per second; the
error is relative to the largest result, against float64 by numpy. A peer that cannot be prepared is
left out: pip install -e '.[peers]' installs all.

--winograd no   our convolutions are direct
--isa avx2      ours and the peers without AVX-512; those that cannot be held back are named
"""

from collections.abc import Callable
from typing import Any

from _common import ISAS, Row, arguments, best_seconds, report, target

flags = arguments(__doc__, winograd=("yes", "no"), isa=ISAS)

from _networks import NETWORKS, inputs_of, peers, relative_error

import minitvm as tvm
from minitvm import graph

ROUNDS = 8 if flags.quick else 25


def runs_of(net: graph.Graph) -> tuple[dict[str, Callable[[], Any]], float]:
    """Return calls of our network and of the peers, and our error."""
    inputs = inputs_of(net)
    to = target(flags, flags.threads)
    compiled = graph.compile(net, to, winograd=flags.winograd == "yes")
    error = relative_error(compiled(*inputs), graph.evaluate(net, *inputs, dtype="float64"))
    return {
        "ours": lambda: compiled(*inputs),
        **peers(net, inputs, flags.threads, flags.isa),
    }, error


def main() -> None:
    """Measure the chosen networks and print the table."""
    tvm.set_num_threads(flags.threads)
    rows = list[Row]()
    for name in flags.cases or list(NETWORKS)[:5]:
        runs, error = runs_of(NETWORKS[name]())
        seconds = best_seconds(runs, ROUNDS, 0.3 if flags.threads > 1 else 0.0)
        rates = {each: 1 / t for each, t in seconds.items()}
        print(f"{name}: {seconds['ours'] * 1e3:.2f} ms, error {error:.1e}", flush=True)
        rows.append(Row(name, flags.threads, "inferences/s", rates.pop("ours"), rates))
    report(rows, flags.json, ("torch", "channels_last", "onnxruntime", "openvino"))


main()
