"""Compare one compilation for any size with a compilation for each size, and threads with one.

    python benchmarks/dynamic.py --threads 1 [--quick] [--json FILE] [--isa all|avx2]
                                 [mlp encoder resnet18 calls]

mlp        three dense layers; n is the batch
encoder    one layer of BERT's encoder with 256 features; n is the length of the text
resnet18   images of 112x112 pixels; n is the batch; one image has kernels of its own, as it reads
           Winograd's weights for few pixels
calls      one module of a MobileNet-V2 called from 1, 2 and 8 Python threads at the same time

The peer is the same network compiled for that size alone. The module with a dynamic size comes from
a file; the other sizes were not seen before. Runs per second, alternately.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from _common import ISAS, Row, arguments, best_seconds, report, target

flags = arguments(__doc__, isa=ISAS)

import minitvm as tvm
from minitvm import graph

ROUNDS = 5 if flags.quick else 25
CALLS = 64  # of the module by all threads together
Make = Callable[[int], graph.Graph]


def mlp(n: int) -> graph.Graph:
    """Return 784 -> 512 -> 512 -> 10 features for n rows."""
    rng, b = np.random.default_rng(0), graph.Builder("mlp")
    x, sizes = b.input("x", (n, 784)), (784, 512, 512, 10)
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        w = rng.standard_normal((outputs, inputs), np.float32) * inputs**-0.5
        x = b.relu(b.dense(x, b.param(f"w{k}", w)))
    return b.graph(x)


# network, typical size, special sizes, measured sizes
CASES: dict[str, tuple[Make, int, tuple[int, ...], tuple[int, ...]]] = {
    "mlp": (mlp, 16, (), (1, 2, 3, 5, 7, 8, 11, 13, 16, 17)),
    "encoder": (
        lambda n: graph.networks.bert(layers=1, hidden=256, heads=4, length=n),
        64,
        (),
        (1, 7, 33, 61, 100, 128),
    ),
    "resnet18": (
        lambda n: graph.networks.resnet18(batch=n, size=112),
        16,
        (1,),
        (1, 2, 3, 7, 16, 17),
    ),
}


def sizes(name: str) -> list[Row]:
    """Return a row for each size of a network."""
    make, typical, special, tried = CASES[name]
    to = target(flags, flags.threads)
    with tempfile.TemporaryDirectory() as folder:
        module = graph.compile_dynamic(make, to, typical=typical, special=special)
        module.export(Path(folder) / "network")
        module = graph.load(Path(folder) / "network")
    rows = list[Row]()
    for n in tried[::3] if flags.quick else tried:
        net = make(n)
        own = graph.compile(net, to)
        x = np.random.default_rng(n).random(net.inputs[0].type.shape, np.float32)
        np.testing.assert_allclose(module(x), own(x), rtol=1e-3, atol=1e-3)
        seconds = best_seconds({"dynamic": partial(module, x), "own": partial(own, x)}, ROUNDS)
        rates = {each: 1 / t for each, t in seconds.items()}
        rows.append(
            Row(f"{name} n={n}", flags.threads, "runs/s", rates["dynamic"], {"own": rates["own"]})
        )
    return rows


def calls() -> list[Row]:
    """Return a row for each number of Python threads that call one module; kernels use one core."""
    net = graph.networks.mobilenet_v2(size=128)
    module = graph.compile(net, target(flags, 1))
    xs = [np.random.default_rng(k).random((1, 3, 128, 128), np.float32) for k in range(CALLS)]

    def run(threads: int) -> None:
        with ThreadPoolExecutor(threads) as executor:
            for _ in executor.map(module, xs):
                pass

    seconds = best_seconds({f"{n}": partial(run, n) for n in (1, 2, 8)}, ROUNDS)
    one = CALLS / seconds["1"]
    return [Row("calls", int(n), "runs/s", CALLS / t, {"own": one}) for n, t in seconds.items()]


def main() -> None:
    """Measure the chosen cases and print the table; "own" of `calls` is one thread."""
    tvm.set_num_threads(flags.threads)
    rows = list[Row]()
    for name in flags.cases or [*CASES, "calls"]:
        rows += calls() if name == "calls" else sizes(name)
    report(rows, flags.json, ("own",))


main()
