"""Search for schedules of single operators without templates; compare with untuned ones and peers.

    python benchmarks/ansor_ops.py [--quick] [--json FILE] [--log FILE] [--trials 64]
                                   [--seeds 1] [--cold] [--isa all|avx2] [case ...]

Cases: C1 ... C12, the convolutions of ResNet-18 in NHWC with constant weights; GMM512 and GMM1024,
square products (twice the trials); and the first shape of the other workloads of Ansor's
evaluation: C1D C3D GRP DIL DEP T2D CAP NRM ConvLayer TBS. If they are named, also C2W, C6W, C9W
and C12W: one search for these layers by two formulas, Winograd's, with the tile that topi chooses,
and the direct one; "default" is Winograd's. Each search starts from an empty log. Then `apply_best`
builds the fastest program: the default where the final measurements found none faster. Batch 1, one
thread; rates in GFLOP/s of the direct formula.

--quick    C6 and GMM512, 16 trials
--log      keep the trials in FILE; cases that it contains are not searched again
--trials   of each search
--seeds    searches of each case, with different random numbers; seed 1 logs to NAME-seed1.jsonl
--cold     each call reads constants that are not in the caches, as in a network; in the search too
--isa      with avx2, ours and the peers without AVX-512

The peers: "default" is topi's schedule of the same formula, by a single call if it takes ten times
as long; torch as in conv.py, for C1 ... C12; numpy for GMM; torch for the other workloads, without
CAP, for which it has no operator; fma_peak is the peak of multiply-adds at the clock of ours.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _common import ISAS, Row, arguments, geometric_mean, report, searches, target

flags = arguments(
    __doc__,
    files=("log",),
    trials=("64", "16", "32", "128", "256"),
    seeds=("1", "3", "5"),
    cold=(),
    isa=ISAS,
)

import numpy as np
from _conv import (
    FASTER,
    LAYERS,
    Layer,
    Run,
    copies,
    drawn,
    in_turn,
    rated,
    theirs,
    torch_or_none,
)
from _workloads import by_torch

import minitvm as tvm
from minitvm import auto_scheduler, te, testing, topi, tune

torch = torch_or_none()
TARGET = target(flags)
TRIALS = 16 if flags.quick else int(flags.trials)
QUICK = ("C6", "GMM512")
OTHERS = ("C1D", "C3D", "GRP", "DIL", "DEP", "T2D", "CAP", "NRM", "ConvLayer", "TBS")
WINOGRAD = ("C2W", "C6W", "C9W", "C12W")
CASES = (*LAYERS, "GMM512", "GMM1024", *OTHERS)


@auto_scheduler.register_workload
def conv2d_nhwc(
    size: int, c: int, o: int, kernel: int, stride: int, method: str = ""
) -> Sequence[te.Tensor]:
    """Define a convolution in NHWC with constant weights."""
    data = te.placeholder((1, size, size, c), name="data")
    weight = te.placeholder((kernel, kernel, c, o), name="weight", constant=True)
    out = topi.conv2d(data, weight, stride, kernel // 2, layout="NHWC", method=method)
    return [data, weight, out]


def layer_of(case: str) -> Layer | None:
    """Return the layer of a case such as C2 or C2W; None for other workloads."""
    return LAYERS.get(case.removesuffix("W"))


def task_of(case: str) -> auto_scheduler.SearchTask:
    """Return the task of a case."""
    layer = layer_of(case)
    if layer is not None and case in LAYERS:
        return auto_scheduler.SearchTask(conv2d_nhwc, layer.dense, target=TARGET)
    if layer is not None:
        direct = auto_scheduler.ComputeDAG(conv2d_nhwc(*layer.dense))
        key = auto_scheduler.make_workload_key(conv2d_nhwc, (*layer.dense, "winograd"))
        return auto_scheduler.SearchTask(workload_key=key, formulas=[direct], target=TARGET)
    if case.startswith("GMM"):
        n = int(case.removeprefix("GMM"))
        return auto_scheduler.SearchTask("GMM", (1, n, n, n), target=TARGET)
    shape = auto_scheduler.workloads.SHAPES[case][0]
    return auto_scheduler.SearchTask(case, shape, target=TARGET)


def direct_flops(task: auto_scheduler.SearchTask, case: str) -> float:
    """Return the arithmetic operations of a case; Winograd's formula counts as the direct one."""
    layer = layer_of(case)
    if layer is None:
        return task.flops
    return 2.0 * np.prod(task.args[-1].shape) * layer.inputs * layer.kernel**2


def bound(s: te.Schedule, args: Sequence[te.Tensor], inputs: dict[str, np.ndarray]) -> Run:
    """Build a schedule and return a call of it; constant inputs are packed beforehand."""
    f = tvm.build(s, args, TARGET)
    arrays = {t.name: tvm.nd.array(inputs[t.name]) for t in args[:-1]}
    weights = [t.op for t in args[:-1] if isinstance(t.op, te.PlaceholderOp) and t.op.constant]
    constant = {op.name: arrays[op.name] for op in weights}
    given = [a for name, a in arrays.items() if name not in constant]
    out = tvm.nd.empty(args[-1].shape)
    several = max((copies(inputs[name], flags.cold) for name in constant), default=1)

    def called(f: tvm.Function) -> Run:
        def run() -> np.ndarray:
            f(*given, out)
            return out

        return run

    if not constant:
        return called(f)
    return in_turn([called(f.bind(**constant)) for _ in range(several)])


def peers_of(case: str, inputs: dict[str, np.ndarray]) -> dict[str, Run]:
    """Return the peers of a case."""
    if case.startswith("GMM"):
        a, b = inputs.values()
        return {"numpy": lambda: np.matmul(a, b)}
    if torch is None:
        return {}
    layer = layer_of(case)
    if layer is not None:
        return theirs(torch, layer, *drawn(layer), cold=flags.cold)
    run = by_torch(torch, case, auto_scheduler.workloads.SHAPES[case][0], inputs)
    return {} if run is None else {"torch": run}


def compared(label: str, case: str, seed: int, log: Path, rounds: int) -> Row:
    """Tune a case, and measure its fastest program and its peers alternately."""
    task = task_of(case)
    trials = TRIALS * (2 if case.startswith("GMM") and not flags.quick else 1)
    options = auto_scheduler.TuningOptions(
        trials,
        runner=tune.LocalRunner(enable_cpu_cache_flush=flags.cold),
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        verbose=0,
    )
    outcome = task.tune(options, auto_scheduler.SketchPolicy(task, seed=seed, verbose=0))
    print(f"{label}: {len(task.sketches)} sketches, {outcome}", file=sys.stderr, flush=True)
    s, args = task.apply_best(log)
    rng = np.random.default_rng(0)
    shapes = {t.name: tuple(map(int, t.shape)) for t in args[:-1]}
    inputs = {
        n: rng.random(shape, "float32") - (n != "variance") / 2 for n, shape in shapes.items()
    }
    run, default = bound(s, args, inputs), bound(topi.schedule(args[-1], TARGET), args, inputs)
    found = run().numpy()
    testing.assert_allclose(found, default().numpy(), rtol=1e-3, atol=1e-2)
    peers, flops = peers_of(case, inputs), direct_flops(task, case)
    if "torch" in peers and case in OTHERS:
        testing.assert_allclose(found, peers["torch"]().numpy(), rtol=1e-3, atol=1e-2)
    start = time.perf_counter()
    default()
    once = time.perf_counter() - start
    run()
    if once > 10 * (time.perf_counter() - start - once):
        row = rated(label, TARGET, {"ours": run, **peers}, flops, rounds)
        row.peers["default"] = flops / once / 1e9
        return row
    return rated(label, TARGET, {"ours": run, "default": default, **peers}, flops, rounds)


if __name__ == "__main__":
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
    measured = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(flags.log or f"{folder}/log.jsonl")
        cases = flags.cases or (QUICK if flags.quick else CASES)
        for label, case, seed, own in searches(cases, int(flags.seeds), log):
            measured.append(compared(label, case, seed, own, 7 if flags.quick else 21))
    report(measured, flags.json, ("default", "fma_peak"))
    for group in (LAYERS, WINOGRAD, OTHERS):
        rows = [row for row in measured if row.case.split()[0] in group]
        for peer in ("default", "torch NHWC", FASTER, "torch", "fma_peak"):
            known = [row for row in rows if peer in row.peers]
            if known:
                mean = geometric_mean(known, peer)
                print(f"geometric mean of ours/{peer}, {known[0].case} ...: {mean:.2f}")
