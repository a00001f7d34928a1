"""The peak rate of this machine, and fair comparisons of rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from minitvm import driver, tir
from minitvm.base import FLOAT32, MeasureError, Target

STEPS = 1 << 19  # multiply-adds in each lane of each chain: much longer than starting the threads
PIECES = 8  # parts of the work per thread; a disturbed thread does fewer of them
BURST = 1 << 15  # steps that end before the clock rises again: two such calls take 1 ms
SETTLE = 0.08  # seconds after which the clock has settled under the load of a program


def fma_kernel(target: Target, chains: int, steps: int = STEPS) -> tir.PrimFunc:
    """Make a program that only does multiply-adds: `chains` independent vectors per thread.

    for t in parallel(threads * PIECES):
      acc[c, :] = 0.5                         for each chain c
      for k in range(steps):
        acc[c, :] = acc[c, :]*X[0] + X[1]     for each chain c
      Y[t, c, :] = acc[c, :]                  for each chain c
    """
    lanes, parts = target.lanes(FLOAT32), target.num_cores * PIECES
    size = chains * lanes
    x, y = tir.Buffer("X", (size,), FLOAT32), tir.Buffer("Y", (parts * size,), FLOAT32)
    acc = tir.Buffer("acc", (size,), FLOAT32, "local")
    t, k = tir.Var("t", 0, parts - 1), tir.Var("k", 0, steps - 1)

    def each(store: Callable[[int], tir.Stmt]) -> tir.Stmt:
        return tir.seq(*(store(c * lanes) for c in range(chains)))

    def step(at: int) -> tir.Stmt:
        index = tir.lane(lanes) + at
        product = tir.Binary(
            "mul", tir.Load(acc, (index,), FLOAT32), tir.Load(x, (0,), FLOAT32), FLOAT32
        )
        return tir.Store(
            acc, (index,), tir.Binary("add", product, tir.Load(x, (1,), FLOAT32), FLOAT32)
        )

    body = tir.seq(
        each(lambda at: tir.Store(acc, (tir.lane(lanes) + at,), tir.const(0.5, "float32"))),
        tir.For(k, steps, each(step)),
        each(
            lambda at: tir.Store(
                y,
                (tir.lane(lanes) + at + t * size,),
                tir.Load(acc, (tir.lane(lanes) + at,), FLOAT32),
            )
        ),
    )
    loop = tir.For(t, parts, tir.Allocate(acc, body), "parallel")
    return tir.PrimFunc("fma_peak", (x, y), loop, (y,))


def fma_run(
    threads: int = 1, chains: int = 10, *, target: str | Target = "llvm", steps: int = STEPS
) -> tuple[Callable[[], None], float]:
    """Return a call that runs the multiply-add kernel, and its number of floating-point operations.

    Ten chains cover the latency of a multiply-add and fit in sixteen vector registers.
    """
    unit = Target(target).on(num_cores=threads)
    func = fma_kernel(unit, chains, steps)
    size = chains * unit.lanes(FLOAT32)
    f = driver.build(func, target=unit)
    x, y = np.full(size, 0.5, "float32"), np.empty(threads * PIECES * size, "float32")
    return lambda: f(x, y), 2.0 * steps * size * threads * PIECES


def fma_peak(threads: int = 1, repeat: int = 7) -> float:
    """Measure the rate of a multiply-add kernel without memory traffic, in GFLOP/s.

    This is the upper bound for fp32 programs that LLVM compiles for the same number of threads.
    The clock is that of this light load: for a program's share of the peak, use share_of_peak.
    """
    run, flops = fma_run(threads)
    return flops / interleaved({"fma": run}, repeat)["fma"] / 1e9


@dataclass(frozen=True, slots=True)
class PeakShare:
    """The speed of a program and the peak at the same clock: medians of several rounds.

    rate    the program's GFLOP/s
    peak    the GFLOP/s of multiply-adds from registers, right after the program
    share   the program's part of the peak, 0 to 1
    """

    rate: float
    peak: float
    share: float


def share_of_peak(
    run: Callable[[], object],
    flops: float,
    target: str | Target = "llvm -num-cores=1",
    repeat: int = 7,
) -> PeakShare:
    """Measure a program, and the peak of multiply-adds at the clock that the program leaves.

    A CPU lowers its clock under the load of a real program, and raises it again within
    milliseconds. So the program runs until the clock has settled, where the fastest of the last
    calls counts, and a short burst of multiply-adds follows at once. The first call of the burst is
    not timed: the program has driven its code out of the caches.

    run      a call of the program
    flops    the floating-point operations of a call
    target   the target for which the program was built: its vectors and threads set the peak
    """
    if repeat < 1 or not flops > 0:
        raise MeasureError(f"share_of_peak(flops={flops}, repeat={repeat})", "nothing to measure")
    target = Target(target)
    timer = time.perf_counter if target.num_cores > 1 else time.thread_time
    burst, burst_flops = fma_run(target.num_cores, target=target, steps=BURST)
    turns = list[tuple[float, float]]()
    for _ in range(repeat):
        seconds, end = list[float](), time.perf_counter() + SETTLE
        while len(seconds) < 2 or time.perf_counter() < end:
            seconds.append(_timed(run, timer))
        burst()
        seconds_of_run = min(seconds[len(seconds) * 3 // 4 :])
        turns.append((flops / seconds_of_run / 1e9, burst_flops / _timed(burst, timer) / 1e9))
    rates, peaks = zip(*turns, strict=True)
    return PeakShare(median(rates), median(peaks), median(r / p for r, p in turns))


def _timed(run: Callable[[], object], timer: Callable[[], float]) -> float:
    """Return the seconds of a call; never 0, whatever the timer's resolution."""
    start = timer()
    run()
    return max(timer() - start, 1e-9)


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    repeat: int = 7,
    timer: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the shortest time of each of `runs` in seconds, measured under the same conditions.

    The runs alternate in rounds a, b, c, a, b, c, ...; the first round is not counted.
    """
    if repeat < 1 or not runs:
        raise MeasureError(f"interleaved({len(runs)} runs, repeat={repeat})", "nothing to measure")
    best = dict.fromkeys(runs, float("inf"))
    for n in range(repeat + 1):
        for name, run in runs.items():
            start = timer()
            run()
            seconds = timer() - start
            if n > 0:
                best[name] = min(best[name], seconds)
    return best
