"""One network under one roof: from ONNX, searched as a graph, tuned, in bytes, on the accelerator.

    python benchmarks/one_roof.py [resnet18 squeezenet FILE.onnx ...] [--quick] [--json FILE]
                                  [--seconds 60|20|180]

Networks are exported by torch (torchvision, random weights); without torch, ours of the same name
are taken. The gain of a step is over the one that it begins with:

    imported         each operator is a kernel of its own
    compiled         from imported, graph.compile: simplified, fused, laid out
    graph search     from compiled, graph.search by a described machine whose kernels are dear to
                     start, and what its network takes here; it is kept only if it is faster here
    kernel search    from the faster of the two, graph.tune, --seconds of it
    int8             from compiled, graph.quantise; the outputs must equal graph.evaluate's integers
    accelerator      from int8, with scales that are powers of two, for target "vta"; the same holds

"error" is the largest difference from float64, relative to the largest output. On the CPU, the
modules of all steps take turns on one thread; the accelerator's time is that of its own cycles at
100 MHz. "spent" is what the step took. Digests of the last two outputs are the same in each run.
"""

from __future__ import annotations

from _common import arguments, best_seconds

flags = arguments(__doc__, seconds=("60", "20", "180"))

import hashlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from minitvm import graph

TARGET = "llvm -num-cores=1"
CASES = flags.cases or ["resnet18", "squeezenet"]
ROUNDS = 8 if flags.quick else 20
IMAGES = 4  # of the calibration
NEEDED = ("simplify", "fold_constants")  # passes without which some operators have no kernel


@dataclass(frozen=True)
class Step:
    """What a step made: a module, its error, the seconds that the step took, and a note.

    before   the name of the step that it began with
    """

    name: str
    before: str
    module: Any
    error: float
    spent: float
    note: str


def imported(case: str) -> tuple[graph.Graph, str]:
    """Return the network of a case, and where it comes from."""
    if case.endswith(".onnx"):
        return graph.from_onnx(case), case
    try:
        import torch
        import torchvision
    except ImportError:
        return getattr(graph.networks, case)(), "minitvm.graph.networks: torch is not installed"
    torch.manual_seed(0)
    module = getattr(torchvision.models, case if case != "squeezenet" else "squeezenet1_1")()
    file = Path(f"{case}.onnx")
    warnings.simplefilter("ignore")  # about torch's exporters
    images = torch.rand(1, 3, 224, 224)
    torch.onnx.export(module.eval(), (images,), str(file), dynamo=False, opset_version=17)
    net = graph.from_onnx(file)
    file.unlink()
    return net, "torchvision, exported to ONNX"


def separate(net: graph.Graph, _: object) -> graph.Graph:
    """Make a kernel of each operator."""
    return graph.passes.fuse(net, level=0)


def together(modules: dict[str, Any], x: np.ndarray) -> dict[str, float]:
    """Return the shortest times of modules that take turns, in milliseconds."""
    runs = {name: lambda m=m: m(x) for name, m in modules.items()}
    return {name: seconds * 1e3 for name, seconds in best_seconds(runs, ROUNDS).items()}


def error(result: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest difference, relative to the largest number."""
    return float(np.abs(result - exact).max() / np.abs(exact).max())


def steps(net: graph.Graph, images: list[np.ndarray]) -> Iterator[Step]:
    """Run the steps one after another."""
    x = images[0]
    (exact,) = graph.evaluate(net, x, dtype="float64")

    def step(name: str, before: str, module: Any, began: float, note: str = "") -> Step:
        spent = time.perf_counter() - began
        return Step(name, before, module, error(module(x), exact), spent, note)

    began = time.perf_counter()
    passes = (*(each for each in graph.PASSES if each[0] in NEEDED), ("fuse", separate))
    yield step("imported", "imported", graph.compile(net, TARGET, passes=passes), began)
    began = time.perf_counter()
    default = graph.compile(net, TARGET)
    yield step("compiled", "imported", default, began)

    began = time.perf_counter()
    relaxed, strict = graph.search(net, graph.A100), graph.search(net, graph.A100, alpha=1.0)
    other = graph.compile(relaxed.best, TARGET)
    times, cost = together({"default": default, "other": other}, x), relaxed.costs[0]
    is_faster = times["other"] < times["default"]
    costs = f"{relaxed.costs[1] / cost:.3f} of the described cost"
    note = f"{costs} (alpha 1: {strict.costs[1] / cost:.3f}), {'' if is_faster else 'not '}kept"
    yield step("graph search", "compiled", other, began, note)

    began = time.perf_counter()
    best, rng = relaxed.best if is_faster else net, np.random.default_rng(0)
    tuned = graph.tune(best, TARGET, seconds=20 if flags.quick else int(flags.seconds), rng=rng)
    module = graph.compile(best, TARGET, pick=tuned.pick, passes=tuned.passes)
    before = "graph search" if is_faster else "compiled"
    yield step("kernel search", before, module, began, f"{len(tuned.selected)} kernels replaced")

    for name, before, target in (("int8", "compiled", TARGET), ("accelerator", "int8", "vta")):
        began = time.perf_counter()
        quantised = graph.quantise(net, images, powers_of_two=target == "vta")
        made = step(name, before, graph.compile(quantised, target), began)
        (expected,) = graph.evaluate(graph.optimized(quantised, target), x)
        is_equal = np.array_equal(made.module(x), expected)
        yield replace(made, note="equal to numpy's integers" if is_equal else "NOT EQUAL")


def table(case: str, source: str, rows: list[Step], x: np.ndarray) -> str:
    """Return the lines of one network."""
    *on_cpu, last = rows
    times = together({row.name: row.module for row in on_cpu}, x)
    cycles = last.module.cycles
    times[last.name] = cycles.seconds * 1e3
    lines = [
        f"{case} ({source})",
        f"{'step':14} {'ms':>8} {'gain':>6} {'in all':>7} {'error':>8} {'spent':>7}",
    ]
    for row in rows:
        gains = [times[each] / times[row.name] for each in (row.before, rows[0].name)]
        numbers = f"{times[row.name]:8.2f} {gains[0]:6.2f} {gains[1]:7.2f} {row.error:8.1e}"
        lines.append(f"{row.name:14} {numbers} {row.spent:6.0f}s  {row.note}".rstrip())
    lines.append(
        f"on the accelerator: {len(cycles.rows)} calls, {cycles.total} cycles, in "
        f"{cycles.utilisation:.1%} of which the matrix unit multiplies; the rest on the CPU"
    )
    for row in rows[-2:]:
        digest = hashlib.sha256(row.module(x).tobytes()).hexdigest()[:16]
        lines.append(f"{row.name}: {digest}")
    return "\n".join(lines)


def main() -> None:
    """Print the table of each case."""
    for case in CASES:
        net, source = imported(case)
        rng = np.random.default_rng(0)
        images = [rng.random(net.inputs[0].type.shape, np.float32) for _ in range(IMAGES)]
        print(table(case, source, list(steps(net, images)), images[0]), flush=True)


if __name__ == "__main__":
    main()
