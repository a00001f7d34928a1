"""Tune one task for three CPU targets, and run each best program on every target.

    python benchmarks/targets.py [--quick] [--json FILE] [--log FILE] [--trials 64] [case ...]

The targets are this x86 CPU with AVX-512, without it, and without any AVX. Those that the CPU lacks
are left out. Cases: GMM (512 x 512 x 512), C2D (a convolution of 14 x 14 with 256 channels). Each
row has one program, compiled for every target: GFLOP/s, one thread. "ours" is the rate on the
target that it was tuned for. The row "default" has topi's schedule for each target, and the highest
rate as "ours". The last table is the same, relative to the program that was tuned for the column's
target.

--quick    16 trials
--log      keep the trials in FILE; the same command continues
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__, files=("log",), trials=("64", "16", "32", "128", "256"))

import numpy as np

import minitvm as tvm
from minitvm import auto_scheduler, te, testing, topi, tune
from minitvm.base import Target

TARGETS = {"AVX-512": ("", 64), "AVX2": ("-avx512f", 32), "SSE4": ("-avx", 16)}
# name -> (features to leave out, bytes of a vector)
TRIALS = 16 if flags.quick else int(flags.trials)
SHAPES = {name: auto_scheduler.workloads.SHAPES[name][2] for name in ("GMM", "C2D")}
Program = tuple[te.Schedule, Sequence[te.Tensor]]


def targets() -> dict[str, Target]:
    """Return the targets whose vectors this CPU has."""
    found = dict[str, Target]()
    for name, (without, width) in TARGETS.items():
        to = Target(f"llvm {f'-mattr={without} ' if without else ''}-num-cores=1")
        if to.vector_bytes == width:
            found[name] = to
    return found


def task_of(case: str, target: Target) -> auto_scheduler.SearchTask:
    """Return the task of a case for a target."""
    return auto_scheduler.SearchTask(case, SHAPES[case], target=target)


def tuned(case: str, target: Target, log: Path) -> Program:
    """Search for the best program for a target; print what the analytic model says of it."""
    task = task_of(case, target)
    outcome = tune.run(task, trials=TRIALS, log=log, rng=np.random.default_rng(0))
    number, row = outcome.best.candidate
    sketch = task.sketches[number]
    why = tune.analytic.explain(sketch, row, target)
    print(f"{target}: {outcome}\n  {sketch.name}: {why}", file=sys.stderr, flush=True)
    return sketch.scheduled(row), sketch.args


def compared(case: str, log: Path) -> list[Row]:
    """Tune a case for each target; return a row for each program, and one for the defaults."""
    to = targets()
    programs = {name: tuned(case, target, log) for name, target in to.items()}
    different = len({s.to_json() for s, _ in programs.values()})
    print(f"{case}: {different} different programs for {len(programs)} targets")
    task = task_of(case, Target("llvm -num-cores=1"))
    rng = np.random.default_rng(0)
    arrays = [tvm.nd.array(rng.random(t.shape, np.float32)) for t in task.args[:-1]]
    out = tvm.nd.empty(task.args[-1].shape)
    built = dict[str, tvm.Function]()
    for name, target in to.items():
        default = topi.schedule(task.outputs, target), task.args
        for row, (s, args) in {**programs, "default": default}.items():
            built[f"{row} on {name}"] = tvm.build(s, args, target)
    wanted = np.array(0)
    for n, f in enumerate(built.values()):
        f(*arrays, out)
        wanted = wanted if n else out.numpy().copy()
        testing.assert_allclose(out.numpy(), wanted, rtol=1e-3)
    runs = {key: lambda f=f: f(*arrays, out) for key, f in built.items()}
    seconds = best_seconds(runs, 7 if flags.quick else 21)
    rows = list[Row]()
    for row in (*programs, "default"):
        rates = {f"on {name}": task.flops / seconds[f"{row} on {name}"] / 1e9 for name in to}
        own = rates.get(f"on {row}", max(rates.values()))
        rows.append(Row(f"{case} {row}", 1, "GFLOP/s", own, rates))
    return rows


if __name__ == "__main__":  # measuring processes may import this file
    measured = dict[str, list[Row]]()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(flags.log or f"{folder}/log.jsonl")
        for each in flags.cases or SHAPES:
            measured[each] = compared(each, file)
    report([row for rows in measured.values() for row in rows], flags.json, ())
    for rows in measured.values():
        best = {f"on {row.case.split()[1]}": row.ours for row in rows[:-1]}
        print("  ".join(["relative".rjust(12), *best]))
        for row in rows:
            shares = (f"{row.peers[on] / best[on]:.2f}".rjust(len(on)) for on in best)
            print("  ".join([row.case.rjust(12), *shares]))
