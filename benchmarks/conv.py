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

import sys

from _common import Row, arguments, geometric_mean, report

flags = arguments(
    __doc__,
    layout=("nchw", "nhwc", "nchwc"),
    formula=("default", "best", "direct", "rows", "blocks", "winograd"),
    cold=(),
)

from _conv import BLOCK, FASTER, LAYERS, TORCH, drawn, laid_out, ours, rated, theirs, torch_or_none

import minitvm as tvm
from minitvm.testing import assert_allclose

torch = torch_or_none()
if torch is None:
    print("conv.py compares with torch, which is not installed: pip install -e '.[torch]'")
    sys.exit(0)

LAYOUTS = {"nchw": "NCHW", "nhwc": "NHWC", "nchwc": f"NCHW{BLOCK}c"}
PEERS = ("rows", *TORCH, FASTER, "fma_peak")


def measure(name: str, rounds: int) -> Row:
    """Measure our kernel and its peers in turns."""
    layer, layout = LAYERS[name], LAYOUTS[flags.layout]
    x, w = drawn(layer)
    target, method = f"llvm -num-cores={flags.threads}", flags.formula.replace("default", "")
    run, y = ours(layer, x, w, target, layout=layout, method=method, cold=flags.cold)
    today, _ = ours(layer, x, w, target, method="rows", cold=flags.cold)
    peers = theirs(torch, layer, x, w, cold=flags.cold)
    run()
    assert_allclose(y, laid_out(peers["torch"]().numpy(), layout), rtol=1e-3, atol=1e-2)
    runs = {"ours": run, "rows": today, **peers}
    flops = 2 * y.size * layer.inputs * layer.kernel**2
    return rated(name, flags.threads, runs, flops, rounds, 0.3 if flags.threads > 1 else 0.0)


if __name__ == "__main__":
    torch.set_num_threads(flags.threads)
    torch.set_grad_enabled(False)
    layers = flags.cases or [
        n for n, layer in LAYERS.items() if flags.layout != "nchwc" or layer.inputs % BLOCK == 0
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
