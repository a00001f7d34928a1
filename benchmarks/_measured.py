"""The figures that are drawn from papers_measured.json: what benchmarks have measured before.

See papers_measure.py, which measures again. A ratio above 1 says that our program is faster.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _figures import Claim, Curve, Drawn

from minitvm import vta

FILE = Path(__file__).with_name("papers_measured.json")
LIBRARIES = ("torch", "channels_last", "onnxruntime", "openvino")
AUTOTVM_NETWORKS = ("resnet18", "mobilenet_v1", "lstm", "dqn", "dcgan")
ANSOR_NETWORKS = ("resnet50", "mobilenet_v2", "resnet3d18", "dcgan", "bert")
SUBGRAPHS = ("ConvLayer", "TBS")
SAME = 0.97  # two programs are equally fast if the ratio of their speeds is at least this
Rates = dict[str, float]


@cache
def stored() -> dict[str, Any]:
    """Return what papers_measure.py has stored."""
    return json.loads(FILE.read_text())


def rates(name: str) -> dict[str, Rates]:
    """Return the rates of each case of a benchmark; "minitvm" is ours."""
    rows = stored()[name]["rows"]
    return {row["case"]: {"minitvm": row["ours"], **row["peers"]} for row in rows}


def compared(
    title: str,
    cases: Mapping[str, Rates],
    ours: str,
    peers: Sequence[str],
    paper: str,
    holds: Callable[[Sequence[float]], bool],
) -> Drawn:
    """Return a figure of speeds relative to the fastest, and of ours over the fastest peer.

    "default", our program without search, is shown, too, if it was measured, but is no peer.
    """
    rows, ratios = dict[str, Rates](), dict[str, float]()
    for case, each in cases.items():
        shown = {name: each[name] for name in (ours, "default", *peers) if name in each}
        fastest = max(shown.values())
        rows[case] = {name: rate / fastest for name, rate in shown.items()}
        if alternatives := [each[name] for name in peers if name in each]:
            ratios[case] = each[ours] / max(alternatives)
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    mean = statistics.geometric_mean(ratios.values())
    here = (
        f"{ratios[low]:.2f} ({low}) to {ratios[high]:.2f} ({high}) times the fastest alternative, "
        f"geometric mean {mean:.2f}"
    )
    claim = Claim(paper, here, holds([*ratios.values()]))
    return Drawn(title, "speed relative to the fastest", rows, claim)


# --- AutoTVM -------------------------------------------------------------------------------------


def wall_clock() -> Drawn:
    """Return the best program over the wall-clock time of a search, beside the library."""
    panels, rows, times = dict[str, dict[str, Curve]](), dict[str, Rates](), list[float]()
    finals = rates("templates")
    for case, curves in stored()["templates"]["curves"].items():
        library = finals[case]["faster packed"]
        end = max(seconds for points in curves.values() for seconds, _ in points)
        lines = {"AutoTVM": curves["autotvm"], "sketches": curves["ours"]}
        panels[case] = {name: steps(points, end) for name, points in lines.items()}
        panels[case]["oneDNN"] = Curve(np.array([0, end]), np.array([library, library]))
        reached = (s for s, rate in curves["autotvm"] if rate >= SAME * library)
        times.append(next(reached, float("inf")))
        rows[case] = {name: points[-1][1] for name, points in lines.items()} | {"oneDNN": library}
    when = (f"after {s:.0f} s" if math.isfinite(s) else "not in this search" for s in times)
    here = ", ".join(f"{case} {text}" for case, text in zip(rows, when, strict=True))
    claim = Claim(
        "AutoTVM's programs pass the library's while the search runs",
        f"at {SAME} of oneDNN's speed: {here}",
        max(times) < float("inf"),
    )
    axes = "seconds", "GFLOP/s of the best program"
    return Drawn("Figure 10a: wall-clock time of a search", axes[1], rows, claim, panels, axes)


def steps(points: Sequence[tuple[float, float]], end: float) -> Curve:
    """Return a curve that stays at each point's rate until the next point, and until `end`."""
    seconds, speeds = zip(*points, strict=True)
    return Curve(np.repeat([*seconds, end], 2)[1:-1], np.repeat(speeds, 2))


def convolutions() -> Drawn:
    return compared(
        "Figure 10: the convolutions of ResNet-18 beside a library",
        rates("convolutions"),
        "minitvm",
        ("torch NHWC", "faster packed"),
        "programs are competitive with hardware-specific libraries (bar: .9 in the mean)",
        lambda ratios: statistics.geometric_mean(ratios) >= 0.9,
    )


def networks(title: str, names: Sequence[str], paper: str, bar: float) -> Drawn:
    found = rates("networks")
    cases = {name: found[name] for name in names}
    return compared(title, cases, "minitvm", LIBRARIES, paper, lambda ratios: min(ratios) >= bar)


def targets() -> Drawn:
    """Return the speed of each best program on all targets, relative to the target's own."""
    found = rates("targets")
    rows, others = dict[str, Rates](), list[float]()
    for name, row in found.items():
        case, tuned = name.split()
        rows[name] = {}
        for on in row.keys() - {"minitvm"}:
            best = found[f"{case} {on.removeprefix('on ')}"]["minitvm"]
            rows[name][on] = row[on] / best
            if tuned not in ("default", on.removeprefix("on ")):
                others.append(rows[name][on])
        rows[name] = {on: rows[name][on] for on in row if on != "minitvm"}
    claim = Claim(
        "each device needs a search of its own",
        f"a program that was tuned for another target reaches {min(others):.2f} to "
        f"{max(others):.2f} of the target's own (bar: under .9 in the median)",
        statistics.median(others) < 0.9,
    )
    title = "One task on three described machines: each best program on the others"
    return Drawn(title, "speed relative to the target's own program", rows, claim)


# --- Ansor ---------------------------------------------------------------------------------------


def operators() -> Drawn:
    found = rates("operators")
    return compared(
        "Figure 6: single operators",
        {case: row for case, row in found.items() if case not in SUBGRAPHS},
        "minitvm",
        ("torch",),
        "1.1 to 22.5 times the best alternative (bar: no operator below .97)",
        lambda ratios: min(ratios) >= SAME,
    )


def subgraphs() -> Drawn:
    found = rates("operators")
    return compared(
        "Subgraphs: convolution + batch normalisation + ReLU, and transpose + product + softmax",
        {case: found[case] for case in SUBGRAPHS},
        "minitvm",
        ("torch",),
        "1.1 to 14.2 times the best alternative",
        lambda ratios: min(ratios) >= 1.1,
    )


def templates() -> Drawn:
    return compared(
        "Figure 6: programs without templates beside AutoTVM's, after equally many trials",
        rates("templates"),
        "minitvm",
        ("autotvm",),
        "faster than AutoTVM's templates",
        lambda ratios: min(ratios) > 1,
    )


def search_time() -> Drawn:
    """Return the seconds until each search is as fast as AutoTVM's best program."""
    rows, ratios = dict[str, Rates](), list[float]()
    for case, curves in stored()["templates"]["curves"].items():
        wanted = SAME * curves["autotvm"][-1][1]
        autotvm, ours = (
            next((s for s, rate in curves[name] if rate >= wanted), float("inf"))
            for name in ("autotvm", "ours")
        )
        rows[case] = {"AutoTVM": autotvm, "sketches": ours}
        ratios.append(autotvm / ours)
    here = ", ".join(f"{case} {ratio:.2f}" for case, ratio in zip(rows, ratios, strict=True))
    claim = Claim(
        "matches AutoTVM in a tenth of its search time",
        f"AutoTVM's seconds over ours, both to {SAME} of AutoTVM's best: {here}",
        min(ratios) >= 10,
    )
    unit = f"wall-clock seconds to {SAME} of AutoTVM's best program"
    return Drawn("Search time beside AutoTVM's", unit, rows, claim)


def ablation() -> Drawn:
    """Return the curves of searches that lack a part."""
    found = stored()["ablation"]["gflops"]
    best = max(max(map(max, several)) for several in found.values())
    curves, rows = dict[str, Curve](), dict[str, Rates]()
    for name, several in found.items():
        values = np.array([[x / best for x in each] for each in several])
        count, middle = values.shape[1], np.median(values, axis=0)
        curves[name] = Curve(
            np.arange(1, count + 1), middle, values.min(axis=0), values.max(axis=0)
        )
        rows[name] = {f"{n} trials": middle[n - 1] for n in (8, 16, count)}
    ends = {name: curve.y[-1] for name, curve in curves.items()}
    lost = {name: ends["full"] / end for name, end in ends.items() if name != "full"}
    here = ", ".join(f"{name} {ratio:.2f}" for name, ratio in lost.items())
    claim = Claim(
        "without a part of the search, the programs are slower; the space is most important",
        f"the full search's speed over that without a part: {here} (bar: each over 1.02)",
        min(lost.values()) > 1.02 and max(lost, key=lost.__getitem__) == "limited space",
    )
    unit = f"median speed, relative to the best of all; {len(several)} seeds"
    panels, axes = {"conv 7 x 7, 512 channels": curves}, ("trials", "share of the best speed")
    return Drawn("Figure 7: searches that lack a part", unit, rows, claim, panels, axes)


def programs() -> Drawn:
    """Return how well models that learn from random programs order programs of real tasks."""
    title = "Random programs as training data (Adams et al. 2019)"
    paper = "a model that learns from random programs ranks real ones (bar: .75 of the pairs)"
    if "programs" not in stored():
        here = "run `python benchmarks/papers_measure.py programs --log FOLDER` first"
        return Drawn(title, "mean of the tasks", {"random": {}}, Claim(paper, here, None))
    rows = stored()["programs"]["models"]
    alone, others, both = (rows[name]["pairs"] for name in ("random", "all", "more"))
    here = (
        f"trained on random formulas alone, it orders {alone:.2f} of the pairs; on other real "
        f"tasks {others:.2f}, on both {both:.2f}"
    )
    return Drawn(title, "mean of the tasks", rows, Claim(paper, here, alone >= 0.75))


# --- TVM -----------------------------------------------------------------------------------------


def fusion() -> Drawn:
    """Return what fusion gains, and how many bytes it saves."""
    found = rates("fusion")
    rows = {
        case: {"gain": row["minitvm"] / row["unfused"], "bytes": row["bytes"]}
        for case, row in found.items()
    }
    small = {case: row["gain"] for case, row in rows.items() if "112" not in case}
    claim = Claim(
        "fusion gives 1.2x to 2x",
        ", ".join(f"{case} {gain:.2f}" for case, gain in small.items())
        + f"; with images larger than the caches {rows['depthwise, 112 x 112']['gain']:.2f}",
        min(small.values()) >= 1.2,
    )
    return Drawn("Operator fusion", "fused over unfused", rows, claim)


def predictions() -> Drawn:
    """Return the time of a prediction of each cost model."""
    found = rates("predictions")
    rows = {
        name: {"prediction": row["minitvm"], "its features": row["features"]}
        for name, row in found.items()
    }
    slowest = max(rows, key=lambda name: rows[name]["prediction"])
    claim = Claim(
        "one prediction takes .67 ms (XGBoost)",
        f"{rows['trees, flattened loops']['prediction'] / 1e3:.3f} ms with trees, at most "
        f"{rows[slowest]['prediction'] / 1e3:.3f} ms ({slowest}), features included",
        rows[slowest]["prediction"] <= 670,
    )
    unit = "microseconds of CPU time of a prediction, and the part of the features"
    return Drawn("The time of a prediction", unit, rows, claim)


def accelerated(config: str) -> list[dict[str, Any]]:
    """Return the rows of the layers on one accelerator."""
    return [row for row in stored()["accelerator"]["rows"] if row["config"] == config]


def latency_hiding() -> Drawn:
    """Return the utilisation of the accelerator with one and with two virtual threads."""
    rows, config, names = dict[str, Rates](), "vdla_osdi18", {1: "1 thread", 2: "2 threads"}
    for row in accelerated(config):
        rows.setdefault(row["case"], {})[names[row["vthreads"]]] = row["utilisation"]
    rising = all(row["2 threads"] > row["1 thread"] for row in rows.values())
    for what in ("peak", "network"):
        summaries = [s for s in stored()["accelerator"]["summaries"] if s["config"] == config]
        rows[what] = {names[s["vthreads"]]: s[what] for s in summaries}
    before, after = rows["peak"].values()
    claim = Claim(
        "all layers gain; the peak utilisation rises from 70 % to 88 %",
        f"{'all' if rising else 'not all'} layers gain; the peak rises from {before:.0%} to "
        f"{after:.0%} (bar: within 5 points), the whole network from "
        + " to ".join(f"{share:.0%}" for share in rows["network"].values()),
        rising and abs(before - 0.7) <= 0.05 and abs(after - 0.88) <= 0.05,
    )
    title = "Latency hiding: utilisation of the accelerator of the paper, simulated"
    return Drawn(title, "useful work over the peak rate", rows, claim)


def at_clocks(cycles: int, work: float) -> dict[str, Rates]:
    """Return time and rate of `work` GOP in so many cycles, and the CPU of 1/40 of this rate."""
    rows = dict[str, Rates]()
    for clock in (100, 200):
        seconds = cycles / clock / 1e6
        rate = work / seconds
        rows[f"{clock} MHz"] = {"ms": 1e3 * seconds, "GOP/s": rate, "CPU at 40x": rate / 40}
    return rows


def forty_times() -> Drawn:
    """Return what 40x over a CPU would mean for the simulated accelerator."""
    cycles = {row["case"]: row["cycles"] for row in accelerated("vta_pynq") if row["vthreads"] > 1}
    total = sum(vta.TIMES[case] * n for case, n in cycles.items())
    work = 2 * sum(vta.TIMES[case] * vta.RESNET18[case].macs for case in cycles) / 1e9
    rows = at_clocks(total, work)
    ours = rates("convolutions")
    seconds = sum(
        2 * vta.TIMES[case] * vta.RESNET18[case].macs / ours[case]["minitvm"] / 1e9
        for case in cycles
    )
    rows["this CPU, one core"] = {"ms": 1e3 * seconds, "GOP/s": work / seconds}
    claim = Claim(
        "the FPGA computes the offloaded layers 40 times as fast as the CPU",
        f"{work:.2f} GOP take {rows['100 MHz']['ms']:.1f} ms at 100 MHz, "
        f"{rows['200 MHz']['ms']:.1f} ms at 200 MHz; 40x if the CPU has "
        f"{rows['100 MHz']['CPU at 40x']:.1f} or {rows['200 MHz']['CPU at 40x']:.1f} GOP/s "
        "(a Cortex-A9 is not here)",
        None,
    )
    return Drawn("The accelerator beside a CPU: 40x", "layers C2 to C12", rows, claim)


AUTOTVM: dict[str, Callable[[], Drawn]] = {
    "figure10": convolutions,
    "figure10a": wall_clock,
    "figure11": partial(
        networks,
        "Figure 11: networks, compiled without search, beside other frameworks",
        AUTOTVM_NETWORKS,
        "1.2 to 3.8 times the other frameworks",
        1.2,
    ),
    "targets": targets,
}
ANSOR: dict[str, Callable[[], Drawn]] = {
    "operators": operators,
    "templates": templates,
    "searchtime": search_time,
    "subgraphs": subgraphs,
    "networks": partial(
        networks,
        "Figure 9: networks, compiled without search, beside other frameworks",
        ANSOR_NETWORKS,
        "best or equally the best in all cases, up to 3.8 times as fast (bar: none below .97)",
        SAME,
    ),
    "ablation": ablation,
    "programs": programs,
}
TVM: dict[str, Callable[[], Drawn]] = {
    "fusion": fusion,
    "predictions": predictions,
    "latency": latency_hiding,
    "accelerator": forty_times,
}
