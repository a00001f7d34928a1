"""The figures that are computed in seconds from recorded tables and from networks."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable

import numpy as np
from _figures import Claim, Drawn
from _replay import area, replay

from minitvm import graph, papers, tune

TARGET = "llvm -num-cores=1"
NETWORKS = ("mobilenet_v2", "squeezenet")  # whose tuning is replayed
TRIALS = 48  # of each task
KNOWN_SHARE = 0.75  # of a table that a cost model learns from
TOP = 30
Rates = dict[str, float]

# --- AutoTVM -------------------------------------------------------------------------------------


def convolutions(seeds: int) -> Drawn:
    """Return Table 1, and how often each layer occurs in our ResNet-18."""
    calls = Counter[tuple[int, ...]]()
    for node in graph.networks.resnet18().calls:
        if node.op == "conv2d":
            (_, channels, size, _), (filters, _, kernel, _) = (n.type.shape for n in node.inputs)
            calls[size, channels, filters, kernel, node.attrs.get("strides", 1)] += 1
    rows = dict[str, Rates]()
    for name, layer in papers.LAYERS.items():
        rows[name] = {
            "H, W": layer.size,
            "IC": layer.channels,
            "OC": layer.filters,
            "K": layer.kernel,
            "S": layer.stride,
            "calls": calls[layer.args],
            "recorded": len(papers.recorded(name).rows),
            "near best %": 100 * papers.recorded(name).table.share_within(0.05),
        }
    absent = [name for name, row in rows.items() if not row["calls"]]
    claim = Claim(
        "C1 to C12 are all convolutions of ResNet-18",
        f"{len(rows) - len(absent)} of {len(rows)} are all those of our ResNet-18; "
        f"not in it: {', '.join(absent) or 'none'}",
        not absent and len(calls) == len(rows),
    )
    return Drawn("Table 1: the convolutions of ResNet-18", "sizes and counts", rows, claim)


def devices(seeds: int) -> Drawn:
    """Return how fast the best candidate of one machine is on the other machine."""
    rows = dict[str, Rates]()
    for other in papers.OTHER_MACHINE:
        name = other.removesuffix("-avx512")
        tables = {"AVX2": papers.recorded(name).table, "AVX-512": papers.recorded(other).table}
        for own, table in tables.items():
            best = table.rows[[int(np.argmin(table.measured))]]
            rows[f"{name}, best on {own}"] = {
                f"on {on}": float(there.best / there.of(best)[0]) for on, there in tables.items()
            }
    lost = [min(row.values()) for row in rows.values()]
    claim = Claim(
        "each device needs a search of its own",
        "the best candidate of one machine reaches "
        + ", ".join(f"{share:.2f}" for share in lost)
        + " of the best on the other (bar: under .9 in the median)",
        statistics.median(lost) < 0.9,
    )
    title = "One layer on two machines, recorded: each best candidate on the other"
    return Drawn(title, "speed relative to the machine's best candidate", rows, claim)


def winograd(seeds: int) -> Drawn:
    """Return the best speed of each 3x3 layer by the sum itself, and by Winograd's formula."""
    rows = dict[str, Rates]()
    for name in (n for n in papers.WINOGRAD if (tune.FOLDER / f"{n}.npz").exists()):
        layer = name.removesuffix("-winograd")
        tables = {"the sum": tune.load_table(layer), "Winograd": tune.load_table(name)}
        flops = tables["the sum"].about["flops"]  # Winograd's formula multiplies less
        rows[layer] = {what: flops / table.best / 1e9 for what, table in tables.items()}
    gains = [row["Winograd"] / row["the sum"] for row in rows.values()]
    claim = Claim(
        "a second template, Winograd with transformed weights (PT), gives faster programs",
        f"the fastest one is {min(gains):.2f} to {max(gains):.2f} times as fast as the best sum",
        min(gains) > 1,
    )
    unit = "GFLOP/s, counted as the operations of the sum"
    return Drawn("Figure 10, PT: the best recorded programs of two templates", unit, rows, claim)


# --- Ansor ---------------------------------------------------------------------------------------


def tasks(seeds: int) -> Drawn:
    """Return the number of different kernels of networks."""
    names = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "resnet3d18", "dcgan")
    rows = dict[str, Rates]()
    for name in names:
        found = graph.extract_tasks(getattr(graph.networks, name)(), TARGET, winograd=False)
        heavy = [task for task in found if any("conv" in n.op for n in task.body.calls)]
        calls = sum(task.count for task in found)
        rows[name] = {"tasks": len(found), "with convolutions": len(heavy), "calls": calls}
    count = rows["resnet50"]["tasks"]
    here = f"{count:.0f}, for {rows['resnet50']['calls']:.0f} calls (bar: within 2)"
    claim = Claim("ResNet-50 has 29 tasks", here, abs(count - 29) <= 2)
    return Drawn("The tasks of networks", "different kernels, and calls of all", rows, claim)


def scheduler(seeds: int) -> Drawn:
    """Return the latency of networks while they are tuned with the task scheduler, or in turns."""
    rows = dict[str, Rates]()
    for name in NETWORKS:
        given = replay(getattr(graph.networks, name)())
        ratios = list[tuple[float, float]]()
        for seed in range(seeds):
            ours, even = (area(given, s, seed, TRIALS) for s in ("gradient", "round-robin"))
            ratios.append((ours.latency / even.latency, ours.excess / even.excess))
        latency, excess = map(statistics.median, zip(*ratios, strict=True))
        rows[name] = {"latency": latency, "excess": excess}
    here = ", ".join(f"{name} {row['excess']:.2f}" for name, row in rows.items())
    claim = Claim(
        "the task scheduler accelerates the search",
        f"mean excess over the best latency, relative to round robin: {here} (bar: .85)",
        all(row["excess"] <= 0.85 for row in rows.values()),
    )
    unit = f"mean over the trials, relative to round robin; {seeds} seeds"
    return Drawn("Task scheduler, replayed on tables", unit, rows, claim)


def accuracy(seeds: int) -> Drawn:
    """Return how well cost models predict candidates that they have not seen."""
    models: dict[str, Callable[[int], tune.Model]] = {
        "statement model": tune.PackSum,
        "trees, squared error": lambda seed: tune.Trees("regression", seed),
    }
    speeds = [_rates(name) for name in papers.LAYERS]
    features = [papers.recorded(name).encoded("flattened loops") for name in papers.LAYERS]
    x, y = np.concatenate(features), np.concatenate(speeds)
    y /= y.max()
    order = np.random.default_rng(0).permutation(len(y))
    known, asked = np.split(order, [round(KNOWN_SHARE * len(y))])
    rows = dict[str, Rates]()
    for name, make in models.items():
        model = make(0)
        model.fit(x[known], y[known])
        scores, labels = model.predict(x[asked]), y[asked]
        rows[name] = {
            "R2": tune.r2(scores, labels) or 0.0,
            "pairs": tune.pairwise_accuracy(scores, labels) or 0.0,
            f"recall@{TOP}": tune.recall_at(scores, labels, TOP),
        }
    best = np.sort(y[asked])[::-1]
    r2, pairs, recall = rows["statement model"].values()
    claim = Claim(
        "R2 .958, .851 of the pairs, recall@30 .624 on 25,000 programs",
        f"{r2:.2f}, {pairs:.2f}, {recall:.2f} on {len(y):,} programs; the 30 fastest of "
        f"{len(asked):,} are within {1 - best[TOP - 1] / best[0]:.1%}",
        r2 >= 0.958 and pairs >= 0.851 and recall >= 0.624,
    )
    unit = f"candidates of all tables, of which {KNOWN_SHARE:.0%} are known"
    return Drawn("The accuracy of the cost model", unit, rows, claim)


def _rates(name: str) -> np.ndarray:
    table = papers.recorded(name).table
    return (table.about["flops"] / table.measured).astype(np.float32)


AUTOTVM: dict[str, Callable[[int], Drawn]] = {
    "table1": convolutions,
    "winograd": winograd,
    "devices": devices,
}
ANSOR: dict[str, Callable[[int], Drawn]] = {
    "tasks": tasks,
    "scheduler": scheduler,
    "accuracy": accuracy,
}
