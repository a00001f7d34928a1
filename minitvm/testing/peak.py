"""The peak rate of this machine, and fair comparisons of rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from minitvm import driver, tir
from minitvm.base import FLOAT32, MeasureError, Target

STEPS = 1 << 19  # multiply-adds in each lane of each chain: much longer than starting the threads
PIECES = 8  # parts of the work per thread; a disturbed thread does fewer of them


def fma_kernel(target: Target, chains: int) -> tir.PrimFunc:
    """Make a program that only does multiply-adds: `chains` independent vectors per thread.

    for t in parallel(threads * PIECES):
      acc[c, :] = 0.5                         for each chain c
      for k in range(STEPS):
        acc[c, :] = acc[c, :]*X[0] + X[1]     for each chain c
      Y[t, c, :] = acc[c, :]                  for each chain c
    """
    lanes, parts = target.lanes(FLOAT32), target.num_cores * PIECES
    size = chains * lanes
    x, y = tir.Buffer("X", (size,), FLOAT32), tir.Buffer("Y", (parts * size,), FLOAT32)
    acc = tir.Buffer("acc", (size,), FLOAT32, "local")
    t, k = tir.Var("t", 0, parts - 1), tir.Var("k", 0, STEPS - 1)

    def each(store: Callable[[int], tir.Stmt]) -> tir.Stmt:
        return tir.seq(*(store(c * lanes) for c in range(chains)))

    def step(at: int) -> tir.Stmt:
        here = tir.lane(lanes) + at
        scaled = tir.Binary(
            "mul", tir.Load(acc, (here,), FLOAT32), tir.Load(x, (0,), FLOAT32), FLOAT32
        )
        return tir.Store(
            acc, (here,), tir.Binary("add", scaled, tir.Load(x, (1,), FLOAT32), FLOAT32)
        )

    body = tir.seq(
        each(lambda at: tir.Store(acc, (tir.lane(lanes) + at,), tir.const(0.5, "float32"))),
        tir.For(k, STEPS, each(step)),
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


def fma_run(threads: int = 1, chains: int = 10) -> tuple[Callable[[], None], float]:
    """Return a call that runs the multiply-add kernel, and its number of floating-point operations.

    Ten chains cover the latency of a multiply-add and fit in sixteen vector registers.
    """
    target = Target(f"llvm -num-cores={threads}")
    func = fma_kernel(target, chains)
    size = chains * target.lanes(FLOAT32)
    f = driver.build(func, target=target)
    x, y = np.full(size, 0.5, "float32"), np.empty(threads * PIECES * size, "float32")
    return lambda: f(x, y), 2.0 * STEPS * size * threads * PIECES


def fma_peak(threads: int = 1, repeat: int = 7) -> float:
    """Measure the rate of a multiply-add kernel without memory traffic, in GFLOP/s.

    This is the upper bound for fp32 programs that LLVM compiles for the same number of threads.
    """
    run, flops = fma_run(threads)
    return flops / interleaved({"fma": run}, repeat)["fma"] / 1e9


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
