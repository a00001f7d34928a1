"""Measure what fusion is worth: four small networks with and without it.

    python benchmarks/fusion.py [--threads 1] [--quick] [--json FILE] [--isa all|avx2] [case ...]

The networks are those of Figure 4 of "TVM" (Chen et al. 2018): a 1x1 convolution and a depthwise
one, each with batch normalisation and ReLU, and cells of a recurrent network and of an LSTM with
128 hidden units. "ours" is the fused network. "unfused" has one kernel for each operator. Both have
the same other passes, without the one that folds batch normalisation into the weights: in the
paper, it is an operator. Both take turns; runs per second. "bytes" is the number of bytes that
unfused kernels read and write, relative to fused ones. The third network is the second one with
images that are larger than the caches.
"""

from __future__ import annotations

from _common import ISAS, Row, arguments, best_seconds, report, target

flags = arguments(__doc__, isa=ISAS)

from collections.abc import Callable

import numpy as np
from _networks import inputs_of

import minitvm as tvm
from minitvm import graph, testing
from minitvm.graph.networks.layers import Layers

HIDDEN = 128


def normalised(size: int, inputs: int, outputs: int, kernel: int, groups: int) -> graph.Graph:
    """Return a convolution, batch normalisation and ReLU."""
    net = Layers("layer", 0)
    x = net.b.input("x", (1, inputs, size, size))
    y = net.conv(x, "conv", outputs, kernel, padding=kernel // 2, groups=groups)
    return net.b.graph(net.b.relu(net.norm(y, "norm")))


def recurrent() -> graph.Graph:
    """Return a cell of a recurrent network: h' = tanh(W x + b + U h)."""
    net = Layers("rnn", 0)
    x, h = (net.b.input(name, (1, HIDDEN)) for name in ("x", "h"))
    sums = net.b.add(net.dense(x, "input", HIDDEN), net.dense(h, "state", HIDDEN, bias=False))
    return net.b.graph(net.b.tanh(sums))


def lstm() -> graph.Graph:
    """Return a cell of an LSTM; see graph.networks.lstm."""
    net = Layers("lstm", 0)
    b = net.b
    x, h, c = (b.input(name, (1, HIDDEN)) for name in ("x", "h", "c"))
    gates = net.dense(b.concatenate(x, h, axis=1), "gates", 4 * HIDDEN)
    i, f, g, o = (b.strided_slice(gates, (0, n * HIDDEN), (1, (n + 1) * HIDDEN)) for n in range(4))
    state = b.add(b.multiply(b.sigmoid(f), c), b.multiply(b.sigmoid(i), b.tanh(g)))
    return b.graph(b.multiply(b.sigmoid(o), b.tanh(state)), state)


CASES: dict[str, Callable[[], graph.Graph]] = {
    "conv + bn + relu": lambda: normalised(28, 128, 256, 1, 1),
    "depthwise + bn + relu": lambda: normalised(14, 512, 512, 3, 512),
    "depthwise, 112 x 112": lambda: normalised(112, 512, 512, 3, 512),
    "rnn cell": recurrent,
    "lstm cell": lstm,
}


def unfused(net: graph.Graph, _: object) -> graph.Graph:
    """Make each operator a kernel of its own."""
    return graph.passes.fuse(net, level=0)


def compared(case: str, rounds: int) -> Row:
    """Measure a network with and without fusion."""
    net = CASES[case]()
    to = target(flags, flags.threads)
    fused = tuple(p for p in graph.PASSES if p[0] != "fold_batch_norm")
    passes = {"ours": fused, "unfused": (*fused[:-1], ("fuse", unfused))}
    modules = {name: graph.compile(net, to, passes=given) for name, given in passes.items()}
    kernels = {name: graph.optimized(net, to, passes=given) for name, given in passes.items()}
    moved = {name: sum(map(graph.bytes_moved, g.calls)) for name, g in kernels.items()}
    inputs = inputs_of(net)
    first, second = (np.ravel(_first(f(*inputs))) for f in modules.values())
    testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)
    runs = {name: lambda f=f: f(*inputs) for name, f in modules.items()}
    seconds = best_seconds(runs, rounds, burst=50)
    rates = {name: 1 / t for name, t in seconds.items()}
    more = moved["unfused"] / moved["ours"]
    return Row(case, flags.threads, "runs/s", rates.pop("ours"), rates | {"bytes": more})


def _first(results: object) -> np.ndarray:
    return results[0] if isinstance(results, list | tuple) else results


if __name__ == "__main__":
    tvm.set_num_threads(flags.threads)
    rounds = 7 if flags.quick else 21
    report([compared(case, rounds) for case in flags.cases or CASES], flags.json, ("unfused",))
