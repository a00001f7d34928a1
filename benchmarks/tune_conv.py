"""Tune the convolutions of ResNet-18 in NHWC, then compare them with untuned ones and torch.

    python benchmarks/tune_conv.py [--quick] [--json FILE] [--cold] [--log FILE]
                                   [--isa all|avx2] [C1 ... C12]

Each layer gets 64 trials of the default policy, from an empty log. Then `apply_history_best` and
topi.schedule build it, as a user would: the default schedule is kept where the last measurements
of the search found no faster one. Batch 1, one thread, constant weights; rates in GFLOP/s.

--quick   two layers, 16 trials each
--cold    each call reads weights that are not in the caches, as in a network; in the search too
--log     keep the trials in FILE; layers that it contains are not searched again
--isa     with avx2, ours and the peers without AVX-512

The peers: "default" is topi's schedule in NHWC without a log; the others are those of conv.py.
"""

import sys
import tempfile
from pathlib import Path

from _common import ISAS, Row, arguments, geometric_mean, report, target

flags = arguments(__doc__, files=("log",), cold=(), isa=ISAS)

import numpy as np
from _conv import FASTER, LAYERS, ROWS, drawn, laid_out, ours, rated, theirs, torch_or_none

from minitvm import autotvm, testing, tune

torch = torch_or_none()
TARGET = target(flags)
TRIALS = 16 if flags.quick else 64
QUICK = ("C6", "C12")
RATIOS = ("default", ROWS, FASTER, "fma_peak")


def tuned(name: str, log: Path) -> tune.Outcome:
    """Search for the schedule of a layer."""
    layer = LAYERS[name]
    shape = (1, layer.size, *layer.dense, layer.pad)
    task = autotvm.task_for("conv2d_nhwc", shape, TARGET)
    options, rng = tune.MeasureOptions(cold=flags.cold), np.random.default_rng(0)
    return tune.run(task, trials=TRIALS, log=log, measure=options, rng=rng)


def compared(name: str, log: Path, rounds: int) -> Row:
    """Measure the tuned kernel and its peers alternately."""
    layer = LAYERS[name]
    x, w = drawn(layer)
    with autotvm.apply_history_best(log) as history:
        run, y = ours(layer, x, w, TARGET, layout="NHWC", cold=flags.cold)
    assert history.best
    default, expected = ours(layer, x, w, TARGET, layout="NHWC", cold=flags.cold)
    rows, _ = ours(layer, x, w, TARGET, method="rows", cold=flags.cold)
    peers = {} if torch is None else theirs(torch, layer, x, w, cold=flags.cold)
    run()
    default()
    testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-2)
    if torch is not None:
        wanted = laid_out(peers["torch NCHW"]().numpy(), "NHWC")
        testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-2)
    runs = {"ours": run, "default": default, ROWS: rows, **peers}
    return rated(name, TARGET, runs, 2 * y.size * layer.inputs * layer.kernel**2, rounds)


if __name__ == "__main__":
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
    measured = list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(flags.log or f"{folder}/log.jsonl")
        for name in flags.cases or (QUICK if flags.quick else LAYERS):
            print(f"{name}: {tuned(name, log)}", file=sys.stderr, flush=True)
            measured.append(compared(name, log, 7 if flags.quick else 21))
    ratios = [r for r in RATIOS if r in measured[0].peers]
    report(measured, flags.json, tuple(ratios), "ours NHWC")
    for peer in ratios:
        print(f"geometric mean of ours/{peer}: {geometric_mean(measured, peer):.2f}")
