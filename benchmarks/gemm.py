"""Compare fp32 matrix products with topi's schedule (no search), numpy's BLAS and the FMA peak.

    python benchmarks/gemm.py --threads 1 [--quick] [--json FILE] [--isa all|avx2] [case ...]

A, B and C are row-major; if the schedule packs them, that is part of the timed call. A case MxNxK
multiplies [M, K] by [K, N]. Rates are in GFLOP/s, and higher is better. fma_peak is the peak of
multiply-adds at the clock of our product: a burst of them alone runs at a higher clock.

--isa avx2   ours and the peers without AVX-512
"""

from _common import ISAS, Row, arguments, report, target

CASES = ["512x512x512", "1024x1024x1024", "2048x2048x2048"]
ODD = ["128x768x3072", "1x1024x1024", "1000x700x900"]

flags = arguments(__doc__, isa=ISAS)

import numpy as np  # after arguments() has set the number of threads
from _conv import rated, torch_or_none

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose

torch = torch_or_none()


def measure(case: str, threads: int, rounds: int) -> Row:
    """Measure our kernel, numpy and, if installed, torch in turns; and our share of the peak."""
    m, n, k = (int(x) for x in case.split("x"))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    c = topi.matmul(a, b, name="C")
    to = target(flags, threads)
    f = tvm.build(topi.schedule(c, to), [a, b, c], to)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype("float32") for s in ((m, k), (k, n)))
    out, other = np.empty((m, n), "float32"), np.empty((m, n), "float32")
    f(x, y, out)
    assert_allclose(out, x @ y, rtol=1e-3, atol=1e-3 * k**0.5)
    runs = {"ours": lambda: f(x, y, out), "numpy": lambda: np.matmul(x, y, out=other)}
    if torch is not None:
        torch.set_num_threads(threads)
        tx, ty, tz = (torch.from_numpy(v) for v in (x, y, np.empty_like(out)))
        runs["torch"] = lambda: torch.matmul(tx, ty, out=tz)
    flops = 2 * m * n * k
    return rated(case, to, runs, flops, rounds, burst=max(3, min(50, int(5e7 / flops) + 1)))


if __name__ == "__main__":
    every = flags.cases or CASES + (ODD if flags.threads == 1 else [])
    rows = [measure(case, flags.threads, 7 if flags.quick else 15) for case in every]
    report(rows, flags.json, ("numpy", "fma_peak"))
