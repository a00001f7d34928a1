"""Time a round of search over rows, and compare the analytic model with measured kernels.

    python benchmarks/rows.py [--quick] [--json FILE]

round    one round of evolution on a convolution (28x28, 128 to 128 channels, 3x3, NCHW): 5
         generations of 2,540 candidates are drawn, mutated, crossed, compared with those seen,
         checked and described by features, and the trees of a search predict their speed; CPU
         milliseconds of one core, best of several rounds, in total and in parts. The bar is 100 ms.
         A search also asks the analytic model, which is not part of the total. Last, the
         milliseconds of one prediction, its features included: AutoTVM's talk has .67.
analytic random legal rows of a 512x512x512 product are built and run: the rank correlation of
         the model's estimates with their times, the best of its first eight relative to the best of
         all, and the best of all candidates that it picks from 20,000, relative to the FMA peak
oracle   how many of 40 rows have the features that lowered loops have
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import arguments

flags = arguments(__doc__)

import numpy as np  # after arguments() has set the number of threads
from scipy.stats import spearmanr

from minitvm import driver, te, topi, tune
from minitvm.base import Target
from minitvm.testing import share_of_peak
from minitvm.tune.features import features_of
from minitvm.tune.legal import legal_in
from minitvm.tune.packed import all_packed

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.tune import sketches
from tests.tune.oracle import oracle

TARGET = Target("llvm -num-cores=1")
GENERATIONS, POPULATION = 5, 2540


def measure_round(rounds: int) -> dict[str, float]:
    """Return the CPU milliseconds of the parts of a round; each part is the best of `rounds`."""
    space = sketches.conv(28, 128, 128, 3, 1, "NCHW", 2)
    rng = np.random.default_rng(0)
    rows = space.space.sample(rng, 256)
    model = tune.Trees()
    model.fit(tune.features(space, rows), rng.random(256))
    best: dict[str, float] = {}
    for _ in range(rounds):
        parts = _round(space, model, rng)
        best = {n: min(t, best.get(n, t)) for n, t in parts.items()}
    told = ("loops", "features", "analytic", "predict")
    each = sum(best[name] for name in told) / (GENERATIONS * POPULATION)
    return best | {"ms per prediction": each}


def _round(sketch: tune.Sketch, model: tune.Model, rng: np.random.Generator) -> dict[str, float]:
    spent: dict[str, float] = {}

    def timed(name: str, work: Callable[..., Any], *args: Any) -> Any:
        start = time.thread_time()
        result = work(*args)
        spent[name] = spent.get(name, 0.0) + (time.thread_time() - start) * 1e3
        return result

    space, shape = sketch.space, tune.statements(sketch)
    rows = timed("sample", space.sample, rng, POPULATION)
    seen = np.zeros(0, np.uint64)
    for _ in range(GENERATIONS):
        keys = timed("dedupe", space.keys, rows)
        timed("dedupe", tune.first_of_each, keys, seen)
        seen = np.concatenate([seen, keys])
        batch = timed("loops", shape.at, rows)
        arrays = timed("loops", all_packed, batch)
        timed("legality", legal_in, batch, TARGET)
        table = timed("features", features_of, batch, arrays)
        timed("analytic", tune.analytic.columns_of, batch, arrays, TARGET)
        scores = timed("predict", model.predict, table)
        parents = rows[np.argsort(-scores)[rng.integers(0, POPULATION // 2, (2, POPULATION))]]
        crossed = timed("cross", space.cross, rng, parents[0], parents[1])
        rows = timed("mutate", space.mutate, rng, crossed)
    return spent | {"total": sum(spent.values()) - spent["analytic"]}


def cpu_seconds(run: Callable[[], None], repeat: int) -> float:
    """Return the shortest CPU time of a call."""
    best = float("inf")
    for _ in range(repeat):
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best


def speeds(sketch: tune.Sketch, rows: tune.Rows) -> list[float]:
    """Build and run candidates of a 512x512x512 product; return their GFLOP/s."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((512, 512)).astype("float32") for _ in range(2))
    out, found = np.empty((512, 512), "float32"), list[float]()
    for row in rows.tolist():
        func = driver.lower(sketch.scheduled(row), sketch.args, target=TARGET)
        f = driver.build(func, target=TARGET)
        first = cpu_seconds(lambda f=f: f(x, y, out), 1)
        best = min(first, cpu_seconds(lambda f=f: f(x, y, out), 4 if first < 0.03 else 1))
        found.append(2 * 512**3 / best / 1e9)
    return found


def peak_rate() -> float:
    """Return the peak of multiply-adds in GFLOP/s, at the clock of a few calls of a product."""
    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    c = topi.matmul(a, b)
    f = driver.build(topi.schedule(c, TARGET), [a, b, c], target=TARGET)
    x, y, out = np.random.default_rng(0).random((3, 512, 512), np.float32)
    flops, run = 2 * 512**3, lambda: f(x, y, out)
    share = share_of_peak(run, flops, TARGET).share
    return flops / cpu_seconds(run, 5) / share / 1e9


def measure_analytic(count: int) -> dict[str, float]:
    """Return how well the analytic model ranks legal rows, and what its first picks reach."""
    estimates, measured, pools = (
        list[float](),
        list[float](),
        list[tuple[float, tune.Sketch, list[int]]](),
    )
    for n in range(6):
        sketch = tune.restricted(sketches.matmul(512, 512, 512, n % 3, packed=n > 2), TARGET)
        rows = sketch.space.sample(np.random.default_rng(n), -(-count // 6))
        estimates += tune.analytic.seconds(sketch, rows, TARGET).tolist()
        measured += speeds(sketch, rows)
        many = sketch.space.sample(np.random.default_rng(n + 6), 20_000 // 6)
        likely = tune.analytic.seconds(sketch, many, TARGET)
        pools += [(likely[i], sketch, many[i].tolist()) for i in np.argsort(likely)[:8]]
    found, order = np.array(measured), np.argsort(estimates)
    picks = sorted(pools, key=lambda p: p[0])[:8]
    reached = [speeds(s, np.array([row], np.int32))[0] for _, s, row in picks]
    peak = peak_rate()
    return {
        "rows": len(found),
        "spearman": -float(spearmanr(estimates, found)[0]),
        "best of first 8 / best": float(found[order[:8]].max() / found.max()),
        "best of random / peak": float(found.max() / peak),
        "first pick / peak": reached[0] / peak,
        "best of 8 picks / peak": max(reached) / peak,
        "peak": peak,
    }


def agreement() -> dict[str, float]:
    """Count the rows whose features equal those of their lowered loops; also time this."""
    equal, start, number = 0, time.thread_time(), 0
    for layout, level in (("NCHW", 2), ("NHWC", 1)):
        sketch = sketches.conv(28, 128, 128, 3, 1, layout, level)
        rows = sketch.space.sample(np.random.default_rng(1), 20)
        for row, mine in zip(rows.tolist(), tune.features(sketch, rows), strict=True):
            theirs = np.array([*oracle(sketch, tuple(row)).values()])
            equal += bool(np.allclose(mine, theirs, rtol=1e-4, atol=1e-4))
            number += 1
    return {"rows": number, "equal": equal, "ms a row": (time.thread_time() - start) * 1e3 / number}


if __name__ == "__main__":
    results = {
        "round": measure_round(5 if flags.quick else 20),
        "analytic": measure_analytic(24 if flags.quick else 120),
        "oracle": agreement(),
    }
    for name, figures in results.items():
        print(name, "  ".join(f"{n} {v:.3g}" for n, v in figures.items()))
    if flags.json is not None:
        flags.json.write_text(json.dumps(results, indent=1))
