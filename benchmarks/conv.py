"""Compare the convolutions of ResNet-18 with topi's schedule (no search) and torch (oneDNN).

    python benchmarks/conv.py --threads 1 [--quick] [--json FILE] [--layout nchw|nhwc|nchwc]
                              [--formula default|best|direct|rows|blocks|winograd] [--cold]
                              [--isa all|avx2] [C1 ... C12]

Layers as in Table 1 of "Learning to Optimize Tensor Programs" (Chen et al., 2018): batch 1, padding
kernel // 2. Data in and out has the layout; laying out the image inside is part of the timed call.
Our weights are constants: what depends on them alone is computed before. Rates in GFLOP/s.

--layout     ours; nchwc has blocks of 16 channels, so it is measured without C1, with 3 channels
--formula    the method of topi.conv2d; layers that a formula cannot compute are left out
--cold       each call, of ours and of the peers, reads weights that are in no cache, as in a
             network: the calls take copies in turn, 128 MiB of them or more
--isa avx2   ours and the peers without AVX-512

The columns name the layout of the images, in and out: "rows NCHW" is our formula "rows"; "torch
NCHW" and "torch NHWC" (channels_last) have weights in the plain layout, which oneDNN reorders in
each call where it wants another; "packed NCHW" and "packed NHWC" have weights that oneDNN has
packed beforehand, and "faster packed" is the faster of these two; "fma_peak" is the peak of
multiply-adds at the clock of our kernel. Without torch, ours is compared with "rows NCHW" only.
"""

import sys

from _common import ISAS, Row, arguments, geometric_mean, report, target

flags = arguments(
    __doc__,
    layout=("nchw", "nhwc", "nchwc"),
    formula=("default", "best", "direct", "rows", "blocks", "winograd"),
    cold=(),
    isa=ISAS,
)

from _conv import BLOCK, FASTER, LAYERS, ROWS, drawn, laid_out, ours, rated, theirs, torch_or_none

import minitvm as tvm
from minitvm.testing import assert_allclose

torch = torch_or_none()
LAYOUT = {"nchw": "NCHW", "nhwc": "NHWC", "nchwc": f"NCHW{BLOCK}c"}[flags.layout]
RATIOS = (ROWS, f"packed {LAYOUT}", FASTER, "fma_peak")


def measure(name: str, rounds: int) -> Row:
    """Measure our kernel and its peers in turns."""
    layer = LAYERS[name]
    x, w = drawn(layer)
    to, method = target(flags, flags.threads), flags.formula.replace("default", "")
    run, y = ours(layer, x, w, to, layout=LAYOUT, method=method, cold=flags.cold)
    rows, other = ours(layer, x, w, to, method="rows", cold=flags.cold)
    peers = {} if torch is None else theirs(torch, layer, x, w, cold=flags.cold)
    run()
    rows()
    wanted = peers["torch NCHW"]().numpy() if peers else other.numpy()
    assert_allclose(y, laid_out(wanted, LAYOUT), rtol=1e-3, atol=1e-2)
    flops = 2 * y.size * layer.inputs * layer.kernel**2
    return rated(name, to, {"ours": run, ROWS: rows, **peers}, flops, rounds)


if __name__ == "__main__":
    if torch is None:
        print("torch is left out, which is not installed: pip install -e '.[torch]'")
    else:
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
    ratios = tuple(name for name in RATIOS if name in measured[0].peers)
    report(measured, flags.json, ratios, f"ours {LAYOUT}")
    for peer in measured[0].peers:
        print(f"geometric mean of ours/{peer}: {geometric_mean(measured, peer):.2f}")
