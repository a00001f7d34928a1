"""Compare the convolutions of ResNet-18 with topi's schedule (no search) and torch (oneDNN).

    python benchmarks/conv.py --threads 1 [--quick] [--json FILE] [C1 ... C12]

Layers as in Table 1 of "Learning to Optimize Tensor Programs" (Chen et al., 2018): batch 1, padding
kernel // 2. Input and output are NCHW; conversion of the image to another layout is timed, too.
Rates are in GFLOP/s, and higher is better.
"""

import sys

from _common import Row, arguments, best_seconds, geometric_mean, report

flags = arguments(__doc__)

import numpy as np

import minitvm as tvm
from minitvm import te, topi
from minitvm.testing import assert_allclose

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


def measure(name: str, threads: int, rounds: int) -> Row:
    """Measure our kernel and torch's in alternation."""
    size, inputs, outputs, kernel, stride = LAYERS[name]
    data = te.placeholder((1, inputs, size, size), name="data")
    weight = te.placeholder((outputs, inputs, kernel, kernel), name="weight")
    out = topi.conv2d(data, weight, strides=stride, padding=kernel // 2)
    target = f"llvm -num-cores={threads}"
    f = tvm.build(topi.schedule(out, target), [data, weight, out], target)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(t.shape).astype("float32") for t in (data, weight))
    y = np.empty(out.shape, "float32")
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)

    def peer() -> torch.Tensor:
        return torch.nn.functional.conv2d(tx, tw, stride=stride, padding=kernel // 2)

    f(x, w, y)
    assert_allclose(y, peer().numpy(), rtol=1e-3, atol=1e-2)
    pause = 0.3 if threads > 1 else 0.0
    seconds = best_seconds({"ours": lambda: f(x, w, y), "torch": peer}, rounds, pause)
    flops = 2 * y.size * inputs * kernel**2
    rates = {who: flops / t / 1e9 for who, t in seconds.items()}
    return Row(name, threads, "GFLOP/s", rates.pop("ours"), rates)


if __name__ == "__main__":
    torch.set_num_threads(flags.threads)
    rounds = 7 if flags.quick else 21
    rows = [measure(name, flags.threads, rounds) for name in flags.cases or LAYERS]
    report(rows, flags.json, ("torch",))
    print(f"geometric mean of ours/torch: {geometric_mean(rows, 'torch'):.2f}")
