"""The depthwise and 1x1 convolutions of MobileNet-V2 in NHWC, no search, against torch (oneDNN).

    python benchmarks/mobile.py --threads 1 [--quick] [--json FILE] [--isa all|avx2]
                                [dw112x32s1 pw56x24x144 ...]

A case dwHxCsS is a 3x3 depthwise convolution of H rows, C channels and stride S; pwHxCxO is a 1x1
convolution from C to O channels. Bias and clipping to 0 .. 6 are part of the call. Peers: "by hand"
is the textbook formula of a depthwise convolution, with a padded image, under topi.schedule;
"torch" has images in channels_last, and "packed" also has weights that oneDNN packed beforehand.
Rates in GFLOP/s. The lines below the table add up the times of all layers of a kind, each counted
as often as the network has it.

--isa avx2   ours and the peers without AVX-512
"""

import sys
from collections.abc import Callable
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
    print("mobile.py compares with torch, which is not installed: pip install -e '.[torch]'")
    sys.exit(0)

F = torch.nn.functional

# rows of the image, channels, stride, layers of the network
DEPTHWISE = [
    (112, 32, 1, 1), (112, 96, 2, 1), (56, 144, 1, 1), (56, 144, 2, 1), (28, 192, 1, 2),
    (28, 192, 2, 1), (14, 384, 1, 4), (14, 576, 1, 2), (14, 576, 2, 1), (7, 960, 1, 3),
]  # fmt: skip
# rows of the image, input channels, output channels, layers of the network
POINTWISE = [
    (112, 32, 16, 1), (112, 16, 96, 1), (56, 96, 24, 1), (56, 24, 144, 2), (56, 144, 24, 1),
    (28, 144, 32, 1), (28, 32, 192, 3), (28, 192, 32, 2), (14, 192, 64, 1), (14, 64, 384, 4),
    (14, 384, 64, 3), (14, 384, 96, 1), (14, 96, 576, 3), (14, 576, 96, 2), (7, 576, 160, 1),
    (7, 160, 960, 3), (7, 960, 160, 2), (7, 960, 320, 1), (7, 320, 1280, 1),
]  # fmt: skip
LAYERS = {
    **{f"dw{rows}x{c}s{s}": (rows, c, c, s, n) for rows, c, s, n in DEPTHWISE},
    **{f"pw{rows}x{c}x{o}": (rows, c, o, 0, n) for rows, c, o, n in POINTWISE},
}


def clipped(x: te.Tensor, bias: te.Tensor) -> te.Tensor:
    return topi.clip(topi.add(x, bias), 0, 6)


def depthwise_by_hand(x: te.Tensor, w: te.Tensor, stride: int) -> te.Tensor:
    """Define a depthwise convolution by the textbook formula: pad the image, then sum."""
    _, rows, _, channels = x.shape
    assert isinstance(rows, int)
    size = (rows - 1) // stride + 1

    def pixel(n: Any, y: Any, z: Any, c: Any) -> Any:
        inside = te.all(y >= 1, y < rows + 1, z >= 1, z < rows + 1)
        return te.if_then_else(inside, x[n, y - 1, z - 1, c], 0.0)

    padded = te.compute((1, rows + 2, rows + 2, channels), pixel, name="padded")
    ky, kx = te.reduce_axis((0, 3), name="ky"), te.reduce_axis((0, 3), name="kx")
    return te.compute(
        (1, size, size, channels),
        lambda n, y, z, c: te.sum(
            padded[n, y * stride + ky, z * stride + kx, c] * w[ky, kx, c], axis=[ky, kx]
        ),
        name="sum",
    )


def packed(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, stride: int, groups: int
) -> Callable[[], Any]:
    """Return a call of torch's convolution and clipping, with weights packed for oneDNN."""
    weights = torch.ops.mkldnn._reorder_convolution_weight(  # the packing of torch.compile
        w, [w.shape[2] // 2] * 2, [stride] * 2, [1, 1], groups, list(x.shape)
    )
    return lambda: torch.ops.mkldnn._convolution_pointwise(
        x, weights, bias, [w.shape[2] // 2] * 2, [stride] * 2, [1, 1], groups,
        "hardtanh", [0.0, 6.0], "",
    )  # fmt: skip


def measure(name: str, threads: int, rounds: int) -> tuple[Row, dict[str, float]]:
    """Measure our kernel and its peers in turns; also return the seconds of each."""
    rows, inputs, outputs, stride, _ = LAYERS[name]
    depthwise = stride > 0
    kernel = (3, 3, inputs, 1) if depthwise else (1, 1, inputs, outputs)
    data = te.placeholder((1, rows, rows, inputs), name="data")
    weight = te.placeholder(kernel, name="weight", constant=True)
    bias = te.placeholder((outputs,), name="bias")
    sums = {"ours": (topi.conv2d(data, weight, layout="NHWC"), weight)}
    if depthwise:
        plain = te.placeholder((3, 3, inputs), name="weight", constant=True)
        sums = {
            "ours": (topi.nn.depthwise_conv2d(data, weight, stride, 1, layout="NHWC"), weight),
            "by hand": (depthwise_by_hand(data, plain, stride), plain),
        }
    to = target(flags, threads)
    rng = np.random.default_rng(0)
    arrays = (rng.standard_normal(t.shape).astype("float32") for t in (data, weight, bias))
    x, w, b = map(tvm.nd.array, arrays)
    tx = torch.from_numpy(x).permute(0, 3, 1, 2)
    tw = torch.from_numpy(w).permute((2, 3, 0, 1) if depthwise else (3, 2, 0, 1))
    tw = tw.contiguous(memory_format=torch.channels_last)
    tb, step, groups = torch.from_numpy(b), max(stride, 1), inputs if depthwise else 1

    def peer() -> torch.Tensor:
        y = F.conv2d(tx, tw, tb, stride=step, padding=kernel[0] // 2, groups=groups)
        return y.clamp_(0, 6)

    want = peer().permute(0, 2, 3, 1).numpy()
    runs: dict[str, Callable[[], Any]] = {"torch": peer}
    for who, (total, kernels) in sums.items():
        out = clipped(total, bias)
        f = tvm.build(topi.schedule(out, to), [data, kernels, bias, out], to)
        g, y = f.bind(weight=tvm.nd.array(w.reshape(kernels.shape))), tvm.nd.empty(out.shape)
        g(x, b, y)
        assert_allclose(y, want, rtol=1e-3, atol=1e-3)
        runs[who] = lambda g=g, y=y: g(x, b, y)
    if torch.backends.mkldnn.is_available():
        runs["packed"] = packed(tx, tw, tb, step, groups)
    pause = 0.3 if threads > 1 else 0.0
    with torch.no_grad():
        seconds = best_seconds(runs, rounds, pause, burst=5)
    flops = 2 * want.size * (9 if depthwise else inputs)
    rates = {who: flops / t / 1e9 for who, t in seconds.items()}
    return Row(name, threads, "GFLOP/s", rates.pop("ours"), rates), seconds


if __name__ == "__main__":
    torch.set_num_threads(flags.threads)
    rounds = 5 if flags.quick else 15
    found = {name: measure(name, flags.threads, rounds) for name in flags.cases or LAYERS}
    table = [row for row, _ in found.values()]
    report(table, flags.json, ("by hand", "torch", "packed"))
    for kind in ("dw", "pw"):
        layers = {name: s for name, (_, s) in found.items() if name.startswith(kind)}
        for who in next(iter(layers.values()), {}):
            total = sum(LAYERS[name][4] * s[who] for name, s in layers.items())
            print(f"{kind}, all layers, {who}: {total * 1e3:.3f} ms")
    print(f"geometric mean of ours/torch: {geometric_mean(table, 'torch'):.2f}")
