"""Compare operators other than matrix products, with topi's schedule, with numpy and torch.

    python benchmarks/ops.py --threads 1 [--quick] [--json FILE] [--isa all|avx2] [case ...]

Rates are in GB/s: the bytes of inputs and outputs, each counted once, over the time. The blur runs
on one thread with a schedule of its own; its peer is numpy.copyto, whose bytes are counted twice.

--isa avx2   ours and the peers without AVX-512
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from _common import ISAS, Row, arguments, best_seconds, geometric_mean, report, target

flags = arguments(__doc__, isa=ISAS)

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
    """One operator: our formula for inputs of these shapes, and the same in numpy and torch."""

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


BLUR = "blur 3x3 2048x2048"


def blur(n: int) -> tuple[list[te.Tensor], te.Schedule]:
    """Return ([image, out], schedule) of Halide's two-stage blur with an output of n x n.

    The image has one more row and column at every side. Tiles of 8 x 32 keep ten rows of the image
    in the fastest cache. In a tile, columns of 8 lanes are computed one after another, so that the
    ten sums along rows stay in registers until the sums along columns read them.
    """
    image = te.placeholder((n + 2, n + 2), name="image")
    rows = te.compute(
        (n + 2, n), lambda y, x: image[y, x] + image[y, x + 1] + image[y, x + 2], name="rows"
    )
    out = te.compute(
        (n, n), lambda y, x: (rows[y, x] + rows[y + 1, x] + rows[y + 2, x]) * (1 / 9), name="out"
    )
    s = te.create_schedule(out.op)
    yo, xo, yi, xi = s[out].tile(*s[out].op.axis, 8, 32)
    column, lanes = s[out].split(xi, factor=8)
    s[out].reorder(yo, xo, column, yi, lanes)
    s[out].unroll(column)
    s[out].unroll(yi)
    s[out].vectorize(lanes)
    s[rows].compute_at(s[out], column)
    s[rows].set_scope("local")
    y, x = s[rows].op.axis
    s[rows].unroll(y)
    s[rows].vectorize(x)
    return [image, out], s


def measure_blur(rounds: int) -> Row:
    """Measure our blur and a copy of the output in alternation."""
    args, s = blur(2048)
    f = tvm.build(s, args, target(flags))
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(a.shape).astype("float32") for a in args)
    source, copy = np.ones_like(y), np.empty_like(y)
    f(x, y)
    rows = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    assert_allclose(y, (rows[:-2] + rows[1:-1] + rows[2:]) / 9, rtol=1e-5, atol=1e-5)
    runs = {"ours": lambda: f(x, y), "copy": lambda: np.copyto(copy, source)}
    seconds = best_seconds(runs, rounds)
    ours = (x.nbytes + y.nbytes) / seconds["ours"] / 1e9
    return Row(BLUR, 1, "GB/s", ours, {"copy": 2 * y.nbytes / seconds["copy"] / 1e9})


def measure(name: str, threads: int, rounds: int) -> Row:
    """Measure our kernel, numpy and torch in alternation."""
    if name == BLUR:
        return measure_blur(rounds)
    case = CASES[name]
    inputs = [te.placeholder(s, name=f"x{n}") for n, s in enumerate(case.shapes)]
    out = case.ours(*inputs)
    to = target(flags, threads)
    f = tvm.build(topi.schedule(out, to), [*inputs, out], to)
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
    rows = [measure(name, flags.threads, rounds) for name in flags.cases or (*CASES, BLUR)]
    report(rows, flags.json, ("numpy", "torch", "copy"))
    for peer in ("numpy", "torch"):
        beside = [r for r in rows if peer in r.peers]
        if beside:
            print(f"geometric mean of ours/{peer}: {geometric_mean(beside, peer):.2f}")
