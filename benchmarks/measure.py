"""Measure the measurer: how many candidates a second are built and run, and what failures cost.

    python benchmarks/measure.py [--quick] [--failures] [--json FILE]

trials        candidates of a matrix product of 512x512 with random tile sizes, per second
compile       lowering and compiling one of them: mean milliseconds
run           linking, comparing and timing one of them: mean milliseconds
after ...     a program that fails this way, and the next one: milliseconds more than two good
              programs, without the time limit

--failures runs 1,000 programs, of which 100 fail in different ways, and checks that each gets its
result and that no process is left (--quick: 100, of which 10 fail).
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from _common import Row, arguments, report

flags = arguments(__doc__, failures=())

import numpy as np
import psutil

import minitvm as tvm
from minitvm import te, tir, topi, tune

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "tune"))
import failing

N = 512
ONE = "llvm -num-cores=1"
LIMIT = 1.0  # seconds that a program may run when failures are provoked
KINDS = (
    "overrun",
    "abort",
    "exit",
    "memory",
    "garbage",
    "wrong",
    "hang",
    "unknown",
    "close",
    "far",
)


def factors(n: int, parts: int, rng: np.random.Generator) -> list[int]:
    """Split n, a power of two, into random factors that are powers of two."""
    ends = sorted(rng.integers(0, n.bit_length(), parts - 1).tolist())
    places = [0, *ends, n.bit_length() - 1]
    return [1 << (b - a) for a, b in itertools.pairwise(places)]


def candidate(rng: np.random.Generator) -> tir.PrimFunc:
    """Tile a matrix product at random, with vectors of at least 8 lanes."""
    A, B = (te.placeholder((N, N), name=name) for name in "AB")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    _, rows, inner = factors(N, 3, rng)
    columns = factors(N // 16, 3, rng)
    io, ii = s[C].split(i, rows * inner)
    jo, ji = s[C].split(j, 16 * columns[2] * min(columns[1], 4))
    s[C].reorder(io, jo, ii, ji)
    s[C].vectorize(s[C].split(ji, 16)[1])
    s[tile].compute_at(s[C], jo)
    (i, j), (k,) = s[tile].op.axis, s[tile].op.reduce_axis
    vectors, lanes = s[tile].split(j, 16)
    io, ii = s[tile].split(i, min(inner, 8))
    ko, ki = s[tile].split(k, int(rng.choice([1, 4, 16])))
    s[tile].reorder(ko, io, ki, ii, vectors, lanes)
    s[tile].unroll(ii)
    s[tile].vectorize(lanes)
    return tvm.lower(s, [A, B, C], target=ONE)


def default() -> tir.PrimFunc:
    A, B = (te.placeholder((N, N), name=name) for name in "AB")
    C = topi.matmul(A, B)
    return tvm.lower(topi.schedule(C, ONE), [A, B, C], target=ONE)


def throughput(trials: int) -> list[Row]:
    """Measure how many random candidates a second are built and run, with early stop."""
    rng = np.random.default_rng(1)
    programs: list[Callable[[], tir.PrimFunc]] = [
        lambda seed=seed: candidate(np.random.default_rng(seed))
        for seed in rng.integers(0, 1 << 30, trials).tolist()
    ]
    with tune.Measurer(default(), ONE) as m:
        reference = m.reference_cost
        start = time.perf_counter()
        found = list(m.measure(programs))
        seconds = time.perf_counter() - start
    best = min(r.best for r in found)
    failed = [r for r in found if r.error]
    for r in failed:
        print(r.error, r.detail.splitlines()[0])
    return [
        Row("trials", 1, "1/s", trials / seconds),
        Row("compile", 1, "ms", 1e3 * statistics.fmean(r.build_seconds for r in found)),
        Row("run", 1, "ms", 1e3 * statistics.fmean(r.run_seconds for r in found)),
        Row("failed", 1, "trials", len(failed)),
        Row("default / best", 1, "ratio", reference / best),
    ]


def elapsed(m: tune.Measurer, programs: Iterable[tune.Program]) -> float:
    start = time.perf_counter()
    for _ in m.measure(programs):
        pass
    return time.perf_counter() - start


def costs(rounds: int) -> list[Row]:
    """Measure the time that each kind of failure costs until the next program is measured."""
    rows: list[Row] = []
    options = tune.MeasureOptions(run_seconds=LIMIT, min_repeat_ms=1)
    with tune.Measurer(failing.doubled(), ONE, options=options) as m:
        good = min(elapsed(m, [failing.doubled] * 2) for _ in range(rounds + 2))
        for kind in KINDS:
            program, _, _ = failing.FAILURES[kind]
            taken = min(elapsed(m, [program, failing.doubled]) for _ in range(rounds))
            limit = LIMIT if kind == "hang" else 0.0
            rows.append(Row(f"after {kind}", 1, "ms", 1e3 * (taken - good - limit)))
    return rows


def many(trials: int) -> None:
    """Run programs of which every tenth fails; check that each gets the right result."""
    programs = [
        failing.FAILURES[KINDS[n // 10 % len(KINDS)]][0] if n % 10 == 9 else failing.doubled
        for n in range(trials)
    ]
    options = tune.MeasureOptions(compile_seconds=30, run_seconds=LIMIT, min_repeat_ms=1)
    start = time.perf_counter()
    with tune.Measurer(failing.doubled(), ONE, options=options) as m:
        found = list(m.measure(programs))
    seconds = time.perf_counter() - start
    for n, result in enumerate(found):
        expected = failing.FAILURES[KINDS[n // 10 % len(KINDS)]][1] if n % 10 == 9 else ""
        assert result.error == expected, (n, result)
    assert len(found) == trials
    assert psutil.Process().children(recursive=True) == []
    print(f"{trials} programs, {trials // 10} failures, {seconds:.1f} s; no process is left")


if __name__ == "__main__":
    if flags.failures:
        many(100 if flags.quick else 1000)
    else:
        rows = [*throughput(60 if flags.quick else 200), *costs(3 if flags.quick else 10)]
        report(rows, flags.json, ())
