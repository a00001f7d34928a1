"""finish_line(): where the course ends, a whole network compiled here, beside another library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from minitvm import runtime, viz

STORED = Path(__file__).with_name("finish_line.json")
LAYER = "the layer of the ledger: 3x3, 64 to 64 channels, 56 x 56"
SAME = tuple(f"layer1.{block}.conv{n}" for block in (0, 1) for n in (1, 2))  # it occurs four times


def finish_line(module: runtime.NetworkModule | None = None) -> viz.NetworkTimes:
    """Show the stored times of ResNet-18 for one image on one core, split by layers.

    module   a bar for this machine: graph.compile(graph.networks.resnet18(), "llvm -num-cores=1")
    """
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    times: dict[str, dict[str, float]] = {
        "minitvm": stored["minitvm"],
        "ONNX Runtime": {"all layers": stored["onnxruntime"]},
    }
    if module is not None:
        image = np.random.default_rng(0).random((1, 3, 224, 224), dtype="float32")
        calls = module.profile(image, number=20).calls
        times["minitvm, this machine"] = {call.name: call.seconds for call in calls}
    heading = f"ResNet-18, one image, one core; stored: {stored['machine']}"
    return viz.NetworkTimes(times, SAME, LAYER, heading)
