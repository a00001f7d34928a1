"""Compare fp32 matrix products with topi's schedule (no search), numpy's BLAS and the FMA peak.

    python benchmarks/gemm.py --threads 1 [--quick] [--json FILE] [case ...]

A, B and C are row-major; if the schedule packs them, that is part of the timed call. A case MxNxK
multiplies [M, K] by [K, N]. Rates are in GFLOP/s, and higher is better.
"""

from _common import Row, arguments, best_seconds, report

CASES = ["512x512x512", "1024x1024x1024", "2048x2048x2048"]
ODD = ["128x768x3072", "1x1024x1024", "1000x700x900"]

flags = arguments(__doc__)

import numpy as np  # after arguments() has set the number of threads

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose, fma_run

try:
    import torch
except ImportError:
    torch = None


def measure(case: str, threads: int, rounds: int) -> Row:
    """Measure our kernel, numpy, the FMA peak and, if installed, torch in alternation."""
    m, n, k = (int(x) for x in case.split("x"))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    c = topi.matmul(a, b, name="C")
    target = f"llvm -num-cores={threads}"
    f = tvm.build(topi.schedule(c, target), [a, b, c], target)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype("float32") for s in ((m, k), (k, n)))
    out, other = np.empty((m, n), "float32"), np.empty((m, n), "float32")
    f(x, y, out)
    assert_allclose(out, x @ y, rtol=1e-3, atol=1e-3 * k**0.5)
    peak, peak_flops = fma_run(threads)
    runs = {
        "ours": lambda: f(x, y, out),
        "numpy": lambda: np.matmul(x, y, out=other),
        "fma_peak": peak,
    }
    if torch is not None:
        torch.set_num_threads(threads)
        tx, ty, tz = (torch.from_numpy(v) for v in (x, y, np.empty_like(out)))
        runs["torch"] = lambda: torch.matmul(tx, ty, out=tz)
    flops = 2 * m * n * k
    burst = max(3, min(50, int(5e7 / flops) + 1))
    seconds = best_seconds(runs, rounds, pause=0.3 if threads > 1 else 0.0, burst=burst)
    rates = {
        name: (peak_flops if name == "fma_peak" else flops) / t / 1e9 for name, t in seconds.items()
    }
    return Row(case, threads, "GFLOP/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    every = flags.cases or CASES + (ODD if flags.threads == 1 else [])
    rows = [measure(case, flags.threads, 7 if flags.quick else 15) for case in every]
    report(rows, flags.json, ("numpy", "fma_peak"))
