"""Tune five operators, and compare the printed gain with the gain in fresh processes.

    python benchmarks/gain.py [--quick] [--json FILE] [--log FILE] [matmul ... softmax]

"ours" is the gain over the default that a search prints; "low" and "high" are its interval.
"fresh" is the median gain in new processes, each of which builds both programs again and runs them
alternately: the ratio of their shortest times. Its arrays come from minitvm.nd and begin at a
cache line, as those of a search and of a network do. "numpy" is the same with numpy's arrays, which
begin 16 bytes behind one: each vector of 64 bytes then lies in two cache lines, and a loop that is
limited by its loads can lose more than a schedule gains. One thread.

--quick   8 trials each and 3 processes instead of 64 and 9
--log     keep the trials in FILE; operators that it contains are not searched again
"""

import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__, files=("log",))

import numpy as np

from minitvm import autotvm, driver, nd, te, tune

TARGET = "llvm -num-cores=1"
TRIALS, PROCESSES = (8, 3) if flags.quick else (64, 9)
CASES = {
    "matmul": (512, 512, 512),
    "dense": (64, 1024, 1024),
    "conv2d_nhwc": (1, 28, 28, 128, 128, 3, 1, 1),
    "depthwise_nhwc": (1, 56, 56, 128, 3, 1, 1),
    "softmax": (256, 1024),
}


def fresh(name: str, candidate: tune.Candidate) -> tuple[float, float]:
    """Build the default and a candidate; return the gain with aligned and with numpy's arrays."""
    task = autotvm.task_for(name, CASES[name], TARGET)
    rng = np.random.default_rng()
    arrays = [
        rng.standard_normal(t.shape, "float32")
        if isinstance(t.op, te.PlaceholderOp)
        else np.empty(t.shape, "float32")
        for t in task.args
    ]
    programs = {"default": task.default(), "best": task.lowered(candidate)}
    runs = {key: driver.build(func, target=task.target) for key, func in programs.items()}
    aligned, plain = (_gain(runs, data) for data in ([nd.array(a) for a in arrays], arrays))
    return aligned, plain


def _gain(runs: dict[str, Any], arrays: Sequence[np.ndarray]) -> float:
    """Return how many times as fast as the default the best program is on the arrays."""
    seconds = best_seconds({key: lambda f=f: f(*arrays) for key, f in runs.items()}, 21)
    return seconds["default"] / seconds["best"]


def compared(name: str, log: Path) -> Row:
    """Tune an operator, and compare its gain with that in fresh processes."""
    task = autotvm.task_for(name, CASES[name], TARGET)
    outcome = tune.run(task, trials=TRIALS, log=log, rng=np.random.default_rng(0))
    print(outcome, file=sys.stderr, flush=True)
    gain = outcome.compared or tune.Gain(0.0, 0.0, 0.0)
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1, maxtasksperchild=1) as pool:
        tasks = [(name, outcome.best.candidate)] * PROCESSES
        gains = pool.starmap(fresh, tasks, chunksize=1)
    aligned, plain = map(statistics.median, zip(*gains, strict=True))
    peers = {"low": gain.low, "high": gain.high, "fresh": aligned, "numpy": plain}
    return Row(name, 1, "x default", gain.middle, peers)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        log = Path(flags.log or f"{folder}/log.jsonl")
        report([compared(name, log) for name in flags.cases or CASES], flags.json, ("fresh",))
