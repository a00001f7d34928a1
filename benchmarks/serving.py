"""Serve a language model: batches of requests, and batches of iterations (ORCA, OSDI 2022).

    python benchmarks/serving.py [--json FILE] [0.4 0.8 2]  requests per second
    python benchmarks/serving.py record [--quick]           measure the kernels; needs torch

The rows are symbols per second, and the inverse of the mean latency in seconds, of 200 requests in
at most 8 slots, simulated by minitvm/course/serving.py. "record" measures reading and writing of
the decoder of benchmarks/decoder.py (4 layers of TinyLlama's shapes, float32) on one core, in the
process's own seconds, and stores them beside the simulation. With --quick it measures one layer and
stores nothing.
"""

import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from _common import Row, arguments, report

flags = arguments(__doc__)

import numpy as np

from minitvm import graph
from minitvm.course import serving

READ, WRITE = (16, 64, 128), (1, 2, 4, 8, 16)  # symbols of a question; requests in a batch
COUNT, SLOTS, POSITION = 200, 8, 128
LAYERS, ROUNDS = (1, 3) if flags.quick else (4, 9)


def cpu_seconds(run: Callable[[], Any]) -> float:
    """Return the least processor time of a call, after one that is not counted."""
    run()
    seconds = list[float]()
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measured(module: Any, inputs: list[Any]) -> float:
    """Compile a module of torch for one core, and return the seconds of a call."""
    import torch

    net = graph.from_torch(module, tuple(map(torch.from_numpy, inputs)))
    compiled = graph.compile(net, "llvm -num-cores=1")
    return cpu_seconds(lambda: compiled(*inputs))


def record() -> None:
    """Measure the decoder's kernels; print and store their seconds."""
    import torch
    from _decoder import Decoder, Prefill, Shape, Step

    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    shape = Shape(layers=LAYERS)
    decoder = Decoder(shape).eval()
    rng, times = np.random.default_rng(0), dict[str, dict[int, float]](read={}, write={})
    for length in READ:
        words = rng.integers(0, shape.vocabulary, (1, length))
        times["read"][length] = measured(Prefill(decoder).eval(), [words])
        print(f"read {length} symbols: {times['read'][length] * 1e3:.1f} ms", flush=True)
        gc.collect()  # a compiled network has a copy of the weights
    for batch in WRITE:
        cache = replace(shape, batch=batch).cache
        caches = [np.zeros(cache, np.float32) for _ in range(2 * LAYERS)]
        words = rng.integers(0, shape.vocabulary, (batch, 1))
        inputs = [words, np.array([POSITION]), *caches]
        times["write"][batch] = measured(Step(decoder).eval(), inputs)
        print(f"write for {batch} requests: {times['write'][batch] * 1e3:.1f} ms", flush=True)
        gc.collect()
    if not flags.quick:
        rounded = {
            name: {n: round(s, 5) for n, s in table.items()} for name, table in times.items()
        }
        serving.FILE.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def throughput(served: Sequence[serving.Served]) -> float:
    """Return the symbols of answers per second."""
    return sum(each.request.answer for each in served) / served[-1].returned


def inverse_latency(served: Sequence[serving.Served]) -> float:
    """Return one over the mean latency in seconds."""
    return len(served) / sum(each.latency for each in served)


def compared() -> None:
    """Print the throughput and the latency of both levels."""
    times, rows = serving.recorded(), list[Row]()
    for rate in map(float, flags.cases or ("0.4", "0.8", "2")):
        requests = serving.requests(rate, COUNT)
        other, ours = (serving.serve(requests, times, SLOTS, level) for level in serving.LEVELS)
        for unit, figure in (("symbols/s", throughput), ("1/latency", inverse_latency)):
            rows.append(Row(f"{rate}/s", 1, unit, figure(ours), {"request": figure(other)}))
    report(rows, flags.json, ("request",), "iteration")


if flags.cases == ["record"]:
    record()
else:
    compared()
