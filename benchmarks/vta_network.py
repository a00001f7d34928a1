"""Run a whole quantised ResNet-18 on the simulated accelerator: exact, with cycles by layer.

    python benchmarks/vta_network.py                     our ResNet-18 with random weights
    python benchmarks/vta_network.py --torch             torchvision's, with random weights
    python benchmarks/vta_network.py --json rows.json

All scales are powers of two. The accelerator computes 19 convolutions with their biases, residuals
and limits; the CPU computes the first convolution, which has 3 input channels, and the poolings and
the classifier. The logits must be equal to those of the same network of integers in numpy.

"alone" are the cycles of the same layer in benchmarks/vta_resnet.py (stored in
papers_measured.json), without bias and residual: each of these is loaded once for each tile, and
takes one or two ALU operations for each accumulator. "used" is useful work over the peak rate.

The last lines say what the paper's 40x (Chen et al. 2018, figure 21) would mean: it is for these
layers alone, at 200 MHz, beside a Cortex-A9, which is not here. So we print the rate that the CPU
must have if the accelerator is 40 times as fast. The exit status is 1 if a logit differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from _measured import accelerated, at_clocks

from minitvm import graph, runtime, vta

CALIBRATION = 4  # images
# the layer of the paper that each convolution is: stage and place in the block -> case
CASES = {
    **{("1", k): "C2" for k in ("first", "inner")},
    **{("2", "first"): "C4", ("2", "downsample"): "C5", ("2", "inner"): "C6"},
    **{("3", "first"): "C7", ("3", "downsample"): "C8", ("3", "inner"): "C9"},
    **{("4", "first"): "C10", ("4", "downsample"): "C11", ("4", "inner"): "C12"},
}


def case_of(name: str) -> str:
    """Return the paper's number of a convolution, such as layer2.0.conv1."""
    stage, block, conv = name.removeprefix("layer").split(".")[:3]
    place = "first" if (block, conv) == ("0", "conv1") else "inner"
    return CASES[stage, "downsample" if conv == "downsample" else place]


def images(count: int, seed: int) -> list[np.ndarray]:
    """Return smooth random images with noise."""
    rng = np.random.default_rng(seed)
    coarse = rng.standard_normal((count, 1, 3, 28, 28), np.float32)
    smooth = np.kron(coarse, np.ones((8, 8), np.float32))
    return list(smooth + 0.3 * rng.standard_normal(smooth.shape, np.float32))


def torch_network(seed: int) -> graph.Graph:
    """Return torchvision's ResNet-18 with random weights, and normalisations that fit them."""
    import torch
    import torchvision

    torch.manual_seed(seed)
    module = torchvision.models.resnet18(weights=None)
    with torch.no_grad():
        for image in images(CALIBRATION, seed + 1):
            module(torch.from_numpy(np.repeat(image, 2, 0)))
    return graph.from_torch(module.eval(), (torch.from_numpy(images(1, 0)[0]),))


def show(cycles: runtime.Cycles) -> None:
    """Print the table, beside the cycles of each layer without bias and residual."""
    alone = {r["case"]: r["cycles"] for r in accelerated("vta_pynq") if r["vthreads"] > 1}
    first, *rows, total, _ = str(cycles).splitlines()
    print(f"{first} {'case':>5} {'alone':>9}")
    for line, row in zip(rows, cycles.rows, strict=True):
        case = case_of(row.name)
        print(f"{line} {case:>5} {alone[case]:9}")
    print(f"{total} {'':5} {sum(alone[case_of(row.name)] for row in cycles.rows):9}")


def main() -> None:
    """Quantise, compile and run the network; compare, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", action="store_true", help="torchvision's network")
    parser.add_argument("--seed", type=int, default=0, help="of the weights")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here as well")
    flags = parser.parse_args()
    seed = flags.seed
    net = torch_network(seed) if flags.torch else graph.networks.resnet18(seed=seed)
    quantised = graph.quantise(net, images(CALIBRATION, seed + 1), powers_of_two=True)
    (image,) = images(1, seed + 2)
    start = time.process_time()
    module = graph.compile(quantised, "vta")
    built, logits = time.process_time(), module(image)
    simulated = time.process_time()
    integers = graph.optimized(quantised, "vta")
    is_exact = np.array_equal(logits, graph.evaluate(integers, image)[0])
    (real,) = graph.evaluate(net, image)
    cycles = module.cycles
    show(cycles)
    error = float((logits - real).std() / real.std())
    print(
        f"\nlogits equal to integers in numpy: {is_exact}; error to float32 {error:.3f} (std/std)"
    )
    print(f"CPU seconds: compilation {built - start:.1f}, simulation {simulated - built:.1f}")
    work = 2 * sum(vta.RESNET18[case_of(row.name)].macs for row in cycles.rows) / 1e9
    for clock, row in at_clocks(cycles.total, work).items():
        text = f"{work:.2f} GOP in {row['ms']:.1f} ms, {row['GOP/s']:.1f} GOP/s"
        print(f"{clock}: {text}; 40x if the CPU has {row['CPU at 40x']:.1f} GOP/s")
    if flags.json is not None:
        rows = [asdict(row) for row in cycles.rows]
        flags.json.write_text(json.dumps({"exact": is_exact, "error": error, "rows": rows}))
    if not is_exact:
        sys.exit("a logit differs")


if __name__ == "__main__":
    main()
