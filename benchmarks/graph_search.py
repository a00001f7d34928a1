"""Show what graph substitutions save, and where they save nothing.

    python benchmarks/graph_search.py [--quick] [--json FILE] [--log FILE] [--png FOLDER]
                                      [--isa all|avx2] [described measured accelerator tensorrt]

described     networks on a described machine, an A100, where launching a kernel is dear: cost with
              alpha 1, which takes only steps that save something, and with alpha 1.05
measured      this CPU: the networks that the described machine prefers against the original ones,
              alternately; their operations; and what a search by measured kernels finds. --log
              names the file of the measurements
accelerator   the same in cycles of VTA
tensorrt      TensorRT's four optimisations: kernels and times of a BERT layer and of ResNet-18 as
              they are, with weights in int8, and with each of the other three alone turned off.
              These are on by default. They are compared with weights in float32, because
              merge_parallel does not join dense layers with weights in int8

The error is relative to the largest output, against float64 by numpy. --png writes a picture of
each path.
"""

from __future__ import annotations

from _common import ISAS, Row, arguments, best_seconds, report, target

flags = arguments(__doc__, ("log", "png"), isa=ISAS)

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from _networks import inputs_of, relative_error

import minitvm as tvm
from minitvm import graph, viz
from minitvm.graph.networks.layers import Layers
from minitvm.graph.networks.residual import basic
from minitvm.graph.networks.small import SQUEEZENET

ROUNDS = 7 if flags.quick else 25
SIZE = 64 if flags.quick else 224  # pixels of the images of whole networks


def fire(size: int, inputs: int, squeezed: int, expanded: int) -> graph.Graph:
    """Return a fire module (Iandola et al. 2016)."""
    net = Layers("fire", 0)
    x = net.b.input("x", (1, inputs, size, size))
    x = net.b.relu(net.conv(x, "squeeze", squeezed, 1, bias=True))
    one = net.b.relu(net.conv(x, "expand1x1", expanded, 1, bias=True))
    three = net.b.relu(net.conv(x, "expand3x3", expanded, 3, bias=True, padding=1))
    return net.b.graph(net.b.concatenate(one, three, axis=1))


def residual(inputs: int, channels: int, size: int) -> graph.Graph:
    """Return the first block of a stage of ResNet-18, whose shortcut has a convolution."""
    net = Layers("block", 0)
    x = net.b.input("x", (1, inputs, size, size))
    return net.b.graph(basic(net, x, "block", channels, 2))


def fires() -> Iterator[tuple[str, Callable[[], graph.Graph]]]:
    """Yield the fire modules of SqueezeNet 1.1 in 224 x 224 pixels."""
    size, inputs = 55, 64
    for k, pair in enumerate(SQUEEZENET):
        if pair is None:
            size = (size - 1) // 2
        else:
            yield f"fire {k}", partial(fire, size, inputs, *pair)
            inputs = 2 * pair[1]


CASES: dict[str, Callable[[], graph.Graph]] = {
    **dict(fires()),
    "block 2.0": partial(residual, 64, 128, 56),
    "block 3.0": partial(residual, 128, 256, 28),
    "block 4.0": partial(residual, 256, 512, 14),
    "squeezenet": partial(graph.networks.squeezenet, size=SIZE),
    "resnet18": partial(graph.networks.resnet18, size=SIZE),
}
SMALL = ("fire 0", "block 2.0")  # measured, and simulated


def difference(a: graph.Graph, b: graph.Graph) -> float:
    """Return the error of the second network relative to the first, both in float64."""
    inputs = inputs_of(a)
    exact, found = (graph.evaluate(net, *inputs, dtype="float64") for net in (a, b))
    return relative_error(found, exact)


def described() -> list[Row]:
    """Search on the described machine with both values of alpha."""
    rows = list[Row]()
    for name, make in CASES.items():
        net = make()
        greedy, relaxed = (graph.search(net, alpha=alpha) for alpha in (1.0, 1.05))
        peers = {"start": greedy.costs[0] * 1e6, "alpha 1": greedy.costs[1] * 1e6}
        peers |= {"steps": len(relaxed.steps), "worse": len(relaxed.worse)}
        peers["error e-7"] = difference(net, relaxed.best) * 1e7
        rows.append(Row(name, 1, "us", relaxed.costs[1] * 1e6, peers))
        if flags.png:
            flags.png.mkdir(exist_ok=True)
            picture = viz.png(viz.SearchPath(relaxed).picture())
            (flags.png / f"{name.replace(' ', '_')}.png").write_bytes(picture)
    return rows


def measured(to: str) -> list[Row]:
    """Measure on this CPU what the described machine prefers, and search by measured kernels."""
    rows = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        log = flags.log or Path(folder) / "kernels.jsonl"
        with graph.MeasuredCost(log, to) as cost:
            for name in SMALL:
                net = CASES[name]()
                other = graph.search(net)
                by_cost = graph.search(net, cost)
                print(f"{name}, by measured kernels:\n{by_cost}", flush=True)
                nets = {"ours": other.best, "start": other.start}
                modules = {k: graph.compile(each, to) for k, each in nets.items()}
                inputs = inputs_of(net)
                runs = {k: partial(f, *inputs) for k, f in modules.items()}
                seconds = best_seconds(runs, ROUNDS, burst=20)
                peers = {"start": seconds["start"] * 1e6}
                flops = {k: graph.counts(each, to).multiplications for k, each in nets.items()}
                peers |= {"MMAC": flops["ours"] / 1e6, "start MMAC": flops["start"] / 1e6}
                peers["search"] = by_cost.costs[1] / by_cost.costs[0]
                rows.append(Row(name, 1, "us", seconds["ours"] * 1e6, peers))
    return rows


def accelerator() -> list[Row]:
    """Compare in cycles of the accelerator."""
    rows = list[Row]()
    for name in SMALL:
        net, cost = CASES[name](), graph.CycleCost()
        preferred = cost(graph.search(net).best)
        found = graph.search(net, cost)
        print(f"{name}, by cycles:\n{found}", flush=True)
        peers = {"start": found.costs[0], "search": found.costs[1] / found.costs[0]}
        rows.append(Row(name, 1, "cycles", preferred, peers))
    return rows


# --- TensorRT's four optimisations ---------------------------------------------------------------

OFF = {  # the passes that are left out
    "as it is": (),
    "weights quantised": (),
    "kernels not selected": ("assign_layouts", "choose_formulas", "merge_attention"),
    "no vertical fusion": ("fuse",),
    "no horizontal fusion": ("merge_parallel",),
}


def unfused(net: graph.Graph, _: object) -> graph.Graph:
    """Make each operator a kernel of its own."""
    return graph.passes.fuse(net, level=0)


def variant(net: graph.Graph, off: str) -> tuple[graph.Graph, tuple[tuple[str, graph.Pass], ...]]:
    """Return the network and its passes for a key of OFF."""
    if off == "weights quantised":
        net = graph.int8_weights(net)
    passes = tuple(each for each in graph.PASSES if each[0] not in OFF[off])
    return net, (*passes, ("fuse", unfused)) if "fuse" in OFF[off] else passes


def tensorrt(to: str) -> list[Row]:
    """Change each of the four optimisations alone."""
    rows = list[Row]()
    networks = {
        "bert": graph.networks.bert(layers=1),
        "resnet18": graph.networks.resnet18(size=SIZE),
    }
    for name, net in networks.items():
        inputs = inputs_of(net)
        exact = graph.evaluate(net, *inputs, dtype="float64")
        runs: dict[str, Callable[[], np.ndarray]] = {}
        kernels, errors = dict[str, int](), dict[str, float]()
        for off in OFF:
            own, passes = variant(net, off)
            module = graph.compile(own, to, passes=passes)
            kernels[off] = len(graph.optimized(own, to, passes=passes).calls)
            errors[off] = relative_error(module(*inputs), exact)
            runs[off] = partial(module, *inputs)
        seconds = best_seconds(runs, ROUNDS)
        for off in OFF:
            peers = {"as it is": seconds["as it is"] * 1e3, "kernels": kernels[off]}
            peers["error e-6"] = errors[off] * 1e6
            rows.append(Row(f"{name}, {off}", 1, "ms", seconds[off] * 1e3, peers))
    return rows


def main() -> None:
    """Print the tables that are asked for."""
    tvm.set_num_threads(1)
    to = target(flags)
    tables: dict[str, Callable[[], list[Row]]] = {
        "described": described,
        "measured": lambda: measured(to),
        "accelerator": accelerator,
        "tensorrt": lambda: tensorrt(to),
    }
    rows = list[Row]()
    for name in flags.cases or tables:
        print(f"\n{name}", flush=True)
        new = tables[name]()
        ratio = "as it is" if name == "tensorrt" else "start"
        report(new, None, (ratio,), "alpha 1.05" if name == "described" else "ours")
        rows += new
    if flags.json:
        report(rows, flags.json, ())


if __name__ == "__main__":
    main()
