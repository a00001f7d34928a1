"""Operators other than products with topi's schedule against numpy and torch.

    python benchmarks/ops.py --threads 1 [--quick] [--json FILE] [case ...]

Rates in GB/s: bytes of inputs and outputs, each counted once, over the time.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _common import Row, arguments, best_seconds, geometric_mean, report

flags = arguments(__doc__)

import numpy as np

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose

try:
    import torch
except ImportError:
    print("ops.py compares with torch, which is not installed: pip install -e '.[torch]'")
    sys.exit(0)

F = torch.nn.functional


@dataclass
class Case:
    """One operator: our formula over placeholders of `shapes`, and the same in numpy and torch."""

    shapes: list[tuple[int, ...]]
    ours: Callable[..., te.Tensor]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def np_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def np_layer_norm(x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    d = x - mean
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def np_depthwise(x: Any, w: Any) -> Any:
    n = x.shape[-1]
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sum(
        p[:, :, y : y + n, z : z + n] * w[:, 0, y, z][None, :, None, None]
        for y in range(3)
        for z in range(3)
    )


def chain(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    return topi.relu(topi.add(topi.multiply(x, y), topi.multiply(x, 0.5)))


CASES = {
    "softmax 1024x1024": Case([(1024, 1024)], topi.softmax, np_softmax, lambda x: F.softmax(x, -1)),
    "layer_norm 1024x1024": Case(
        [(1024, 1024), (1024,), (1024,)],
        topi.layer_norm,
        np_layer_norm,
        lambda x, g, b: F.layer_norm(x, (1024,), g, b),
    ),
    "row sum 2048x2048": Case(
        [(2048, 2048)], lambda x: topi.sum(x, -1), lambda x: x.sum(-1), lambda x: x.sum(-1)
    ),
    "column sum 2048x2048": Case(
        [(2048, 2048)], lambda x: topi.sum(x, 0), lambda x: x.sum(0), lambda x: x.sum(0)
    ),
    "transpose 2048x2048": Case(
        [(2048, 2048)],
        topi.transpose,
        lambda x: np.ascontiguousarray(x.T),
        lambda x: x.t().contiguous(),
    ),
    "relu(x*y + x/2) 2048x2048": Case(
        [(2048, 2048), (2048, 2048)],
        chain,
        lambda x, y: np.maximum(x * y + x * 0.5, 0),
        lambda x, y: torch.relu(x * y + x * 0.5),
    ),
    "depthwise 3x3 128x56x56": Case(
        [(1, 128, 56, 56), (128, 1, 3, 3)],
        lambda x, w: topi.conv2d(x, w, padding=1, groups=128),
        np_depthwise,
        lambda x, w: F.conv2d(x, w, padding=1, groups=128),
    ),
}


def measure(name: str, threads: int, rounds: int) -> Row:
    """Our kernel, numpy and torch, measured in turns."""
    case = CASES[name]
    inputs = [te.placeholder(s, name=f"x{n}") for n, s in enumerate(case.shapes)]
    out = case.ours(*inputs)
    target = f"llvm -num-cores={threads}"
    f = tvm.build(topi.schedule(out, target), [*inputs, out], target)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in case.shapes]
    y = np.empty(out.shape, "float32")
    tensors = [torch.from_numpy(a) for a in arrays]
    f(*arrays, y)
    assert_allclose(y, case.numpy(*arrays), rtol=1e-3, atol=1e-3)
    runs = {
        "ours": lambda: f(*arrays, y),
        "numpy": lambda: case.numpy(*arrays),
        "torch": lambda: case.torch(*tensors),
    }
    seconds = best_seconds(runs, rounds, 0.3 if threads > 1 else 0.0)
    moved = sum(a.nbytes for a in (*arrays, y))
    rates = {who: moved / t / 1e9 for who, t in seconds.items()}
    return Row(name, threads, "GB/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    torch.set_num_threads(flags.threads)
    rounds = 7 if flags.quick else 21
    rows = [measure(name, flags.threads, rounds) for name in flags.cases or CASES]
    report(rows, flags.json, ("numpy", "torch"))
    for peer in ("numpy", "torch"):
        print(f"geometric mean of ours/{peer}: {geometric_mean(rows, peer):.2f}")
