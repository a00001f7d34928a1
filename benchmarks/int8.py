"""Compare int8 products and convolutions with topi's schedule (no search) and their peers.

    python benchmarks/int8.py --threads 1 [--quick] [--json FILE] [--isa all|avx2] [case ...]
    python benchmarks/int8.py conv [the same flags] [C2 ...]

A, B (int8) and C (int32) are row-major; shifting, packing and the sums of B are part of the timed
call. A case MxNxK multiplies [M, K] by [K, N]. Rates are in GOP/s: 2 * M * N * K operations.

The goal: on a CPU with VNNI, 1024x1024x1024 runs at 1.5 times the rate of fp32 or more. The peers
are our fp32 product of the same shape and, if torch is installed, torch._int_mm. numpy is left
out: it has no BLAS for integers, and is hundreds of times slower.

conv: layers of ResNet-18 and ResNet-50 (C1 .. C12, R1 .. R5) and depthwise layers of MobileNet-V2
(D1 .. D6) with uint8 data, int8 weights and the result requantised to uint8. The peers are ONNX
Runtime's QLinearConv in NCHW and, as ort_nhwc, in NHWC, whose results must be equal, and the peak:
vpdpbusd with all operands in registers. The goal on a CPU with VNNI: 85 % of the peak for 3x3
kernels, 65 % for 1x1, and 1.0 times ONNX Runtime everywhere.

--isa avx2   ours and the peers without AVX-512, and without dot products of bytes (VNNI)
"""

from _common import ISAS, Row, arguments, best_seconds, report, target

CASES = ["512x512x512", "1024x1024x1024", "2048x2048x2048"]
ODD = ["128x768x3072", "1000x700x900"]

flags = arguments(__doc__, isa=ISAS)

from collections.abc import Callable  # after arguments() has set the number of threads

import numpy as np
from _int8_conv import LAYERS
from _int8_conv import measure as measure_conv

import minitvm as tvm
from minitvm import te, topi

try:
    import torch
except ImportError:
    torch = None


def product(shape: tuple[int, int, int], dtype: str, to: str) -> Callable[..., object]:
    """Build f(a, b, c), which multiplies [m, k] by [k, n]; shape = (m, n, k). int8 gives int32."""
    m, n, k = shape
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    c = topi.matmul(a, b, out_dtype="int32" if dtype == "int8" else "", name="C")
    return tvm.build(topi.schedule(c, to), [a, b, c], to)


def measure(case: str, threads: int, rounds: int) -> Row:
    """Measure our int8 kernel, our fp32 kernel and, if installed, torch's int8 kernel in turns."""
    m, n, k = shape = tuple(int(x) for x in case.split("x"))
    to = target(flags, threads)
    f, g = product(shape, "int8", to), product(shape, "float32", to)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, s, "int8") for s in ((m, k), (k, n)))
    fx, fy = x.astype("float32"), y.astype("float32")
    out, other = np.empty((m, n), "int32"), np.empty((m, n), "float32")
    f(x, y, out)
    np.testing.assert_array_equal(out, x.astype("float64") @ y.astype("float64"))  # both exact
    runs = {"ours": lambda: f(x, y, out), "fp32": lambda: g(fx, fy, other)}
    if torch is not None and m > 16:  # torch._int_mm takes no fewer rows
        torch.set_num_threads(threads)
        tx, ty = torch.from_numpy(x), torch.from_numpy(y)
        runs["torch"] = lambda: torch._int_mm(tx, ty)
    operations = 2 * m * n * k
    burst = max(3, min(50, int(5e7 / operations) + 1))
    seconds = best_seconds(runs, rounds, pause=0.3 if threads > 1 else 0.0, burst=burst)
    rates = {name: operations / t / 1e9 for name, t in seconds.items()}
    return Row(case, threads, "GOP/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    rounds = 7 if flags.quick else 15
    if flags.cases[:1] == ["conv"]:
        names = flags.cases[1:] or LAYERS
        to = target(flags, flags.threads)
        rows = [measure_conv(name, flags.threads, rounds, to) for name in names]
        report(rows, flags.json, ("peak", "onnxruntime", "ort_nhwc"))
        raise SystemExit
    every = flags.cases or CASES + (ODD if flags.threads == 1 else [])
    rows = [measure(case, flags.threads, rounds) for case in every]
    report(rows, flags.json, ("fp32", "torch"))
