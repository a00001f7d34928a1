"""Compare tuned tilings of ResNet-18 on the simulated accelerator with the one chosen by hand.

    python benchmarks/vta_tune.py                         C2 .. C12 on vta_pynq, one seed
    python benchmarks/vta_tune.py C9 --seeds 3            one layer with three seeds
    python benchmarks/vta_tune.py --quick --json rows.json

"hand" is the tiling of VTA's tutorial convolution_opt, made for C9, with smaller sizes where they
do not divide a layer. Two tuners search the same space, with seeds 0, 1, ...: XGBTuner and, as the
baseline, RandomTuner. "optimum" is the fastest tiling with two virtual threads, by exhaustive
search with lower bounds; the tuners may also choose one thread, or four.

Trials are timed only. Then the best program of each search is verified, simulated on random data,
and its outputs are compared with those of the tiling by hand. Cycles are exact: they depend on the
seeds, but not on the machine that runs the simulator. The exit status is 1 if XGBTuner ends slower
than the tiling by hand with any seed, unless the search is a quick one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from minitvm import autotvm, tune, vta

TUNERS = ("xgb", "random")
PLAN = 16  # XGBTuner trains its model, and plans, after this many trials
TRIALS, QUICK = 64, 16
TIMED = tune.MeasureOptions(check=False)


@dataclass(frozen=True, slots=True)
class Row:
    """The cycles of one layer.

    xgb, random   the fastest program of each search, in the order of the seeds
    tiling        that of the fastest program of all searches
    space         the number of configurations
    seconds       the time of all searches of this layer
    """

    case: str
    hand: int
    xgb: tuple[int, ...]
    random: tuple[int, ...]
    optimum: int
    tiling: dict[str, int]
    space: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Return hand over the median of XGBTuner: above 1 if tuning is faster."""
        return self.hand / float(np.median(self.xgb))


def row(case: str, seeds: int, trials: int) -> Row:
    """Search for the fastest tiling of a layer with both tuners."""
    start, layer = time.perf_counter(), vta.RESNET18[case]
    task = autotvm.packed.task(layer)
    measurer = tune.SimulatedVta(task.default())
    hand = int(measurer.reference_cost)
    cycles = {name: list[int]() for name in TUNERS}
    best = dict[int, vta.Tiling]()
    for name in TUNERS:
        for seed in range(seeds):
            trial = searched(task, name, seed, trials)
            program = tune.CandidateProgram(task, trial.candidate)
            (result, _) = measurer.remeasure([program])
            if result.error or result.best != trial.cost:
                raise SystemExit(f"{case}: {result.error or 'other cycles'}: {result.detail}")
            cycles[name].append(int(result.best))
            best[int(result.best)] = autotvm.packed.tiling(task.config(trial.candidate))
    seconds = time.perf_counter() - start
    xgb, random = map(tuple, cycles.values())
    optimum = vta.best_tiling(layer, threads=2).cycles
    tiling = asdict(best[min(best)])
    return Row(case, hand, xgb, random, optimum, tiling, len(task.config_space), seconds)


def searched(task: autotvm.Task, name: str, seed: int, trials: int) -> tune.Trial:
    """Return the fastest trial of one search."""
    rng = np.random.default_rng(seed)
    if name == "xgb":
        tuner = autotvm.tuner.XGBTuner(task, plan_size=PLAN, rng=rng)
    else:
        tuner = autotvm.tuner.RandomTuner(task, rng)
    return tuner.tune(n_trial=trials, measure_option=TIMED).best


def show(rows: list[Row]) -> None:
    """Print the table; cycles of several seeds are medians."""
    print(f"{'case':5}{'hand':>9}{'xgb':>9}{'random':>9}{'optimum':>9}", end="")
    print(f"{'hand/xgb':>10}{'space':>7}{'seconds':>9}  fastest tiling")
    for r in rows:
        xgb, random = np.median(r.xgb), np.median(r.random)
        tiling = " ".join(f"{k}={v}" for k, v in r.tiling.items() if v > 1)
        print(f"{r.case:5}{r.hand:9}{xgb:9.0f}{random:9.0f}{r.optimum:9}", end="")
        print(f"{r.ratio:10.3f}{r.space:7}{r.seconds:9.0f}  {tiling}")


def main() -> None:
    """Parse the flags, search all layers, print the table and write the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=f"by default all: {' '.join(vta.RESNET18)}")
    parser.add_argument("--seeds", type=int, default=1, help="searches with each tuner")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each search")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} trials a search")
    parser.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1), help="processes"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here as well")
    flags = parser.parse_args()
    if unknown := set(flags.cases) - set(vta.RESNET18):
        parser.error(f"no layer is called {', '.join(sorted(unknown))}")
    cases = flags.cases or list(vta.RESNET18)
    trials = QUICK if flags.quick else flags.trials
    with ProcessPoolExecutor(flags.threads, get_context("spawn")) as pool:
        rows = list(pool.map(row, cases, repeat(flags.seeds), repeat(trials)))
    show(rows)
    if flags.json is not None:
        flags.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
    slower = [r.case for r in rows if max(r.xgb) > r.hand]
    if slower and not flags.quick:
        sys.exit(f"slower than by hand: {', '.join(slower)}")


if __name__ == "__main__":
    main()
