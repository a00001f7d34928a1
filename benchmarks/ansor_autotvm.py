"""Compare search without a template with AutoTVM: a template, and its XGBTuner with defaults.

    python benchmarks/ansor_autotvm.py [--quick] [--json FILE] [--log FILE] [--trials 128]
                                       [--isa all|avx2] [C2 C4 C6 C9 C12]

The cases are convolutions of ResNet-18, batch 1, one thread, constant weights: in NHWC for the
search by sketches, and in NCHWc for AutoTVM's template conv2d_nchwc. Both searches have the same
number of trials. XGBTuner trains its model after each 64 trials, the first of which are random.

    ours / autotvm   GFLOP/s of the best programs, measured alternately; torch is as in conv.py
    wall time        the time until our search had a program at least as fast as AutoTVM's best
                     (inf if it had none), relative to the whole time of AutoTVM's search; both as
                     measured by the searches

--quick    C6, 16 trials, of which XGBTuner's are all random
--json     also has the curves: the wall seconds and the GFLOP/s of each trial that was the fastest
--log      keep the trials in FILE; the same command continues, but has no wall times then
--isa      with avx2, both without AVX-512
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _common import ISAS, Row, arguments, geometric_mean, report, target

flags = arguments(__doc__, files=("log",), trials=("128", "16", "64", "256", "512"), isa=ISAS)

import numpy as np
from _conv import BLOCK, LAYERS, Layer, Run, drawn, laid_out, rated, theirs, torch_or_none

import minitvm as tvm
from minitvm import auto_scheduler, autotvm, te, testing, topi, tune

torch = torch_or_none()
TARGET = target(flags)
TRIALS = 16 if flags.quick else int(flags.trials)
CASES = flags.cases or (["C6"] if flags.quick else ["C2", "C4", "C6", "C9", "C12"])


Curve = list[tuple[float, float]]


def conv(layer: Layer) -> auto_scheduler.SearchTask:
    """Return the task of a convolution in NHWC."""
    data = te.placeholder((1, layer.size, layer.size, layer.inputs), name="data")
    shape = (layer.kernel, layer.kernel, layer.inputs, layer.outputs)
    weight = te.placeholder(shape, name="weight", constant=True)
    out = topi.conv2d(data, weight, layer.stride, layer.pad, layout="NHWC")
    dag = auto_scheduler.ComputeDAG([data, weight, out])
    return auto_scheduler.SearchTask(compute_dag=dag, target=TARGET)


def searched(
    name: str, task: tune.Task, policy: tune.Policy, log: Path
) -> tuple[tune.Outcome, float]:
    """Search, and return the outcome and the time when the search began."""
    begin = time.time()
    outcome = tune.run(task, policy, trials=TRIALS, log=log, rng=np.random.default_rng(0))
    print(f"{name}: {outcome}", file=sys.stderr, flush=True)
    return outcome, begin


def bound(outcome: tune.Outcome, data: np.ndarray, weight: np.ndarray) -> tuple[Run, np.ndarray]:
    """Build the best program of a search; return a call of it, and its result."""
    f = tvm.build(outcome.task.lowered(outcome.best.candidate), target=TARGET)
    f = f.bind(weight=tvm.nd.array(weight))
    x, y = tvm.nd.array(data), tvm.nd.empty(outcome.task.args[-1].shape)
    f(x, y)
    return lambda: f(x, y), y.numpy()


def curve(outcome: tune.Outcome, begin: float) -> Curve:
    """Return the seconds and the GFLOP/s of each trial that was faster than all before it."""
    points, best = Curve(), float("inf")
    for trial in sorted(outcome.trials, key=lambda t: t.time):
        if trial.seconds < best:
            best = trial.seconds
            points.append((round(trial.time - begin, 2), round(tune.rate(outcome.task, best), 2)))
    return points


def compared(case: str, log: Path) -> tuple[Row, float, dict[str, Curve]]:
    """Search for the schedule of a layer in both ways; return rates, the wall time and curves."""
    layer = LAYERS[case]
    sizes = (1, layer.size, layer.size, layer.inputs, layer.outputs)
    given = (*sizes, layer.kernel, layer.stride, layer.pad, BLOCK)
    template = autotvm.task_for("conv2d_nchwc", given, TARGET)
    tuner = autotvm.tuner.XGBTuner(template, rng=np.random.default_rng(0))
    autotuned, start = searched(f"{case} AutoTVM", template, tuner, log)
    whole = max(trial.time for trial in autotuned.trials) - start
    task = conv(layer)
    policy = tune.GuidedPolicy(task, np.random.default_rng(0))
    ours, begin = searched(f"{case} sketches", task, policy, log)
    best = min(trial.seconds for trial in autotuned.trials)
    reached = [trial.time for trial in ours.trials if trial.seconds <= best]
    share = (min(reached) - begin) / whole if reached else float("inf")
    if autotuned.earlier or ours.earlier:
        share = float("nan")  # the log has no time of the beginning
    x, w = drawn(layer)
    run, y = bound(ours, laid_out(x, "NHWC"), w.transpose(2, 3, 1, 0))
    peer, other = bound(autotuned, laid_out(x, f"NCHW{BLOCK}c"), w)
    wanted = laid_out(y.transpose(0, 3, 1, 2), f"NCHW{BLOCK}c")
    testing.assert_allclose(other, wanted, rtol=1e-3, atol=1e-2)
    flops = 2.0 * y.size * layer.inputs * layer.kernel**2
    runs = {"ours": run, "autotvm": peer}
    if torch is not None:
        runs |= theirs(torch, layer, x, w)
    curves = {"ours": curve(ours, begin), "autotvm": curve(autotuned, start)}
    return rated(case, TARGET, runs, flops, 7 if flags.quick else 21), share, curves


if __name__ == "__main__":  # measuring processes may import this file
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
    rows, shares, curves = list[Row](), list[float](), dict[str, dict[str, Curve]]()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            row, share, curves[case] = compared(case, Path(flags.log or f"{folder}/log.jsonl"))
            rows.append(row)
            shares.append(share)
            if not math.isnan(share):
                print(f"{case}: AutoTVM's best after {share:.2f} of its wall time", flush=True)
    report(rows, flags.json, ("autotvm", "fma_peak"), curves=curves)
    print(f"geometric mean of ours/autotvm: {geometric_mean(rows, 'autotvm'):.2f}")
    known = [share for share in shares if not math.isnan(share)]
    if known:
        print(f"median of the wall times: {statistics.median(known):.2f}")
