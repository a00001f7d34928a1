"""The convolutions of ResNet-18, and their kernels: ours, and torch's if it is installed.

Layers as in Table 1 of "Learning to Optimize Tensor Programs" (Chen et al., 2018): batch 1, padding
kernel // 2. Import this after arguments() of _common, which sets the number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from _common import Row, best_seconds

import minitvm as tvm
from minitvm import te, testing, topi
from minitvm.base import Target


class Layer(NamedTuple):
    """A convolution: `size` is the height and the width of its images.

    With `groups` equal to `inputs` and `outputs`, it is a depthwise convolution.
    """

    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    groups: int = 1

    @property
    def dense(self) -> tuple[int, int, int, int, int]:
        """All numbers but the groups, for formulas without them."""
        return self.size, self.inputs, self.outputs, self.kernel, self.stride

    @property
    def pad(self) -> int:
        """The number of zeros on each side of an image."""
        return self.kernel // 2

    @property
    def out(self) -> int:
        """The height and the width of the result."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def operations(self) -> int:
        """The multiplications and additions, those of zeros included."""
        return 2 * self.out**2 * self.outputs * self.inputs // self.groups * self.kernel**2


LAYERS = {
    "C1": Layer(224, 3, 64, 7, 2),
    "C2": Layer(56, 64, 64, 3, 1),
    "C3": Layer(56, 64, 64, 1, 1),
    "C4": Layer(56, 64, 128, 3, 2),
    "C5": Layer(56, 64, 128, 1, 2),
    "C6": Layer(28, 128, 128, 3, 1),
    "C7": Layer(28, 128, 256, 3, 2),
    "C8": Layer(28, 128, 256, 1, 2),
    "C9": Layer(14, 256, 256, 3, 1),
    "C10": Layer(14, 256, 512, 3, 2),
    "C11": Layer(14, 256, 512, 1, 2),
    "C12": Layer(7, 512, 512, 3, 1),
}
BLOCK = 16  # channels of a block of NCHWc
LARGER_THAN_CACHES = 1 << 27  # bytes of copies of the weights, so that none is still in a cache
ROWS = "rows NCHW"  # our formula "rows"
TORCH = ("torch NCHW", "torch NHWC", "packed NCHW", "packed NHWC")  # packed: oneDNN's weights
FASTER = "faster packed"
Run: TypeAlias = Callable[[], Any]
Schedule: TypeAlias = Callable[[te.Tensor], te.Schedule]


def torch_or_none() -> Any:
    """Return the module torch; None if it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        return None


def drawn(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Return random images and weights for the layer, in NCHW."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((1, layer.inputs, layer.size, layer.size), "float32")
    shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
    return images, rng.standard_normal(shape, "float32")


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """Return the NCHW images `x` in another layout."""
    if layout == "NCHW":
        return x
    if layout == "NHWC":
        return x.transpose(0, 2, 3, 1)
    n, c, h, w = x.shape
    return x.reshape(n, c // BLOCK, BLOCK, h, w).transpose(0, 1, 3, 4, 2)


def copies(weights: np.ndarray, cold: bool) -> int:
    """Return how many copies of the weights the calls read in turn."""
    return max(2, math.ceil(LARGER_THAN_CACHES / weights.nbytes)) if cold else 1


def in_turn(runs: Sequence[Run]) -> Run:
    """Return a function that calls the next of `runs` each time."""
    turns = itertools.cycle(runs)

    def run() -> Any:
        return next(turns)()

    return run


def ours(
    layer: Layer,
    x: np.ndarray,
    w: np.ndarray,
    target: str,
    *,
    layout: str = "NCHW",
    method: str = "",
    cold: bool = False,
    schedule: Schedule | None = None,
) -> tuple[Run, Any]:
    """Return a call of our kernel with constant weights, and the array to which it writes.

    schedule   makes the schedule of the convolution; by default topi.schedule does
    """
    images = tvm.nd.array(laid_out(x, layout))
    kernel = w.transpose(2, 3, 1, 0) if layout == "NHWC" else w
    data = te.placeholder(images.shape, name="data")
    weight = te.placeholder(kernel.shape, name="weight", constant=True)
    out = topi.conv2d(data, weight, layer.stride, layer.pad, method=method, layout=layout)
    s = topi.schedule(out, target) if schedule is None else schedule(out)
    f = tvm.build(s, [data, weight, out], target)
    bound = [f.bind(weight=tvm.nd.array(kernel)) for _ in range(copies(w, cold))]
    y = tvm.nd.empty(out.shape)
    return in_turn([lambda g=g: g(images, y) for g in bound]), y


def theirs(
    torch: Any, layer: Layer, x: np.ndarray, w: np.ndarray, *, cold: bool = False
) -> dict[str, Run]:
    """Return calls of torch by the names in TORCH, which say how the images are laid out."""
    found = list[Run]()
    for packed in (False, True):
        for order in (torch.contiguous_format, torch.channels_last):
            tx = torch.from_numpy(x).contiguous(memory_format=order)
            weights = [
                torch.from_numpy(w.copy()).contiguous(memory_format=order)
                for _ in range(copies(w, cold))
            ]
            found.append((_packed if packed else _plain)(torch, layer, tx, weights))
    return dict(zip(TORCH, found, strict=True))


def _plain(torch: Any, layer: Layer, x: Any, weights: Sequence[Any]) -> Run:
    conv, stride, pad = torch.nn.functional.conv2d, layer.stride, layer.pad
    return in_turn([lambda v=v: conv(x, v, stride=stride, padding=pad) for v in weights])


def _packed(torch: Any, layer: Layer, x: Any, weights: Sequence[Any]) -> Run:
    shape = [layer.pad] * 2, [layer.stride] * 2, [1, 1], 1
    pack, conv = torch._C._nn.mkldnn_reorder_conv2d_weight, torch.ops.mkldnn._convolution_pointwise
    prepared = [pack(v.to_mkldnn(), *shape, list(x.shape)) for v in weights]
    return in_turn([lambda v=v: conv(x, v, None, *shape, "none", [], "") for v in prepared])


def rated(
    case: str, target: str, runs: dict[str, Run], flops: float, rounds: int, burst: int = 3
) -> Row:
    """Measure "ours" and its peers in turns; return GFLOP/s.

    "fma_peak" is the peak of multiply-adds at the clock of our best call: its rate, divided by its
    share of the peak, which is measured by turns of its own.
    """
    threads = Target(target).num_cores
    seconds = best_seconds(runs, rounds, 0.3 if threads > 1 else 0.0, burst)
    rates = {who: flops / t / 1e9 for who, t in seconds.items()}
    packed = [rates[name] for name in TORCH[2:] if name in rates]
    if packed:
        rates[FASTER] = max(packed)
    rates["fma_peak"] = rates["ours"] / testing.share_of_peak(runs["ours"], flops, target).share
    return Row(case, threads, "GFLOP/s", rates.pop("ours"), rates)
