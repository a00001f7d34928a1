"""Compare the convolutions of ResNet-18 with topi's schedule (no search) and torch (oneDNN).

    python benchmarks/conv.py --threads 1 [--quick] [--json FILE] [--layout nchw|nhwc|nchwc]
                              [--formula default|best|direct|rows|winograd] [--cold] [C1 ... C12]

Layers as in Table 1 of "Learning to Optimize Tensor Programs" (Chen et al., 2018): batch 1, padding
kernel // 2. Data in and out has the layout; laying out the image inside is part of the timed call.
Our weights are constants: what depends on them alone is computed before. Rates in GFLOP/s.

--layout   nchwc has blocks of 16 channels, so it is measured without C1, which has 3 channels
--formula  the method of topi.conv2d; layers that a formula cannot compute are left out
--cold     each call reads weights that are not in the caches, as in a network

The peers: "rows", our default in NCHW; torch in NCHW and in channels_last; both with weights that
oneDNN has packed beforehand, and the faster of these two; the peak of multiply-adds.
"""

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

from _common import Row, arguments, best_seconds, geometric_mean, report

flags = arguments(
    __doc__,
    layout=("nchw", "nhwc", "nchwc"),
    formula=("default", "best", "direct", "rows", "winograd"),
    cold=(),
)

import numpy as np

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose, fma_run

try:
    import torch
except ImportError:
    print("conv.py compares with torch, which is not installed: pip install -e '.[torch]'")
    sys.exit(0)

# name: height and width, input channels, output channels, kernel, stride
LAYERS = {
    "C1": (224, 3, 64, 7, 2),
    "C2": (56, 64, 64, 3, 1),
    "C3": (56, 64, 64, 1, 1),
    "C4": (56, 64, 128, 3, 2),
    "C5": (56, 64, 128, 1, 2),
    "C6": (28, 128, 128, 3, 1),
    "C7": (28, 128, 256, 3, 2),
    "C8": (28, 128, 256, 1, 2),
    "C9": (14, 256, 256, 3, 1),
    "C10": (14, 256, 512, 3, 2),
    "C11": (14, 256, 512, 1, 2),
    "C12": (7, 512, 512, 3, 1),
}
LAYOUTS = {"nchw": "NCHW", "nhwc": "NHWC", "nchwc": "NCHW16c"}
BLOCK = 16
LARGER_THAN_CACHES = 1 << 27  # bytes of copies of the weights, so that none is still in a cache
TORCH = ("torch", "torch last", "packed", "packed last")  # last: in channels_last
FASTER = "faster packed"
PEERS = ("rows", *TORCH, FASTER, "fma_peak")
Run = Callable[[], Any]


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """The NCHW images `x` in another layout."""
    if layout == "NCHW":
        return x
    if layout == "NHWC":
        return x.transpose(0, 2, 3, 1)
    n, c, h, w = x.shape
    return x.reshape(n, c // BLOCK, BLOCK, h, w).transpose(0, 1, 3, 4, 2)


def copies(weights: np.ndarray) -> int:
    """How many copies of the weights the calls read in turn."""
    return max(2, math.ceil(LARGER_THAN_CACHES / weights.nbytes)) if flags.cold else 1


def in_turn(runs: list[Run]) -> Run:
    """A run that calls the next of `runs` each time."""
    turns = itertools.cycle(runs)

    def run() -> Any:
        return next(turns)()

    return run


def ours(x: np.ndarray, w: np.ndarray, stride: int, layout: str, method: str) -> tuple[Run, Any]:
    """Our kernel, and the array to which it writes."""
    images = tvm.nd.array(laid_out(x, layout))
    kernel = w.transpose(2, 3, 1, 0) if layout == "NHWC" else w
    data = te.placeholder(images.shape, name="data")
    weight = te.placeholder(kernel.shape, name="weight", constant=True)
    pad = w.shape[2] // 2
    out = topi.conv2d(data, weight, stride, pad, method=method, layout=layout)
    target = f"llvm -num-cores={flags.threads}"
    f = tvm.build(topi.schedule(out, target), [data, weight, out], target)
    bound = [f.bind(weight=tvm.nd.array(kernel)) for _ in range(copies(w))]
    y = tvm.nd.empty(out.shape)
    return in_turn([lambda g=g: g(images, y) for g in bound]), y


def theirs(x: np.ndarray, w: np.ndarray, stride: int, order: Any, packed: bool) -> Run:
    """Torch's kernel on data in the order torch.contiguous_format or torch.channels_last."""
    pad = w.shape[2] // 2
    tx = torch.from_numpy(x).contiguous(memory_format=order)
    weights = [torch.from_numpy(w.copy()).contiguous(memory_format=order) for _ in range(copies(w))]
    if not packed:
        conv2d = torch.nn.functional.conv2d
        return in_turn([lambda v=v: conv2d(tx, v, stride=stride, padding=pad) for v in weights])
    shape = [pad, pad], [stride, stride], [1, 1], 1
    pack, conv = torch._C._nn.mkldnn_reorder_conv2d_weight, torch.ops.mkldnn._convolution_pointwise
    prepared = [pack(v.to_mkldnn(), *shape, list(tx.shape)) for v in weights]
    return in_turn([lambda v=v: conv(tx, v, None, *shape, "none", [], "") for v in prepared])


def measure(name: str, rounds: int) -> Row:
    """Our kernel and its peers, measured in turns."""
    size, inputs, outputs, kernel, stride = LAYERS[name]
    rng = np.random.default_rng(0)
    shapes = (1, inputs, size, size), (outputs, inputs, kernel, kernel)
    x, w = (rng.standard_normal(shape, "float32") for shape in shapes)
    layout = LAYOUTS[flags.layout]
    run, y = ours(x, w, stride, layout, "" if flags.formula == "default" else flags.formula)
    plain, last = torch.contiguous_format, torch.channels_last
    kinds = [(plain, False), (last, False), (plain, True), (last, True)]
    today, _ = ours(x, w, stride, "NCHW", "rows")
    peers = dict(zip(TORCH, (theirs(x, w, stride, *kind) for kind in kinds), strict=True))
    run()
    assert_allclose(y, laid_out(peers["torch"]().numpy(), layout), rtol=1e-3, atol=1e-2)
    pause = 0.3 if flags.threads > 1 else 0.0
    peak, peak_flops = fma_run(flags.threads)
    runs = {"ours": run, "rows": today, **peers, "fma_peak": peak}
    seconds = best_seconds(runs, rounds, pause)
    flops = 2 * y.size * inputs * kernel**2
    rates = {who: flops / t / 1e9 for who, t in seconds.items()}
    rates["fma_peak"] = peak_flops / seconds["fma_peak"] / 1e9
    rates[FASTER] = max(rates["packed"], rates["packed last"])
    return Row(name, flags.threads, "GFLOP/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    torch.set_num_threads(flags.threads)
    torch.set_grad_enabled(False)
    layers = flags.cases or [
        n for n, layer in LAYERS.items() if flags.layout != "nchwc" or layer[1] % BLOCK == 0
    ]
    measured: list[Row] = []
    for name in layers:
        try:
            measured.append(measure(name, 7 if flags.quick else 21))
        except tvm.ExprError as e:
            print(f"{name} is left out: {str(e).splitlines()[0]}")
    if not measured:
        sys.exit(1)
    report(measured, flags.json, ("rows", FASTER, "fma_peak"))
    for peer in PEERS:
        print(f"geometric mean of ours/{peer}: {geometric_mean(measured, peer):.2f}")
