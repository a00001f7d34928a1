"""Compare a small language model with torch and ONNX Runtime: reading a text, and decoding.

    python benchmarks/decoder.py --threads 1 [--quick] [--json FILE]
                                 [prefill decode bfloat16 int8]

A decoder of the layer shapes of TinyLlama 1.1B (_decoder.py): 4 layers instead of 22, random
weights, a vocabulary of 32,000 words, batch 1. "prefill" reads 128 words; "decode" computes one
more word from caches of at most 256 words. One module of ours does both, so that it holds the
weights once; "two modules" is also ours: one module for each length. "bfloat16" is "decode" with
the weights of dense layers in bfloat16, beside torch in bfloat16, caches included; "int8" is
"decode" with weights in int8 and a scale for each 32 of them, computed in float32, beside ONNX
Runtime's MatMulNBits of 8 bits (its accuracy_level 4 also rounds the data to int8). Both are also
compared with our float32. Words per second; all take turns in one process.

Before the times, 64 words are decoded greedily; a line says how many are torch's. A step of
decoding reads every weight once: its bytes a second are shown beside the bandwidth of a large copy.
A step also copies the caches; the line says what share of the time that takes. Resident memory is
shown on Linux.

--quick   one layer
"""

import copy
import logging
import math
import mmap
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from _common import Row, arguments, best_seconds, prepared, report

flags = arguments(__doc__)

import numpy as np
import torch
from _decoder import Decoder, Prefill, Shape, Step, padded

import minitvm as tvm
from minitvm import graph, runtime, viz

WORDS, STEPS = 128, 64
LEVELS = (0, 4)  # of MatMulNBits: float32 data, int8 data
SHAPE = Shape(layers=1) if flags.quick else Shape()
TARGET = f"llvm -num-cores={flags.threads}"
ROUNDS, PAUSE = (3, 0.05) if flags.quick else (7, 0.2)
Model = Callable[..., Sequence[Any]]  # of arrays; returns arrays


def in_torch(module: torch.nn.Module) -> Model:
    """Return a module as a function of arrays."""
    return lambda *xs: [y.numpy() for y in module(*map(torch.from_numpy, xs))]


def in_bfloat16(module: torch.nn.Module, inputs: Sequence[Any]) -> Model:
    """Return a module as a function of `inputs` alone; weights and inputs are in bfloat16."""
    narrow = copy.deepcopy(module).bfloat16()
    tensors = [torch.from_numpy(x) for x in inputs]
    tensors = [t.bfloat16() if t.is_floating_point() else t for t in tensors]
    return lambda *_: narrow(*tensors)


def in_onnx_runtime(folder: Path, module: torch.nn.Module, inputs: Sequence[Any]) -> Model:
    """Return a module that torch has exported, in ONNX Runtime."""
    file = folder / f"{type(module).__name__}.onnx"
    tensors = tuple(map(torch.from_numpy, inputs))
    torch.onnx.export(module, tensors, file, dynamo=True, external_data=True, verbose=False)
    return session(file)


def in_int8(folder: Path, level: int) -> Model:
    """Return the exported step with weights in int8, in ONNX Runtime."""
    import onnx
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    logging.disable(logging.INFO)  # a line for each node
    config = nbits.DefaultWeightOnlyQuantConfig(
        block_size=32, is_symmetric=True, accuracy_level=level, bits=8
    )
    model = onnx.load(folder / "Step.onnx")
    quantizer = nbits.MatMulNBitsQuantizer(model, algo_config=config)
    quantizer.process()
    file = folder / f"Step{level}.onnx"
    quantizer.model.save_model_to_file(str(file), use_external_data_format=True)
    return session(file)


def session(file: Path) -> Model:
    """Return the model in a file as a function of arrays, in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = flags.threads
    loaded = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in loaded.get_inputs()]
    return lambda *xs: loaded.run(None, dict(zip(names, xs, strict=True)))


def decoded(prefill: Model, step: Model, words: Any) -> list[int]:
    """Return the words that follow `words`, each the one with the highest score."""
    scores, *caches = prefill(words)
    caches, following = padded(caches, SHAPE), list[int]()
    for k in range(STEPS):
        following.append(int(np.argmax(scores)))
        word, position = np.array([[following[-1]]]), np.array([WORDS + k])
        scores, *caches = step(word, position, *caches)
    return following


def rate(case: str, unit: int, runs: dict[str, Callable[[], Any]]) -> tuple[Row, float]:
    """Return the words per second of the runs, `unit` words each, and our seconds."""
    seconds = best_seconds(runs, ROUNDS, PAUSE, burst=2)
    rates = {name: unit / s for name, s in seconds.items()}
    return Row(case, flags.threads, "words/s", rates.pop("ours"), rates), seconds["ours"]


def bandwidth(step: graph.Graph, seconds: float, copied: float) -> str:
    """Describe the bytes a second of a step beside those of a copy, in GB/s."""
    read = sum(a.nbytes for name, a in step.params.items() if "embed" not in name)
    speed = read / seconds / 1e9
    return (
        f"{read / 1e6:.0f} MB of weights in {seconds * 1e3:.1f} ms: {speed:.1f} GB/s, "
        f"{speed / copied:.0%} of a copy's {copied:.1f} GB/s"
    )


def copying(module: runtime.DynamicModule | runtime.NetworkModule, arrays: Sequence[Any]) -> str:
    """Describe the share of a step's time in the kernels that copy the caches.

    Profiles do not tell operators: these are the calls that write as many bytes as a cache has.
    """
    calls = module.profile(*arrays).calls
    copies = [c.seconds for c in calls if c.written == arrays[2].nbytes]
    return f"{len(copies)} copies of caches take {sum(copies) / sum(c.seconds for c in calls):.1%}"


def resident() -> float:
    """Return the resident memory of this process in MB; NaN where there is no /proc."""
    file = Path("/proc/self/statm")
    pages = int(file.read_text().split()[1]) if file.exists() else math.nan
    return pages * mmap.PAGESIZE / 1e6


def timed(
    folder: Path,
    modules: dict[str, tuple[torch.nn.Module, list[Any]]],
    networks: dict[str, graph.Graph],
    ours: dict[str, Model],
    two: dict[str, Model],
) -> None:
    """Print the table of the cases in `modules`: our models beside the others'."""
    copied, rows = viz.Machine.measured(flags.threads).gbytes, list[Row]()
    for case, (module, arrays) in modules.items():
        load: dict[str, Callable[[], Model]] = {
            "torch": lambda m=module: in_torch(m),
            "onnxruntime": lambda m=module, xs=arrays: in_onnx_runtime(folder, m, xs),
        }
        if case in two:
            load["two modules"] = lambda c=case: two[c]
        if case == "int8":
            load |= {f"MatMulNBits {n}": lambda n=n: in_int8(folder, n) for n in LEVELS}
        if case == "bfloat16":
            load["torch bfloat16"] = lambda: in_bfloat16(*modules["bfloat16"])
        if case in ("bfloat16", "int8"):
            load["float32"] = lambda: ours["decode"]
        peers = prepared(load)
        runs = {name: lambda f=f, xs=arrays: f(*xs) for name, f in peers.items()}
        run = {"ours": lambda f=ours[case], xs=arrays: f(*xs), **runs}
        row, seconds = rate(case, WORDS if case == "prefill" else 1, run)
        rows.append(row)
        if case != "prefill":
            print(f"{case}: {bandwidth(networks[case], seconds, copied)}", flush=True)
    names = list(dict.fromkeys(name for row in rows for name in row.peers))
    report(rows, flags.json, tuple(names))


def main(folder: Path, cases: Sequence[str]) -> None:
    """Decode, compare the words, and print the table."""
    torch.set_num_threads(flags.threads)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    tvm.set_num_threads(flags.threads)
    warnings.simplefilter("ignore")  # about torch's exporters
    decoder = Decoder(SHAPE).eval()
    first, one = Prefill(decoder).eval(), Step(decoder).eval()
    words = np.random.default_rng(0).integers(0, SHAPE.vocabulary, (1, WORDS))
    start = [np.zeros(SHAPE.cache, np.float32) for _ in range(2 * SHAPE.layers)]
    inputs = [words[:, :1], np.array([WORDS]), *start]

    def step_of(length: int) -> graph.Graph:
        tensors = map(torch.from_numpy, inputs[1:])
        return graph.from_torch(one, (torch.from_numpy(words[:, :1].repeat(length, 1)), *tensors))

    before = resident()
    model = graph.compile_dynamic(
        step_of, TARGET, special=(1,), repack=False, largest=SHAPE.capacity
    )
    model(words, np.array([0]), *start)
    model(*inputs)
    print(f"one module: {resident() - before:.0f} MB more are resident")
    before = resident()
    two = {
        "prefill": graph.compile(graph.from_torch(first, (torch.from_numpy(words),)), TARGET),
        "decode": graph.compile(step_of(1), TARGET),
    }
    two["prefill"](words)
    two["decode"](*inputs)
    print(f"two modules: {resident() - before:.0f} MB more are resident")
    networks = {"decode": step_of(1), "bfloat16": graph.bfloat16_weights(step_of(1))}
    networks["int8"] = graph.int8_weights(step_of(1))
    ours = {"prefill": lambda xs: model(xs, np.array([0]), *start), "decode": model}
    ours |= {name: graph.compile(networks[name], TARGET) for name in ("bfloat16", "int8")}
    theirs = decoded(in_torch(first), in_torch(one), words)
    for name in ("decode", "bfloat16", "int8"):
        following = decoded(ours["prefill"], ours[name], words)
        equal = sum(a == b for a, b in zip(following, theirs, strict=True))
        copies = copying(ours[name], inputs)
        print(f"{name}: {equal} of {STEPS} words are torch's, {copies}", flush=True)
    modules = {"prefill": (first, [words]), "decode": (one, inputs)}
    modules |= dict.fromkeys(("bfloat16", "int8"), (one, inputs))
    timed(folder, {case: modules[case] for case in cases}, networks, ours, two)


with tempfile.TemporaryDirectory() as temporary:
    main(Path(temporary), flags.cases or ("prefill", "decode", "bfloat16", "int8"))
