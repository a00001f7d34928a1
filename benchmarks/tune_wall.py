"""Tune matrix products from an empty log, on one core, without topi's schedules as seeds.

    python benchmarks/tune_wall.py [--quick] [--json FILE] [512 | 1024 | tables ...]

512      wall seconds until the best trial has reached .95 x the FMA peak, for five seeds; the task,
         the worker processes and the reference count. Time is up after 40 seconds.
1024     the best after 60 seconds, in GFLOP/s.
tables   trials until a policy has found a candidate within 5 % of the best: the median of 20 seeds
         on three small spaces, all candidates of which are measured first. Ours is the default
         policy, the peer is random search.

The peak is measured in the same process before and after each search, and the higher one counts.
The lines below a search say how the time of a trial divides.
"""

from _common import Row, arguments, report

flags = arguments(__doc__)

import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitvm import testing, tune, tuning

TARGET = "llvm -num-cores=1"
GOAL = 0.95  # of the peak
SEEDS = range(2 if flags.quick else 5)
SPACES = {"matmul": (512, 512, 512), "dense": (128, 768, 768), "matmul.thin": (64, 1024, 1024)}
OPTIONS, SKETCHES = 6, 3  # of a small space


@dataclass
class Times:
    """What a search took: wall seconds to the goal, and in total, and by part."""

    goal: float
    best: float
    peak: float
    trials: int
    seconds: float
    parts: dict[str, float]


def tuned(n: int, seconds: float, seed: int, stop_at_goal: bool) -> Times:
    """Tune an n x n x n product; measure the peak before and after."""
    before = testing.fma_peak(1, 20)
    events, stop, begin = list[tune.Event](), threading.Event(), time.perf_counter()
    task = tuning.task_of("matmul", (n, n, n), TARGET)
    setup = time.perf_counter() - begin

    def on(event: tune.Event) -> None:
        events.append(event)
        # a little more than the goal, in case that the peak is higher afterwards
        if stop_at_goal and best_rate(task, event) > (GOAL + 0.02) * before:
            stop.set()

    rng = np.random.default_rng(seed)
    outcome = tune.run(task, seconds=seconds, rng=rng, on=on, stop=stop)
    peak = max(before, testing.fma_peak(1, 20))
    reached = (e.elapsed for e in events if best_rate(task, e) >= GOAL * peak)
    goal = setup + next(reached, float("inf"))
    measured = [event for event in events if isinstance(event, tune.Measured)]
    thinking = [event.seconds for event in events if isinstance(event, tune.Round)]
    count = len(measured)
    steady = measured[-1].elapsed - measured[0].elapsed
    results = [trial.result for trial in outcome.trials]
    parts = {
        "trials/s": (count - 1) / steady,
        "build ms": 1e3 * statistics.mean(r.build_seconds for r in results),
        "run ms": 1e3 * statistics.mean(r.run_seconds for r in results),
        "search+train ms": 1e3 * sum(thinking) / count,
        "failures": float(sum(bool(r.error) for r in results)),
        "first trial s": setup + measured[0].elapsed,
        "default GFLOP/s": tune.rate(task, outcome.default.best) if outcome.default else 0.0,
    }
    best = max(tune.rate(task, outcome.best.seconds), tune.rate(task, measured[-1].best.seconds))
    return Times(goal, best, peak, count, outcome.seconds, parts)


def best_rate(task: tune.Task, event: tune.Event) -> float:
    """Return the GFLOP/s of the best trial when an event was reported."""
    known = isinstance(event, tune.Measured) and event.best is not None
    return tune.rate(task, event.best.seconds) if known else 0.0


def told(name: str, t: Times) -> None:
    """Print how the time of a search divides."""
    parts = ", ".join(f"{key} {value:.3g}" for key, value in t.parts.items())
    ratio = f"{t.best:.1f} GFLOP/s, {t.best / t.peak:.3f} of the peak"
    print(f"{name}: goal after {t.goal:.1f} s; {t.trials} trials, {ratio}; {parts}", flush=True)


# --- small spaces --------------------------------------------------------------------------------


def small(name: str) -> tune.Task:
    """Return a task with a few of the sketches and options, drawn once."""
    task = tuning.task_of(name.partition(".")[0], SPACES[name], TARGET)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(task.sketches))[:SKETCHES]
    return replace(task, sketches=tuple(fewer(task.sketches[n], rng) for n in chosen))


def fewer(sketch: tune.Sketch, rng: np.random.Generator) -> tune.Sketch:
    """Return a sketch with at most OPTIONS options of each gene."""
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
    """A measurer that looks results up."""

    def __init__(self, seconds: dict[tune.Candidate, tune.Result]) -> None:
        self.seconds = seconds

    def measure(self, programs: Iterable[tune.Program]) -> Iterator[tune.Result]:
        """Yield the result of each program, in order."""
        for program in programs:
            yield self.seconds[program.args[0]]  # a partial of task.lowered

    def final(self, programs: Sequence[tune.Program]) -> list[tune.Result]:
        """Return the results, and that of a default that takes a second."""
        return [*(self.seconds[p.args[0]] for p in programs), tune.Result((1.0,))]


def needed(task: tune.Task, table: Table, policy: type, seed: int) -> int:
    """Return the trials until a candidate within 5 % of the best."""
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
        times = [tuned(512, 40, seed, stop_at_goal=True) for seed in SEEDS]
        for seed, t in zip(SEEDS, times, strict=True):
            told(f"512 seed {seed}", t)
            rows.append(Row(f"512 seed {seed}: s to .95", 1, "s", t.goal))
        median = statistics.median(t.goal for t in times)
        rows.append(Row("512: median s to .95", 1, "s", median))
    if "1024" in cases:
        t = tuned(1024, 20 if flags.quick else 60, 0, stop_at_goal=False)
        told("1024", t)
        peers = {"fma_peak": t.peak, "default": t.parts["default GFLOP/s"]}
        rows.append(Row("1024", 1, "GFLOP/s", t.best, peers))
    if "tables" in cases:
        rows += [compared(name) for name in list(SPACES)[: 1 if flags.quick else 3]]
    report(rows, flags.json, ("fma_peak", "default", "random"))
