"""Measure a search on a Dask cluster: trials a second, and what a killed worker costs.

    python benchmarks/cluster.py [--quick] [--json FILE]

Each case measures the same 200 random candidates of a matrix product (--quick: 40):

local             in processes of this machine: one measures, and the others build
1 device          on a cluster of one worker, which builds and measures in turns
2 devices         on a cluster of two workers
1 of 2 killed     the same; one worker is killed after a quarter of the trials and started again
lost, twice       candidates without a result, or with two, in the log of the last case
differ            candidates in its log whose verdict is not that of the local search
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import Row, arguments, report

flags = arguments(__doc__)

import numpy as np
import psutil
from distributed import LocalCluster

from minitvm import autotvm, tune
from minitvm.tune.device import RESOURCE, this_device

TRIALS = 40 if flags.quick else 200


def task() -> tune.Task:
    return autotvm.task_for("matmul", (256, 256, 256), "llvm -num-cores=1")


def search(log: Path, on: Callable[[tune.Event], None], **options: Any) -> float:
    """Measure the candidates; return the trials per second from the first result to the last."""
    times: list[float] = []

    def hear(event: tune.Event) -> None:
        if isinstance(event, tune.Measured):
            times.append(time.perf_counter())
        on(event)

    goal, rng = task(), np.random.default_rng(0)
    tune.run(
        goal, tune.RandomPolicy(goal, rng), trials=TRIALS, log=log, on=hear, rng=rng, **options
    )
    return (len(times) - 1) / (times[-1] - times[0])


def verdicts(log: Path) -> list[tuple[tune.Candidate, str]]:
    """Return the candidates of a log, and the kind of failure of each."""
    return [(trial.candidate, trial.result.error) for trial in tune.Log(log).read(task()).trials]


def on_cluster(log: Path, devices: int, kill: bool = False) -> float:
    """Search on new workers of this machine, each with a device."""
    resources = {RESOURCE + this_device(): 1}
    with (
        LocalCluster(
            n_workers=devices, threads_per_worker=1, resources=resources,
            dashboard_address="127.0.0.1:0", memory_limit=0,
        ) as cluster,
        tune.DaskMeasurer(cluster) as measurer,
    ):  # fmt: skip

        def hear(event: tune.Event) -> None:
            if kill and isinstance(event, tune.Measured) and event.number == TRIALS // 4:
                psutil.Process(cluster.workers[0].pid).kill()

        return search(log, hear, measurer=measurer)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"{n}.jsonl" for n in range(4)]
        rows = [
            Row("local", 1, "1/s", search(logs[0], lambda event: None)),
            Row("1 device", 1, "1/s", on_cluster(logs[1], 1)),
            Row("2 devices", 2, "1/s", on_cluster(logs[2], 2)),
            Row("1 of 2 killed", 2, "1/s", on_cluster(logs[3], 2, kill=True)),
        ]
        here, there = verdicts(logs[0]), verdicts(logs[3])
    times = Counter(candidate for candidate, _ in there)
    rows += [
        Row("lost", 2, "trials", sum(candidate not in times for candidate, _ in here)),
        Row("twice", 2, "trials", sum(count - 1 for count in times.values())),
        Row("differ", 2, "trials", len({*here} - {*there})),
    ]
    report(rows, flags.json, ())


if __name__ == "__main__":
    main()
