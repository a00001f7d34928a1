"""Measure what each part of tuning a network is worth, by searches that leave parts out.

    python benchmarks/ablation_net.py [--network squeezenet] [--seeds 1] [--trials 12]
                                      [--seconds 60] [--log FOLDER] [--svg FILE] [CURVE ...]

--trials is the mean number for each kernel; a round has eight trials. Batch 1, one thread. All
trials are kept in FOLDER; after --seconds and a last measurement of the best programs, repeat the
command to continue. The curves:

full               the task scheduler's gradient, and the default policy
no task scheduler  the kernels take turns (round robin)
sequential         one kernel after the other
random             programs drawn uniformly, without a model
no fine-tuning     the model chooses among programs drawn uniformly, without evolution
no estimate        without the analytic model

The table has the latency of the kernels that are tuned, relative to the lowest of all curves, after
these shares of the trials: the median of the seeds. It is known once each kernel has a program.
"""

import argparse
import os
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["MINITVM_NUM_THREADS"] = "1"

import numpy as np
from ablation import POLICIES, draw

from minitvm import auto_scheduler, graph, tune
from minitvm.base import TVMError
from minitvm.graph.tune import task_of

TARGET = "llvm -num-cores=1 -unroll=0"
BATCH = 8
SHARES = (0.25, 0.5, 0.75, 1.0)
CURVES: Mapping[str, tuple[auto_scheduler.Strategy, str]] = {  # strategy, and policy
    "full": ("gradient", "full"),
    "no task scheduler": ("round-robin", "full"),
    "sequential": ("sequential", "full"),
    "random": ("gradient", "random"),
    "no fine-tuning": ("gradient", "no fine-tuning"),
    "no estimate": ("gradient", "no estimate"),
}


def tasks_of(net: graph.Graph) -> tuple[list[tune.Task], list[int]]:
    """Return the tasks of a network's kernels that have sketches, and their numbers of calls."""
    tasks, calls = list[tune.Task](), list[int]()
    for kernel in graph.extract_tasks(net, TARGET):
        try:
            tasks.append(task_of(kernel, graph.passes.other_formulas(kernel.body)))
        except TVMError:
            continue
        calls.append(kernel.count)
    return tasks, calls


def latencies(outcomes: tuple[tune.Outcome, ...], calls: list[int]) -> list[float]:
    """Return the seconds of a run after each trial; infinity before each kernel has a program."""
    order = sorted((t.time, n, t.seconds) for n, o in enumerate(outcomes) for t in o.trials)
    best, found = np.full(len(outcomes), np.inf), list[float]()
    for _, n, seconds in order:
        best[n] = min(best[n], seconds)
        found.append(float(best @ np.array(calls)))
    return found


def measured(
    tasks: list[tune.Task], calls: list[int], flags: argparse.Namespace
) -> dict[str, list[list[float]]] | None:
    """Tune with each curve and seed; return None if the time did not suffice for all."""
    end, trials = time.perf_counter() + flags.seconds, flags.trials * len(tasks)
    found = dict[str, list[list[float]]]()
    for seed in range(flags.seeds):
        for name in flags.curves or CURVES:
            strategy, policy = CURVES[name]
            scheduler = auto_scheduler.TaskScheduler(
                tasks,
                calls,
                strategy=strategy,
                policy=POLICIES[policy],
                rng=np.random.default_rng(seed),
            )
            log = flags.log / f"{name.replace(' ', '-')}-{seed}.jsonl"
            left = max(end - time.perf_counter(), 1e-3)  # enough to read the log
            options = tune.MeasureOptions(cold=True)
            outcome = scheduler.tune(
                trials=trials, seconds=left, batch=BATCH, log=log, measure=options
            )
            if outcome.ended == "seconds":
                return None
            curve = latencies(outcome.outcomes, calls)
            print(f"{name}, seed {seed}: {curve[-1] * 1e3:.3f} ms", flush=True)
            found.setdefault(name, []).append(curve)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", nargs="*", metavar="CURVE", help="(default: all)")
    parser.add_argument("--network", default="squeezenet", help="of graph.networks (squeezenet)")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each curve (1)")
    parser.add_argument("--trials", type=int, default=12, help="of a kernel, on average (12)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of this call (60)")
    parser.add_argument("--log", type=Path, default=Path("ablation_net"), metavar="FOLDER")
    parser.add_argument("--svg", type=Path, metavar="FILE")
    flags = parser.parse_args()
    flags.log.mkdir(exist_ok=True)
    tasks, calls = tasks_of(getattr(graph.networks, flags.network)())
    curves = measured(tasks, calls, flags)
    if curves is None:
        print("not all trials are measured: the same command goes on")
        return
    best = min(curve[-1] for several in curves.values() for curve in several)
    print(f"{flags.network}, {len(tasks)} kernels, lowest latency {best * 1e3:.3f} ms")
    print(f"{'share of the trials':20}" + "".join(f"{share:>7.0%}" for share in SHARES))
    for name, several in curves.items():
        at = [[curve[round(s * len(curve)) - 1] / best for s in SHARES] for curve in several]
        middle = [statistics.median(column) for column in zip(*at, strict=True)]
        print(f"{name:20}" + "".join(f"{m:7.2f}" for m in middle))
    if flags.svg is not None:
        shown = {name: [[1e3 * t for t in c] for c in several] for name, several in curves.items()}
        draw(shown, flags.network, flags.svg, "latency of the tuned kernels in ms")


if __name__ == "__main__":  # measuring processes may import this file
    main()
