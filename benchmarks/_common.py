"""Code that all benchmarks share: flags, fair timing, the table, the JSON file.

Call arguments() before numpy is imported: it sets the number of threads of every library, and its
instruction set.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LIBRARIES = ("OPENBLAS", "OMP", "MKL", "MINITVM")
ISAS = ("all", "avx2")  # the values of --isa, for the benchmarks that have it
AVX2 = {  # the settings that keep the peers from AVX-512
    "OPENBLAS_CORETYPE": "Haswell",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # of torch and OpenVINO
    "OV_CPU_MAX_ISA": "AVX2",  # of OpenVINO's own code, in versions that know it
    "ATEN_CPU_CAPABILITY": "avx2",  # of torch's own code
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL"
    " AVX512_ICL AVX512_SPR",  # the names of all versions from 2.0; unknown ones do nothing
}
HANDICAPS = (*AVX2, "OPENBLAS_L2_SIZE", "DNNL_MAX_CPU_ISA", "MKL_CBWR")
FREE = {"onnxruntime": "it asks the CPU itself, and no setting keeps it from AVX-512"}
PARTLY = {"openvino": "its fully connected layers (MLAS) may still use AVX-512"}


def arguments(
    what: str | None, files: tuple[str, ...] = (), **choices: tuple[str, ...]
) -> argparse.Namespace:
    """Parse cases and flags; set the threads and the instruction set of all libraries.

    files: further flags with the path of a file
    choices: further flags with their values, of which the first is the default; without values, a
    flag that is on or off. With isa=ISAS, --isa avx2 holds the peers back, and `target` holds us
    """
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="the cases to run (default: all)")
    parser.add_argument("--threads", type=int, default=1, help="threads of all libraries (1)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under 50 seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    for name in files:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE")
    for name, values in choices.items():
        if values:
            parser.add_argument(f"--{name}", choices=values, default=values[0])
        else:
            parser.add_argument(f"--{name}", action="store_true")
    flags = parser.parse_args()
    for name in HANDICAPS:  # no other setting may keep a peer from using all of the CPU
        os.environ.pop(name, None)
    if getattr(flags, "isa", "all") == "avx2":
        if platform.machine() not in ("x86_64", "AMD64"):
            parser.error(f"--isa avx2: this CPU is {platform.machine()}; try it on x86")
        os.environ.update(AVX2)
    for name in LIBRARIES:
        os.environ[f"{name}_NUM_THREADS"] = str(flags.threads)
    return flags


def target(flags: argparse.Namespace, cores: int = 1) -> str:
    """Return our target with the instruction set of --isa."""
    held = " -mattr=-avx512f,-avxvnni" if flags.isa == "avx2" else ""
    return f"llvm -num-cores={cores}{held}"


@dataclass(slots=True)
class Row:
    """One case: our figure, and those of the peers by name, in `unit`."""

    case: str
    threads: int
    unit: str
    ours: float
    peers: dict[str, float] = field(default_factory=dict)


def prepared(
    peers: Mapping[str, Callable[[], Callable[[], Any]]], isa: str = "all"
) -> dict[str, Callable[[], Any]]:
    """Prepare the peers; print why a peer is left out, such as a package that is not installed.

    With isa="avx2", peers that cannot be held back are left out too.
    """
    runs: dict[str, Callable[[], Any]] = {}
    for name, prepare in peers.items():
        if isa != "all" and name in FREE:
            print(f"{name} is left out with --isa {isa}: {FREE[name]}")
            continue
        try:
            runs[name] = prepare()
            if isa != "all" and name in PARTLY:
                print(f"{name} is held back in part by --isa {isa}: {PARTLY[name]}")
        except Exception as e:  # raised by code of other libraries
            print(f"{name} is left out: {type(e).__name__}: {str(e).partition(chr(10))[0]}")
    return runs


def best_seconds(
    runs: Mapping[str, Callable[[], Any]], rounds: int, pause: float = 0.0, burst: int = 3
) -> dict[str, float]:
    """Return the shortest time of each run in seconds; they take turns, in a new order each round.

    What ran before matters: after the peak of multiply-adds, the clock is lower for a while. With
    a fixed order this cost one of two equal programs 7 %.

    The first round is not counted. pause: seconds of sleep before each turn, until the threads of
    the run before no longer spin. burst: the number of calls in a turn.
    """
    best = dict.fromkeys(runs, float("inf"))
    order, names = random.Random(0), list(runs)
    for n in range(rounds + 1):
        for name in order.sample(names, len(names)):
            run = runs[name]
            time.sleep(pause)
            for _ in range(burst):
                start = time.perf_counter()
                run()
                seconds = time.perf_counter() - start
                if n > 0:
                    best[name] = min(best[name], seconds)
    return best


def searches(
    cases: Iterable[str], seeds: int, log: Path | None
) -> Iterator[tuple[str, str, int, Path | None]]:
    """Yield (label, case, seed, log) of each search; each seed has a log of its own."""
    for case in cases:
        for seed in range(seeds):
            own = log if log is None or seed == 0 else log.with_stem(f"{log.stem}-seed{seed}")
            yield f"{case} seed {seed}" if seeds > 1 else case, case, seed, own


def report(
    rows: list[Row],
    file: Path | None,
    ratios: tuple[str, ...],
    ours: str = "ours",
    **more: Any,
) -> None:
    """Print the rows as a table, with a column ours / peer for each of `ratios`; write `file`.

    What a peer without a figure has is blank. ours: the head of our column. more: what `file` has
    besides the rows
    """
    names = list(dict.fromkeys(name for r in rows for name in r.peers))
    head = ["case", "threads", "unit", ours, *names, *(f"ours/{n}" for n in ratios)]
    lines = [head]
    for r in rows:
        figures = [r.ours, *(r.peers.get(n, float("nan")) for n in names)]
        parts = [r.ours / r.peers[n] if n in r.peers else float("nan") for n in ratios]
        cells = [f"{x:.2f}" if abs(x) < 10 else f"{x:.1f}" for x in figures]
        cells += [f"{x:.2f}" for x in parts]
        lines.append([r.case, str(r.threads), r.unit, *(c.replace("nan", "") for c in cells)])
    widths = [max(len(line[c]) for line in lines) for c in range(len(head))]
    for line in lines:
        print("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))
    if file is not None:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        found = {"machine": machine, "rows": [asdict(r) for r in rows], **more}
        file.write_text(json.dumps(found, indent=1))


def geometric_mean(rows: list[Row], peer: str) -> float:
    """Return the geometric mean of ours / peer over the rows with that peer; nan without rows."""
    ratios = [r.ours / r.peers[peer] for r in rows if peer in r.peers]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
