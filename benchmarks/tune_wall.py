"""Tune matrix products from an empty log, on one core, without topi's schedules as seeds.

    python benchmarks/tune_wall.py [--quick] [--json FILE] [--isa all|avx2]
                                   [512 | 1024 | tables ...]

512      wall seconds until the best trial is within 5 % of topi's default, and until it is as fast,
         for five seeds; making the task, starting the processes and measuring the reference count.
         A search ends when it is as fast; time is up after 40 s.
1024     the best after 60 seconds, in GFLOP/s.
tables   trials until a policy has found a candidate within 5 % of the best: the median of 20 seeds
         on three small spaces, all candidates of which are measured first. Ours is the default
         policy, the peer is random search.

The goal is the speed of the default, the best of 20 calls by CPU time, as trials are timed: a
search reaches it if it is as good as topi. A share of the peak would be no fair goal, because the
clock falls under the load of a product, and the best share of a product depends on the CPU. The
lines below a search tell the share of the best trial: that of the default, by
testing.share_of_peak, times the ratio of their speeds. They also say how the time of a trial
divides.
"""

from _common import ISAS, Row, arguments, report, target

flags = arguments(__doc__, isa=ISAS)

import math
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitvm import autotvm, driver, testing, tune

TARGET = f"{target(flags)} -unroll=0"  # schedules unroll; LLVM's unroller doubles compile times
CLOSE = 0.95  # within 5 %
SEEDS = range(2 if flags.quick else 5)
SPACES = {"matmul": (512, 512, 512), "dense": (128, 768, 768), "matmul.thin": (64, 1024, 1024)}
OPTIONS, SKETCHES = 6, 3  # of a small space


@dataclass
class Curve:
    """A search: (seconds, best GFLOP/s so far) after each trial, and the parts of its time."""

    points: list[tuple[float, float]]
    parts: dict[str, float]

    def reached(self, rate: float) -> float:
        """Return after how many seconds the best was at least `rate` GFLOP/s."""
        return next((seconds for seconds, best in self.points if best >= rate), math.inf)


@dataclass(frozen=True)
class Default:
    """The speed of topi's default in GFLOP/s, and its share of the peak."""

    rate: float
    share: float


def default_of(n: int) -> Default:
    """Measure the default of an n x n x n product."""
    task = autotvm.task_for("matmul", (n, n, n), TARGET)
    f = driver.build(task.default(), target=task.target)
    a, b, c = np.random.default_rng(0).random((3, n, n), np.float32)
    best = testing.interleaved({"default": lambda: f(a, b, c)}, 20, time.thread_time)["default"]
    beside = testing.share_of_peak(lambda: f(a, b, c), task.flops, task.target)
    return Default(tune.rate(task, best), beside.share)


def tuned(n: int, seconds: float, seed: int, goal: float = math.inf) -> Curve:
    """Tune an n x n x n product for `seconds`, or until it reaches `goal` GFLOP/s."""
    curve, thinking = list[tuple[float, float]](), list[float]()
    stop, begin = threading.Event(), time.perf_counter()
    task = autotvm.task_for("matmul", (n, n, n), TARGET)

    def on(event: tune.Event) -> None:
        if isinstance(event, tune.Round):
            thinking.append(event.seconds)
        if isinstance(event, tune.Measured):
            best = tune.rate(task, event.best.seconds) if event.best is not None else 0.0
            curve.append((time.perf_counter() - begin, best))
            if best >= goal:
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
        "best interleaved": tune.rate(task, outcome.best.seconds),
        "default": tune.rate(task, outcome.default.best) if outcome.default else 0.0,
    }
    return Curve(curve, parts)


def told(name: str, curve: Curve, default: Default) -> None:
    """Print what a search found, and how it divided its time."""
    parts = ", ".join(f"{key} {value:.3g}" for key, value in curve.parts.items())
    best = curve.points[-1][1]
    share = default.share * best / default.rate
    print(f"{name}: {len(curve.points)} trials, {best:.1f} GFLOP/s, {share:.2f} of the peak")
    print(
        f"  .9 x the default after {curve.reached(0.9 * default.rate):.1f} s; {parts}", flush=True
    )


# --- small spaces --------------------------------------------------------------------------------


def small(name: str) -> tune.Task:
    """Return the task `name` with a few of its sketches and options, drawn with a fixed seed."""
    task = autotvm.task_for(name.partition(".")[0], SPACES[name], TARGET)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(task.sketches))[:SKETCHES]
    return replace(task, sketches=tuple(fewer(task.sketches[n], rng) for n in chosen))


def fewer(sketch: tune.Sketch, rng: np.random.Generator) -> tune.Sketch:
    """Return a sketch with at most OPTIONS options of each knob that splits a loop."""
    knobs = list[tune.Knob]()
    for knob in sketch.space.knobs:
        keep = np.sort(rng.permutation(len(knob))[:OPTIONS])
        if knob.kind == "split":
            options = [knob.options[n] for n in keep]
            knobs.append(tune.sizes_knob(knob.name, [tuple(o) for o in options]))
        else:
            knobs.append(knob)
    return replace(sketch, space=tune.Space(tuple(knobs)))


class Table:
    """A measurer that looks up results that were measured before."""

    def __init__(self, seconds: dict[tune.Candidate, tune.Result]) -> None:
        self.seconds, self.reference_cost = seconds, 1.0

    def measure(self, programs: Iterable[tune.CandidateProgram]) -> Iterator[tune.Result]:
        """Yield the result of each program, in order."""
        for program in programs:
            yield self.seconds[program.candidate]

    def remeasure(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
        """Return the results of the programs, and that of a default that takes one second."""
        return [
            *(self.seconds[p.candidate] for p in programs),
            tune.Result((self.reference_cost,)),
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
    return next(n for n, t in enumerate(outcome.trials, 1) if t.seconds <= best / CLOSE)


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
        default = default_of(512)
        print(f"512 default: {default.rate:.1f} GFLOP/s, {default.share:.2f} of the peak")
        curves = [tuned(512, 40, seed, default.rate) for seed in SEEDS]
        for seed, curve in zip(SEEDS, curves, strict=True):
            told(f"512 seed {seed}", curve, default)
        for goal, share in ((".95 x the default", CLOSE), ("the default", 1.0)):
            reached = [curve.reached(share * default.rate) for curve in curves]
            for seed, seconds in zip(SEEDS, reached, strict=True):
                rows.append(Row(f"512 seed {seed}: to {goal}", 1, "s", seconds))
            rows.append(Row(f"512: median to {goal}", 1, "s", statistics.median(reached)))
    if "1024" in cases:
        default = default_of(1024)
        curve = tuned(1024, 20 if flags.quick else 60, 0)
        told("1024", curve, default)
        peers = {"fma_peak": default.rate / default.share, "default": curve.parts["default"]}
        rows.append(Row("1024", 1, "GFLOP/s", curve.parts["best interleaved"], peers))
    if "tables" in cases:
        rows += [compared(name) for name in list(SPACES)[: 1 if flags.quick else 3]]
    report(rows, flags.json, ("fma_peak", "default", "random"))
