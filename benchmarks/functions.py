"""Compare elementary functions on 65536 numbers in cache, on one thread, with numpy and torch.

    python benchmarks/functions.py [--quick] [--json FILE] [--isa all|avx2]
                                   [exp-float32 pow-float64 ...]

Rates are in 10^9 elements/s. Arguments are in 0.01 .. 10 for logarithms and powers, and otherwise
in -10 .. 10. One call of our kernel loops over the array 8 times, and the peers are called 8 times.
On some CPUs (AVX-512 under Linux) numpy has vector code for most functions; elsewhere it uses libm.

--isa avx2   ours and the peers without AVX-512
"""

from _common import ISAS, Row, arguments, best_seconds, report, target

flags = arguments(__doc__, isa=ISAS)

from collections.abc import Callable
from typing import Any

import numpy as np  # after arguments() has set the number of threads

import minitvm as tvm
from minitvm.base import DTYPES, Target
from minitvm.tir import Binary, Buffer, For, PrimFunc, Store, Var, intrinsic, lane, load

try:
    import torch
except ImportError:
    torch = None

N, REPEAT = 1 << 16, 8
NUMPY: dict[str, str] = {"atan": "arctan", "pow": "power", "sigmoid": "", "erf": ""}  # "": none
NAMES = [
    "exp", "exp2", "log", "log2", "log10", "tanh", "sigmoid", "erf",
    "sin", "cos", "tan", "atan", "sinh", "cosh", "pow",
]  # fmt: skip
CASES = [f"{name}-{dtype}" for dtype in ("float32", "float64") for name in NAMES]


def kernel(name: str, dtype: str) -> tvm.Function:
    """Build C[i] = name(A[i]), run REPEAT times, four vector registers at a time as in topi."""
    kind = DTYPES[dtype]
    lanes = 4 * Target(target(flags)).lanes(kind)
    A, B, C = (Buffer(x, (N,), kind) for x in "ABC")
    i, again = Var("i", 0, N // lanes - 1), Var("again", 0, REPEAT - 1)
    at = i * lanes + lane(lanes)
    x, y = load(A, at), load(B, at)
    e = Binary("pow", x, y, kind) if name == "pow" else intrinsic(name, x)
    body = For(again, REPEAT, For(i, N // lanes, Store(C, (at,), e)))
    return tvm.build(PrimFunc("main", (A, B, C), body, (C,)), target=target(flags))


def peers(name: str, x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Return calls that apply the same function of numpy and torch, if any, REPEAT times."""
    found: dict[str, Callable[[], Any]] = {}
    out = np.empty_like(x)
    other = NUMPY.get(name, name)
    if other:
        f, args = getattr(np, other), (x, y) if name == "pow" else (x,)
        found["numpy"] = lambda: [f(*args, out=out) for _ in range(REPEAT)]
    if torch is not None:
        torch.set_num_threads(1)
        g, given = getattr(torch, name), [torch.from_numpy(v) for v in (x, y)]
        given, to = given if name == "pow" else given[:1], torch.from_numpy(np.empty_like(x))
        found["torch"] = lambda: [g(*given, out=to) for _ in range(REPEAT)]
    return found


def measure(case: str, rounds: int) -> Row:
    """Measure our kernel and the peers in alternation."""
    name, dtype = case.split("-")
    rng = np.random.default_rng(0)
    low = 0.01 if name.startswith("log") or name == "pow" else -10
    x, y = rng.uniform(low, 10, N).astype(dtype), rng.uniform(-3, 3, N).astype(dtype)
    f, out = kernel(name, dtype), np.empty_like(x)
    runs = {"ours": lambda: f(x, y, out), **peers(name, x, y)}
    seconds = best_seconds(runs, rounds)
    rates = {peer: REPEAT * N / t / 1e9 for peer, t in seconds.items()}
    return Row(case, 1, "Gelem/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    rows = [measure(case, 7 if flags.quick else 15) for case in flags.cases or CASES]
    report(rows, flags.json, ("numpy",))
