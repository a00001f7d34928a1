"""Frozen tables: small search spaces in which every candidate has been measured.

python benchmarks/tables.py trials                      trials to 95 % of the best, three tables
python benchmarks/tables.py measure matmul --seconds 30 measure for 30 s; repeat to resume
python benchmarks/tables.py check C9                    measure 100 candidates of a table twice

A table is a file in minitvm/tune/tables: the options of each knob, and the seconds of each
candidate by its number. Searches on a table need no machine to measure on and take no time for it.
`measure` keeps a log, tables-NAME.jsonl, and writes NAME.npz when every candidate is in it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import threading
import time
from dataclasses import asdict

import numpy as np

from minitvm import autotvm, papers, te, tune
from minitvm.base import host
from minitvm.testing import fma_peak

LANES = 16  # of the vectors that are counted


def unrolled(c, vector, inner, outer):
    """Return how many vectors of results the unrolled loops of a configuration compute."""
    first, second = (
        loop if c["order"].perm == (0, 1) else other
        for loop, other in ((inner, outer), (outer, inner))
    )
    count = -(-vector.size[-1] // LANES)
    for loop, ann in zip((first, second), c["unroll"].anns, strict=True):
        count *= loop.size[-1] if ann == "unroll" else 1
    return count


@autotvm.template("tables/matmul")
def matmul(n):
    """Multiply two square matrices; n is a multiple of 256."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    y, x = s[C].op.axis
    rows, columns = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=32)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 128)
    cfg.define_split("tile_k", k, num_outputs=2, max_factor=8)
    cfg.define_reorder("order", [0, 1], "all")
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("pack", [0, 1])
    cfg.multi_filter(lambda c: unrolled(c, c["tile_x"], c["tile_k"], c["tile_y"]) <= 256)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(xo, yo, yi, xi)
    s[C].vectorize(xi)
    s[tile].compute_at(s[C], yo)
    ko, ki = cfg["tile_k"].apply(s, tile, k)
    inner = cfg["order"].apply(s, tile, [ki, rows])
    s[tile].reorder(ko, *inner, columns)
    cfg["unroll"].apply(s, tile, inner)
    s[tile].vectorize(columns)
    if cfg["pack"].val:
        width = cfg["tile_x"].size[-1]
        strip = s.cache_read(B, "global", [tile])
        s[strip].transform_layout(lambda k, j: (j // width, k, j % width))
        s[strip].compute_at(s[C], xo)
        s[strip].vectorize(s[strip].op.axis[1])
    return s, [A, B, C]


@autotvm.template("tables/conv2d")
def conv2d(size, channels, filters):
    """Convolve an image [1, size, size, channels] with 3 x 3 kernels; the padding is inside."""
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels, filters), name="kernel")
    padded = te.compute(
        (1, size + 2, size + 2, channels),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= 1, y <= size, x >= 1, x <= size), data[n, y - 1, x - 1, c], 0.0
        ),
        name="padded",
    )
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    c = te.reduce_axis((0, channels), name="c")
    out = te.compute(
        (1, size, size, filters),
        lambda n, y, x, f: te.sum(
            padded[n, y + dy, x + dx, c] * kernel[dy, dx, c, f], axis=[dy, dx, c]
        ),
        name="out",
    )
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    n, y, x, f = s[out].op.axis
    _, rows, columns, vector = s[tile].op.axis
    dy, dx, c = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_split("tile_f", f, num_outputs=2, filter=lambda e: 16 <= e.size[-1] <= 128)
    cfg.define_split("tile_c", c, num_outputs=2, max_factor=8)
    cfg.define_reorder("order", [0, 1], "all")
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("kernel", ["outside", "inside"])
    cfg.multi_filter(lambda c: unrolled(c, c["tile_f"], c["tile_c"], c["tile_x"]) <= 256)

    xo, xi = cfg["tile_x"].apply(s, out, x)
    fo, fi = cfg["tile_f"].apply(s, out, f)
    s[out].reorder(n, fo, y, xo, xi, fi)
    s[out].vectorize(fi)
    s[tile].compute_at(s[out], xo)
    co, ci = cfg["tile_c"].apply(s, tile, c)
    inner = cfg["order"].apply(s, tile, [ci, columns])
    around = [dy, dx, co] if cfg["kernel"].val == "outside" else [co, dy, dx]
    s[tile].reorder(*around, rows, *inner, vector)
    cfg["unroll"].apply(s, tile, inner)
    s[tile].vectorize(vector)
    s[padded].vectorize(s[padded].op.axis[3])
    return s, [data, kernel, out]


@autotvm.template("tables/depthwise")
def depthwise(size, channels):
    """Convolve each channel of an image [1, size, size, channels] with its own 3 x 3 kernel."""
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels), name="kernel")
    padded = te.compute(
        (1, size + 2, size + 2, channels),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= 1, y <= size, x >= 1, x <= size), data[n, y - 1, x - 1, c], 0.0
        ),
        name="padded",
    )
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    out = te.compute(
        (1, size, size, channels),
        lambda n, y, x, c: te.sum(padded[n, y + dy, x + dx, c] * kernel[dy, dx, c], axis=[dy, dx]),
        name="out",
    )
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    n, y, x, c = s[out].op.axis
    _, rows, columns, vector = s[tile].op.axis
    dy, dx = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=8)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=14)
    cfg.define_split("tile_c", c, num_outputs=2, filter=lambda e: 16 <= e.size[-1] <= 64)
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("kernel", ["outside", "inside"])
    cfg.define_knob("padded", ["before", "each"])
    cfg.multi_filter(lambda c: points(c) <= 64)

    yo, yi = cfg["tile_y"].apply(s, out, y)
    xo, xi = cfg["tile_x"].apply(s, out, x)
    co, ci = cfg["tile_c"].apply(s, out, c)
    s[out].reorder(n, co, yo, xo, yi, xi, ci)
    s[out].vectorize(ci)
    s[tile].compute_at(s[out], xo)
    inside = cfg["kernel"].val == "inside"
    s[tile].reorder(*([rows, columns, dy, dx] if inside else [dy, dx, rows, columns]), vector)
    cfg["unroll"].apply(s, tile, [rows, columns])
    if inside:
        s[tile].unroll(dy)
        s[tile].unroll(dx)
    s[tile].vectorize(vector)
    if cfg["padded"].val == "each":
        s[padded].compute_inline()
    else:
        s[padded].vectorize(s[padded].op.axis[3])
    return s, [data, kernel, out]


def points(c):
    """Return how many vectors of results the unrolled loops of a configuration compute."""
    count = -(-c["tile_c"].size[-1] // LANES)
    for knob, ann in zip(("tile_y", "tile_x"), c["unroll"].anns, strict=True):
        count *= c[knob].size[-1] if ann == "unroll" else 1
    return count * (9 if c["kernel"].val == "inside" else 1)


CASES = {
    "matmul": ((512,), "the product of two 512 x 512 matrices"),
    "conv2d": ((14, 256, 256), "a 3 x 3 convolution of 14 x 14 x 256, NHWC (C9 of ResNet-18)"),
    "depthwise": ((56, 128), "a depthwise 3 x 3 convolution of 56 x 56 x 128, NHWC"),
}
TARGET = "llvm -num-cores=1"
MAX_ROWS = 2000  # of a table; candidates of larger spaces are drawn
NAMES = (*CASES, *papers.LAYERS, *papers.PRODUCTS, *papers.OTHER_MACHINE, *papers.WINOGRAD)


def task_of(name: str) -> autotvm.Task:
    """Return the task of a table."""
    if name in CASES:
        return autotvm.task.create(f"tables/{name}", CASES[name][0], TARGET)
    return papers.task(name)


def drawn_rows(task: autotvm.Task) -> np.ndarray:
    """Return the numbers of the candidates that a table has, in the order of measuring."""
    rows = tune.every_row(task.config_space.space)
    numbers = np.flatnonzero(task.config_space.space.legal(rows))
    return np.random.default_rng(0).permutation(numbers)[:MAX_ROWS]


def measured(task: autotvm.Task, candidates: list[tune.Candidate], log: tune.Log | None):
    """Measure candidates one after another; append each trial to the log, and yield it."""
    started: list[tune.Candidate] = []

    def programs():
        for candidate in candidates:
            started.append(candidate)
            yield tune.CandidateProgram(task, candidate)

    options = tune.MeasureOptions(compile_seconds=30.0)
    with tune.Measurer(task.default(), task.target, options=options) as measurer:
        for n, result in enumerate(measurer.measure(programs())):
            trial = tune.Trial(started[n], result, time.time())
            if log is not None:
                log.append(tune.record_of(task, trial))
            yield trial


def measure(name: str, seconds: float) -> None:
    """Measure candidates that the log lacks; write the table when all are measured."""
    task, log = task_of(name), tune.Log(f"tables-{name}.jsonl")
    space = task.config_space.space
    numbers = drawn_rows(task).tolist()
    candidates = {task.derived.candidate(space.row(n)): n for n in numbers}
    known = {t.candidate for t in log.read(task).trials}
    left = [c for c in candidates if c not in known]
    end = time.perf_counter() + seconds
    for n, _ in enumerate(measured(task, left, log)):
        if n % 100 == 99:
            print(f"{name}: {len(known) + n + 1} of {len(candidates)}", flush=True)
        if time.perf_counter() > end:
            break
    trials = log.read(task).trials
    print(f"{len(trials)} of {len(candidates)} candidates measured")
    if len(trials) == len(candidates):
        with tune.Measurer(task.default(), task.target) as measurer:
            *_, default = measurer.remeasure([])
        seconds_of = np.full(space.size, math.nan, np.float32)
        for trial in trials:
            seconds_of[candidates[trial.candidate]] = trial.seconds
        machine = {k: v for k, v in asdict(host()).items() if k not in ("features", "fma")}
        about = {
            "what": CASES[name][1] if name in CASES else str(papers.LAYERS.get(name, name)),
            "task": task.name, "args": list(task.arguments), "flops": task.flops,
            "target": str(task.target), "peak": fma_peak(), "default": default.best,
            "machine": machine,
        }  # fmt: skip
        tune.Table(name, space.knobs, seconds_of, about).save(f"{name}.npz")


def check(name: str, count: int = 100) -> None:
    """Measure candidates of a table twice; print how their ranks agree with the table's.

    The two measurements agree no better than the machine lets them; the table cannot do better.
    """
    task, table = task_of(name), tune.load_table(name)
    rows = np.random.default_rng(1).permutation(table.rows)[:count]
    candidates = [task.derived.candidate(tuple(row)) for row in rows.tolist()]
    first, second = (
        np.array([trial.seconds for trial in measured(task, candidates, None)]) for _ in range(2)
    )
    ranks = [np.argsort(np.argsort(seconds)) for seconds in (table.of(rows), first, second)]
    (_, once, twice), (_, _, both), _ = np.corrcoef(ranks)
    print(f"{name:12} Spearman of {len(rows)} rows: table and each measurement", end=" ")
    print(f"{once:.3f} {twice:.3f}, both measurements {both:.3f}", flush=True)


def needed(table: tune.Table, task: tune.Task, guided: bool, seed: int, share: float) -> int:
    """Return how many trials a search needs to reach a share of the best speed."""
    rng, stop, trials = np.random.default_rng(seed), threading.Event(), len(table.measured)
    policy = tune.GuidedPolicy(task, rng) if guided else tune.RandomPolicy(task, rng)
    reached: list[int] = []

    def on(event: tune.Event) -> None:
        if isinstance(event, tune.Measured) and table.best / event.trial.seconds >= share:
            reached.append(event.number)
            stop.set()

    measurer = tune.TableMeasurer(table, task)
    tune.run(task, policy, trials=trials, measurer=measurer, rng=rng, on=on, stop=stop)
    return reached[0] if reached else trials + 1


def trials(seeds: int, share: float) -> None:
    """Print the median number of trials to a share of the best, by random and by default search."""
    print(f"{'table':10} {'random':>8} {'default':>8} {'ratio':>6}   (medians of {seeds} seeds)")
    for name, (args, _) in CASES.items():
        table = tune.load_table(name)
        task = autotvm.task.create(f"tables/{name}", args, table.target)
        random, default = (
            statistics.median(needed(table, task, guided, s, share) for s in range(seeds))
            for guided in (False, True)
        )
        print(f"{name:10} {random:8.1f} {default:8.1f} {default / random:6.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("trials", "measure", "check"), nargs="?", default="trials")
    parser.add_argument("name", choices=NAMES, nargs="?", default="matmul")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of `measure`")
    parser.add_argument("--seeds", type=int, default=20, help="of `trials`")
    parser.add_argument("--share", type=float, default=0.95, help="of the best speed, for `trials`")
    parser.add_argument("--quick", action="store_true", help="3 seeds")
    flags = parser.parse_args()
    if flags.what == "trials":
        trials(3 if flags.quick else flags.seeds, flags.share)
    elif flags.what == "check":
        check(flags.name)
    else:
        measure(flags.name, flags.seconds)
