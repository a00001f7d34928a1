"""finish_line(): where the course ends, a whole network compiled here, beside another library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from minitvm import runtime, viz

STORED = Path(__file__).with_name("finish_line.json")
LAYER = "four layers of one shape: 3x3, 64 to 64 channels, 56 x 56"
SAME = tuple(f"layer1.{block}.conv{n}" for block in (0, 1) for n in (1, 2))  # it occurs four times


def finish_line(module: runtime.NetworkModule | None = None) -> viz.NetworkTimes:
    """Show stored times of ResNet-18 for one image on one core, and the time of each layer.

    module   show its layers, as measured now, not the stored ones:
             graph.compile(graph.networks.resnet18(), "llvm -num-cores=1")
    """
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    whole = {name: {"all layers": stored[name]} for name in ("minitvm", "ONNX Runtime")}
    if module is None:
        where, layers = stored["layers_cpu"], stored["layers"]
    else:
        image = np.random.default_rng(0).random((1, 3, 224, 224), dtype="float32")
        calls = module.profile(image, number=20).calls
        where, layers = "this machine", {call.name: call.seconds for call in calls}
    times = {f"{name}, {stored['cpu']}": layers for name, layers in whole.items()}
    times[f"minitvm, {where}"] = layers
    heading = "ResNet-18, one image, one core (times of named processors are stored)"
    return viz.NetworkTimes(times, SAME, LAYER, heading)
