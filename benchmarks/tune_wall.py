"""Tune matrix products from an empty log, on one core, without topi's schedules as seeds.

    python benchmarks/tune_wall.py [--quick] [--json FILE] [512 | 1024 | tables ...]

512      wall seconds until the best trial has reached .95 x the FMA peak, and until it is as fast
         as topi's default, for five seeds; making the task, starting the processes and measuring
         the reference count. Time is up after 40 s.
1024     the best after 60 seconds, in GFLOP/s.
tables   trials until a policy has found a candidate within 5 % of the best: the median of 20 seeds
         on three small spaces, all candidates of which are measured first. Ours is the default
         policy, the peer is random search.

The peak is measured after each trial, by CPU time as the trials are, and the highest one counts.
A search ends early only if it reaches the goal under a peak that many readings agree on. The lines
below a search say how the time of a trial divides.
"""

from _common import Row, arguments, report

flags = arguments(__doc__)

import math
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitvm import autotvm, testing, tune

TARGET = "llvm -num-cores=1 -unroll=0"  # schedules unroll; LLVM's unroller doubles compile times
GOAL = 0.95  # of the peak
READINGS = 50  # of the peak, before a search may end early
SEEDS = range(2 if flags.quick else 5)
SPACES = {"matmul": (512, 512, 512), "dense": (128, 768, 768), "matmul.thin": (64, 1024, 1024)}
OPTIONS, SKETCHES = 6, 3  # of a small space


@dataclass
class Curve:
    """A search: (seconds, best GFLOP/s so far) after each trial, and the parts of its time."""

    points: list[tuple[float, float]]
    parts: dict[str, float]
    peak: float

    def reached(self, rate: float) -> float:
        """Return after how many seconds the best was at least `rate` GFLOP/s."""
        return next((seconds for seconds, best in self.points if best >= rate), math.inf)


class Peak:
    """The rate of the multiply-add kernel in GFLOP/s: the highest of all readings."""

    def __init__(self) -> None:
        self.run, self.flops = testing.fma_run(1)
        self.rate, self.readings = 0.0, 0

    def read(self) -> None:
        """Run the kernel once, for about 10 ms of CPU time."""
        start = time.thread_time()
        self.run()
        self.rate = max(self.rate, self.flops / (time.thread_time() - start) / 1e9)
        self.readings += 1


def tuned(n: int, seconds: float, seed: int, goal: float = math.inf) -> Curve:
    """Tune an n x n x n product for `seconds`, or until it reaches the share `goal` of the peak."""
    peak, curve, thinking = Peak(), list[tuple[float, float]](), list[float]()
    stop, begin = threading.Event(), time.perf_counter()
    task = autotvm.task_for("matmul", (n, n, n), TARGET)

    def on(event: tune.Event) -> None:
        if isinstance(event, tune.Round):
            thinking.append(event.seconds)
        if isinstance(event, tune.Measured):
            best = tune.rate(task, event.best.seconds) if event.best is not None else 0.0
            curve.append((time.perf_counter() - begin, best))
            peak.read()
            if best >= goal * peak.rate and peak.readings >= READINGS:
                stop.set()

    rng = np.random.default_rng(seed)
    outcome = tune.run(task, seconds=seconds, rng=rng, on=on, stop=stop)
    results = [trial.result for trial in outcome.trials]
    parts = {
        "trials/s": (len(curve) - 1) / max(1e-9, curve[-1][0] - curve[0][0]),
        "build ms": 1e3 * statistics.mean(r.build_seconds for r in results),
        "run ms": 1e3 * statistics.mean(r.run_seconds for r in results),
        "search+train ms": 1e3 * sum(thinking) / len(curve),
        "failures": float(sum(bool(r.error) for r in results)),
        "first trial s": curve[0][0],
        "best in turns": tune.rate(task, outcome.best.seconds),
        "default": tune.rate(task, outcome.default.best) if outcome.default else 0.0,
    }
    return Curve(curve, parts, peak.rate)


def told(name: str, curve: Curve, peak: float) -> None:
    """Print how a search divided its time."""
    parts = ", ".join(f"{key} {value:.3g}" for key, value in curve.parts.items())
    best = curve.points[-1][1]
    print(f"{name}: {len(curve.points)} trials, {best:.1f} GFLOP/s, {best / peak:.3f} of the peak")
    print(f"  .9 after {curve.reached(0.9 * peak):.1f} s; {parts}", flush=True)


# --- small spaces --------------------------------------------------------------------------------


def small(name: str) -> tune.Task:
    """Return the task `name` with a few of its sketches and options, drawn with a fixed seed."""
    task = autotvm.task_for(name.partition(".")[0], SPACES[name], TARGET)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(task.sketches))[:SKETCHES]
    return replace(task, sketches=tuple(fewer(task.sketches[n], rng) for n in chosen))


def fewer(sketch: tune.Sketch, rng: np.random.Generator) -> tune.Sketch:
    """Return a sketch with at most OPTIONS options of each gene that splits a loop."""
    genes = list[tune.Gene]()
    for gene in sketch.space.genes:
        keep = np.sort(rng.permutation(len(gene))[:OPTIONS])
        if gene.kind == "split":
            options = [gene.options[n] for n in keep]
            genes.append(tune.sizes_gene(gene.name, [tuple(o) for o in options]))
        else:
            genes.append(gene)
    return replace(sketch, space=tune.Space(tuple(genes)))


class Table:
    """A measurer that looks up results that were measured before."""

    def __init__(self, seconds: dict[tune.Candidate, tune.Result]) -> None:
        self.seconds, self.reference_seconds = seconds, 1.0

    def measure(self, programs: Iterable[tune.CandidateProgram]) -> Iterator[tune.Result]:
        """Yield the result of each program, in order."""
        for program in programs:
            yield self.seconds[program.candidate]

    def final(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
        """Return the results of the programs, and that of a default that takes one second."""
        return [
            *(self.seconds[p.candidate] for p in programs),
            tune.Result((self.reference_seconds,)),
        ]


def needed(task: tune.Task, table: Table, policy: type, seed: int) -> int:
    """Return the number of trials until a candidate is within 5 % of the best."""
    rng = np.random.default_rng(seed)
    best = min(result.best for result in table.seconds.values())
    outcome = tune.run(
        task,
        policy(task, rng),
        trials=len(table.seconds),
        measurer=table,
        rng=rng,
        early_stopping=len(table.seconds),
    )
    return next(n for n, t in enumerate(outcome.trials, 1) if t.seconds <= best / GOAL)


def compared(name: str) -> Row:
    """Measure all candidates of a small space, then replay the policies."""
    task = small(name)
    rng = np.random.default_rng(0)
    outcome = tune.run(task, tune.RandomPolicy(task, rng), trials=task.size, rng=rng)
    table = Table({trial.candidate: trial.result for trial in outcome.trials})
    print(f"{name}: {len(table.seconds)} candidates in {outcome.seconds:.0f} s", file=sys.stderr)
    seeds = range(5 if flags.quick else 20)
    ours, random = (
        statistics.median(needed(task, table, policy, seed) for seed in seeds)
        for policy in (tune.GuidedPolicy, tune.RandomPolicy)
    )
    return Row(f"{name} {SPACES[name]}", 1, "trials", ours, {"random": random})


if __name__ == "__main__":
    rows = list[Row]()
    cases = flags.cases or ["512", "1024", "tables"]
    if "512" in cases:
        curves = [tuned(512, 40, seed, GOAL) for seed in SEEDS]
        peak = max(curve.peak for curve in curves)
        for seed, curve in zip(SEEDS, curves, strict=True):
            told(f"512 seed {seed}", curve, peak)
        for goal, rates in (
            (".95 x the peak", [GOAL * peak] * len(curves)),
            ("the default", [curve.parts["default"] for curve in curves]),
        ):
            reached = [c.reached(rate) for c, rate in zip(curves, rates, strict=True)]
            for seed, seconds in zip(SEEDS, reached, strict=True):
                rows.append(Row(f"512 seed {seed}: to {goal}", 1, "s", seconds))
            rows.append(Row(f"512: median to {goal}", 1, "s", statistics.median(reached)))
    if "1024" in cases:
        curve = tuned(1024, 20 if flags.quick else 60, 0)
        told("1024", curve, curve.peak)
        peers = {"fma_peak": curve.peak, "default": curve.parts["default"]}
        rows.append(Row("1024", 1, "GFLOP/s", curve.parts["best in turns"], peers))
    if "tables" in cases:
        rows += [compared(name) for name in list(SPACES)[: 1 if flags.quick else 3]]
    report(rows, flags.json, ("fma_peak", "default", "random"))
