"""Compare models as torch exports them with ONNX Runtime: accepted, how exact, how fast.

    python benchmarks/models.py [--quick] [--json FILE] [--export dynamo|script] [--time yes|no]
                                [lstm gru attention encoder resnet18 ...]

22 models of torchvision, two modules of torch (2 layers of an encoder, and attention), an LSTM and
a GRU (_models.py), batch 1, float32, with random weights, through either exporter of torch. Both
sides compute the same ONNX model, on one thread and on two, in turns in one process. Inferences per
second; the error is the largest difference from torch's float64 result, relative to its largest
element.

FILE gets each result when it is known. A later run reads it, and measures only what is missing.

--time no   accept, compile and compare with torch, without times
--quick     two small models
"""

import copy
import json
import math
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from _common import Row, arguments, best_seconds, geometric_mean, report

flags = arguments(__doc__, export=("dynamo", "script"), time=("yes", "no"))

import numpy as np
import onnxruntime
import torch
from _models import MODELS, exported, module_of

import minitvm as tvm
from minitvm import graph

THREADS = tuple(n for n in (1, 2) if n <= (os.cpu_count() or 1))
QUICK = ("lstm", "squeezenet1_1")
ROUNDS, PAUSE = (3, 0.1) if flags.quick else (9, 0.2)
LOWEST, MEAN, ERROR = 0.9, 1.3, 1e-5  # what is wanted: ratios of rates, and the relative error


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one exported model.

    refused   why it was refused; "" if it was accepted
    error     relative to torch's float64 result
    seconds   of one inference, by library and threads: "ours 1", "onnxruntime 2"
    """

    refused: str = ""
    error: float = math.nan
    seconds: dict[str, float] = field(default_factory=dict)


def session(model: bytes, threads: int) -> Callable[[np.ndarray], Any]:
    """Return a model in ONNX Runtime as a function of its input."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors only
    loaded = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (name,) = (each.name for each in loaded.get_inputs())
    return lambda x: loaded.run(None, {name: x})


def result_of(name: str) -> Result:
    """Export a model, compile it, compare it with torch, and time it beside ONNX Runtime."""
    module, x = module_of(name)
    with torch.no_grad():
        model = exported(module, x, flags.export)
        exact = copy.deepcopy(module).double()(x.double()).numpy()
    del module
    try:
        net = graph.from_onnx(model)
        compiled = {n: graph.compile(net, f"llvm -num-cores={n}") for n in THREADS}
    except tvm.TVMError as e:
        return Result(refused=str(e))
    array = x.numpy()
    error = float(np.abs(compiled[1](array) - exact).max() / np.abs(exact).max())
    if flags.time == "no":
        return Result(error=error)
    runs = {f"ours {n}": partial(f, array) for n, f in compiled.items()}
    runs |= {f"onnxruntime {n}": partial(session(model, n), array) for n in THREADS}
    return Result(error=error, seconds=best_seconds(runs, ROUNDS, PAUSE))


def stored(file: Path | None) -> dict[str, Result]:
    """Return the results in a file."""
    if file is None or not file.exists():
        return {}
    return {case: Result(**fields) for case, fields in json.loads(file.read_text()).items()}


def measured(names: list[str], results: dict[str, Result]) -> None:
    """Add the results that are missing, and write all of them after each."""
    for name in names:
        case = f"{name} ({flags.export})"
        before = results.get(case)
        if before and (before.refused or before.seconds or flags.time == "no"):
            continue
        results[case] = now = result_of(name)
        print(f"{case}: {now.refused or f'error {now.error:.1e}'}", flush=True)
        if flags.json:
            text = json.dumps({case: asdict(r) for case, r in sorted(results.items())}, indent=1)
            flags.json.write_text(text + "\n")


def summary(results: dict[str, Result]) -> None:
    """Print the table, and what is wanted of it."""
    rows = [
        Row(case, n, "inferences/s", 1 / r.seconds[f"ours {n}"],
            {"onnxruntime": 1 / r.seconds[f"onnxruntime {n}"]})
        for n in THREADS for case, r in results.items() if f"ours {n}" in r.seconds
    ]  # fmt: skip
    report(rows, None, ("onnxruntime",))
    for n in THREADS:
        here = [row for row in rows if row.threads == n]
        slow = [r.case for r in here if r.ours < LOWEST * r.peers["onnxruntime"]]
        mean = geometric_mean(here, "onnxruntime")
        print(f"{n} thread(s): geometric mean {mean:.2f} (wanted on one: {MEAN}), ", end="")
        print(f"below {LOWEST}: {', '.join(slow) or 'none'}")
    refused = [case for case, r in results.items() if r.refused]
    inexact = [case for case, r in results.items() if r.error > ERROR]
    print(f"{len(results) - len(refused)} of {len(results)} accepted, ", end="")
    print(f"error above {ERROR:.0e}: {', '.join(inexact) or 'none'}")


def main() -> None:
    """Measure the chosen models and print the table of all results in the file."""
    torch.set_grad_enabled(False)
    tvm.set_num_threads(max(THREADS))
    warnings.simplefilter("ignore")  # about torch's exporters
    results = stored(flags.json)
    measured(flags.cases or list(QUICK if flags.quick else MODELS), results)
    summary(results)


main()
