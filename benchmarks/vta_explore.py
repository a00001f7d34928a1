"""Search for accelerators for ResNet-18: the Pareto front of simulated cycles and estimated area.

    python benchmarks/vta_explore.py                  the stored search; only what it lacks is run
    python benchmarks/vta_explore.py --check 5        ... and 5 designs of the front from scratch
    python benchmarks/vta_explore.py --log FILE       200 configurations; FILE is continued
    python benchmarks/vta_explore.py --store          store the search, abridged

Each configuration runs the twelve layers that the accelerator takes from ResNet-18, with the
fastest tilings for it: the convolutions C2 .. C12, and the dense layer at the end. The first
convolution, with 3 input channels, is left to the CPU. "network" counts each layer as often as
resnet18_v1 contains it, which is never for C3. vdla_osdi18 is the accelerator of Chen et al. 2018,
"TVM", vta_pynq that of the VTA release.

--check searches the tilings of N drawn designs of the front again, builds and verifies the program
of each layer, and simulates it. The exit status is 1 if any number of cycles differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from minitvm import vta

STORED = Path(__file__).with_suffix(".jsonl")
LAYERS = {**vta.RESNET18, "FC": vta.Dense(channels=(512, 1000))}
TIMES = {**vta.TIMES, "FC": 1}
BUDGET = 200  # as many as are stored


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def recomputed(point: vta.Point) -> int:
    """Return the cycles of a design: each program is built, verified and simulated again."""
    again = vta.evaluate(LAYERS, point.config, TIMES)
    cycles = 0
    for x in again.layers:
        with vta.Environment(point.config):
            f = vta.build(*LAYERS[x.name].scheduled(x.best.tiling))
        run = f.run()
        assert run.cycles == x.best.cycles, f"{x.name} on {point.config.name}"
        cycles += x.times * run.cycles
    return cycles


def check(found: vta.Exploration, count: int) -> bool:
    """Recompute `count` drawn designs of the front, print both cycles; return whether all agree."""
    front = found.front
    same = True
    for point in random.Random(0).sample(front, min(count, len(front))):
        cycles = recomputed(point)
        same = same and cycles == point.cycles
        print(f"{point.config.name:24}{point.cycles:12,} stored{cycles:12,} recomputed", flush=True)
    print("all equal" if same else "NOT EQUAL")
    return same


def store(log: Path, found: vta.Exploration) -> None:
    """Write the log to the stored file, without the tilings of dominated designs."""
    dominated = {p.cycles for p in found.points} - {p.cycles for p in found.designs}
    header, *lines = map(json.loads, log.read_text().splitlines())
    for line in lines:
        if line.get("cycles") in dominated:
            line.pop("layers", None)
    texts = (json.dumps(line, separators=(",", ":")) for line in (header, *lines))
    STORED.write_text("\n".join(texts) + "\n")


def main() -> None:
    """Parse the flags, search or load, print the table, and check or store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="by default the stored search")
    parser.add_argument("--budget", type=int, default=BUDGET, help="configurations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--check", type=int, default=0, metavar="N")
    parser.add_argument("--store", action="store_true")
    flags = parser.parse_args()
    start, cpu = time.perf_counter(), cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        log = flags.log
        if log is None:  # a copy: a search appends to its log
            log = Path(folder) / STORED.name
            shutil.copy(STORED, log)
        found = vta.explore(
            LAYERS,
            TIMES,
            budget=flags.budget,
            seed=flags.seed,
            log=log,
            processes=flags.threads,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
        if flags.store:
            store(log, found)
    print(f"{found}\n\n{found.table()}\n")
    for point in found.front:
        print(point.explain())
    seconds = time.perf_counter() - start
    print(f"\n{seconds:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU time")
    if flags.check and not check(found, flags.check):
        sys.exit(1)


if __name__ == "__main__":
    main()
