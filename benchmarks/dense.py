"""Compare dense layers of one row with numpy, torch and the bandwidth of a copy.

    python benchmarks/dense.py [--quick] [--json FILE] [--cold] [--isa all|avx2]
                               [OUTPUTSxINPUTS ...]

One row of inputs is multiplied by a matrix of weights: every weight is read once, so the time is
that of loading them. "out, in" is the order of topi.dense, weights [outputs, inputs]; "in, out" is
that of topi.matmul. Rates are bytes of weights in GB/s, one thread; higher is better.

--cold       each call reads weights that are not in the caches
--isa avx2   ours and the peers without AVX-512

The peers: numpy and, if it is installed, torch; "copy" copies as many bytes as the weights have, by
numpy, and counts the bytes that it reads and those that it writes.
"""

import itertools
from collections.abc import Callable
from typing import Any

from _common import ISAS, Row, arguments, best_seconds, geometric_mean, report, target

flags = arguments(__doc__, cold=(), isa=ISAS)

import numpy as np
from _conv import copies, in_turn, torch_or_none

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose

torch = torch_or_none()
CASES = ("1000x512", "1000x1280", "1000x2048", "4096x4096")
TARGET = target(flags)


def ours(transposed: bool, x: Any, weights: list[Any], y: Any) -> Callable[[], Any]:
    """Return a call of our kernel, which takes the next of `weights` each time and writes `y`."""
    a, b = te.placeholder(x.shape, name="a"), te.placeholder(weights[0].shape, name="b")
    c = topi.matmul(a, b, transpose_b=transposed)
    f = tvm.build(topi.schedule(c, TARGET), [a, b, c], TARGET)
    return in_turn([lambda w=w: f(x, w, y) for w in weights])


def measure(case: str, transposed: bool, rounds: int) -> Row:
    """Measure our kernel and its peers in turns."""
    outputs, inputs = map(int, case.split("x"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, inputs), "float32")
    shape = (outputs, inputs) if transposed else (inputs, outputs)
    w = rng.standard_normal(shape, "float32")
    weights = [tvm.nd.array(w) for _ in range(copies(w, flags.cold))]
    arrays = [each.numpy() for each in weights]
    y, other, copied = tvm.nd.empty((1, outputs)), np.empty((1, outputs), "float32"), w.copy()
    views = [v.T if transposed else v for v in arrays]
    runs = {
        "ours": ours(transposed, tvm.nd.array(x), weights, y),
        "numpy": in_turn([lambda v=v: np.matmul(x, v, out=other) for v in views]),
        "copy": in_turn([lambda v=v: np.copyto(copied, v) for v in arrays]),
    }
    if torch is not None:
        tx = torch.from_numpy(x)
        tensors = [torch.from_numpy(v) for v in arrays]
        linear = [v if transposed else v.T for v in tensors]
        runs["torch"] = in_turn([lambda v=v: torch.nn.functional.linear(tx, v) for v in linear])
    runs["ours"]()
    runs["numpy"]()
    assert_allclose(y, other, rtol=1e-3, atol=1e-3 * inputs**0.5)
    seconds = best_seconds(runs, rounds, burst=20)
    rates = {who: w.nbytes / t / 1e9 for who, t in seconds.items()}
    rates["copy"] *= 2  # reads and writes
    order = "out, in" if transposed else "in, out"
    return Row(f"{case} [{order}]", 1, "GB/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
    rounds = 5 if flags.quick else 25
    every = itertools.product(flags.cases or CASES, (True, False))
    measured = [measure(case, transposed, rounds) for case, transposed in every]
    peers = tuple(measured[0].peers)
    report(measured, flags.json, peers)
    for peer in peers:
        print(f"geometric mean of ours/{peer}: {geometric_mean(measured, peer):.2f}")
