"""Measure how much latency hiding speeds up ResNet-18 on the simulated accelerator.

    python benchmarks/vta_resnet.py                        C2 .. C12 on both machines
    python benchmarks/vta_resnet.py C9 --config vta_pynq   one layer on one machine
    python benchmarks/vta_resnet.py --quick --json rows.json

For each layer, the script searches for the fastest tiling twice: with one virtual thread, where the
units of the accelerator work one after another, and with two, where one thread loads while the
other computes. Cycles are those of the program that vta.build makes for the fastest tiling.
Utilisation is the useful work of the matrix unit over what it could do in this time, 0 to 1. Two
roofs of the tiling bound it from above: what the transfers allow (above 1 if they are not the
limit), and what the compute unit's own work allows.

Each ALU operation takes 2 cycles, as in VTA's HLS design; the columns "II=1" are for the same
programs with 1 cycle each, as in the Chisel design. "network" weights each layer by how often it
occurs in resnet18_v1, which does not contain C3. The published figure (Chen et al. 2018, "TVM",
section 6.4) is that of the best layer: 0.70 without latency hiding, 0.88 with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from minitvm import accel, vta

CONFIGS = ("vta_pynq", "vdla_osdi18")
THREADS = (1, 2)
QUICK = 10  # simulations for each row


@dataclass(frozen=True, slots=True)
class Row:
    """One layer on one machine with one number of virtual threads.

    utilisation, roof_*   shares of the peak rate; *_ii1: with one cycle for each ALU operation
    tried, legal          the number of tilings that were simulated, and of those that fit
    proven                whether the search has shown that no other tiling is faster
    seconds               the time of the search
    """

    case: str
    config: str
    vthreads: int
    cycles: int
    utilisation: float
    roof_dram: float
    roof_compute: float
    cycles_ii1: int
    utilisation_ii1: float
    roof_compute_ii1: float
    tiling: dict[str, int]
    instructions: int
    tried: int
    legal: int
    proven: bool
    seconds: float


def row(case: str, config_name: str, threads: int, most: int) -> Row:
    """Search for the fastest tiling, and run it with 2 cycles and with 1 per ALU operation."""
    start = time.perf_counter()
    layer, config = vta.RESNET18[case], accel.CONFIGS[config_name]
    found = vta.best_tiling(layer, config, threads, most)
    seconds = time.perf_counter() - start
    with vta.Environment(config):
        f = vta.build(*layer.scheduled(found.tiling))
    faster = replace(config, alu_ii_imm=1)
    cycles, cycles_ii1 = f.run().cycles, f.run(faster).cycles
    roofs = vta.roofs(layer, found.tiling, config)
    return Row(
        case=case,
        config=config_name,
        vthreads=threads,
        cycles=cycles,
        utilisation=vta.utilisation(layer, cycles, config),
        roof_dram=roofs.dram,
        roof_compute=roofs.compute,
        cycles_ii1=cycles_ii1,
        utilisation_ii1=vta.utilisation(layer, cycles_ii1, config),
        roof_compute_ii1=vta.roofs(layer, found.tiling, faster).compute,
        tiling=asdict(found.tiling),
        instructions=len(f.program.instructions),
        tried=found.tried,
        legal=found.legal,
        proven=found.proven,
        seconds=seconds,
    )


def rows_of(cases: list[str], configs: list[str], most: int, processes: int) -> list[Row]:
    """Return all rows in order; the longest searches are started first."""
    todo = [
        (case, config, n, most) for n in reversed(THREADS) for config in configs for case in cases
    ]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        rows = list(pool.map(row, *zip(*todo, strict=True)))
    order = list(vta.RESNET18)
    return sorted(rows, key=lambda r: (configs.index(r.config), order.index(r.case), r.vthreads))


def network(rows: list[Row], cycles: str = "cycles") -> float:
    """Return the utilisation of all layers, weighted by how often each occurs in the network."""
    config = accel.CONFIGS[rows[0].config]
    macs = sum(vta.TIMES[r.case] * vta.RESNET18[r.case].macs for r in rows)
    total = sum(vta.TIMES[r.case] * getattr(r, cycles) for r in rows)
    return macs / config.macs_per_cycle / total if total else 0.0


def summaries(rows: list[Row]) -> list[dict[str, str | int | float]]:
    """Return mean, peak and network utilisation for each machine and number of threads."""
    found: list[dict[str, str | int | float]] = []
    for config, n in dict.fromkeys((r.config, r.vthreads) for r in rows):
        mine = [r for r in rows if (r.config, r.vthreads) == (config, n)]
        found.append(
            {
                "config": config,
                "vthreads": n,
                "mean": sum(r.utilisation for r in mine) / len(mine),
                "peak": max(r.utilisation for r in mine),
                "network": network(mine),
                "mean_ii1": sum(r.utilisation_ii1 for r in mine) / len(mine),
                "peak_ii1": max(r.utilisation_ii1 for r in mine),
                "network_ii1": network(mine, "cycles_ii1"),
            }
        )
    return sorted(found, key=lambda s: (CONFIGS.index(str(s["config"])), s["vthreads"]))


def simulator_speed() -> dict[str, float]:
    """Return simulated instructions per second, with times only and with results computed."""
    layer = vta.RESNET18["C9"]
    program = vta.program(layer, vta.Tiling(h=7, w=14, oc=1, ic=1))
    config = vta.vta_pynq
    inputs = {
        area.name: np.zeros(
            area.shape + config.element_shape(area.memory), config.dtype(area.memory)
        )
        for area in program.areas
    }
    return {
        "instructions": len(program.instructions),
        "timed": _rate(program, None),
        "computed": _rate(program, inputs),
    }


def _rate(program: accel.Program, inputs: dict | None) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        vta.simulate(program, vta.vta_pynq, inputs)
        best = min(best, time.perf_counter() - start)
    return len(program.instructions) / best


def show(rows: list[Row], totals: list[dict[str, str | int | float]]) -> None:
    """Print the table of rows, and below it the totals."""
    print(
        f"{'config':12}{'case':>5}{'threads':>8}{'cycles':>9}{'used':>7}{'dram':>7}{'compute':>8}",
        end="",
    )
    print(f"{'II=1':>8}{'tried':>7}{'of':>5}  tiling")
    for r in rows:
        tiling = " ".join(f"{k}={v}" for k, v in r.tiling.items() if v > 1)
        more = "" if r.proven else "+"
        print(f"{r.config:12}{r.case:>5}{r.vthreads:8}{r.cycles:9}{r.utilisation:7.3f}", end="")
        print(f"{r.roof_dram:7.3f}{r.roof_compute:8.3f}{r.utilisation_ii1:8.3f}", end="")
        print(f"{r.tried:6}{more:1}{r.legal:5}  {tiling}")
    print(f"\n{'config':12}{'threads':>8}{'mean':>7}{'peak':>7}{'network':>8}   at II=1")
    for s in totals:
        print(f"{s['config']:12}{s['vthreads']:8}{s['mean']:7.3f}{s['peak']:7.3f}", end="")
        print(
            f"{s['network']:8.3f}{s['mean_ii1']:10.3f}{s['peak_ii1']:7.3f}{s['network_ii1']:8.3f}"
        )


def main() -> None:
    """Parse the flags, search all layers, print the tables and write the JSON file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=f"by default all: {' '.join(vta.RESNET18)}")
    parser.add_argument("--config", choices=CONFIGS, help="by default both")
    parser.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1), help="processes"
    )
    parser.add_argument("--quick", action="store_true", help=f"simulate {QUICK} tilings a row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here as well")
    flags = parser.parse_args()
    if unknown := set(flags.cases) - set(vta.RESNET18):
        parser.error(f"no layer is called {', '.join(sorted(unknown))}")
    start = time.perf_counter()
    configs = [flags.config] if flags.config else list(CONFIGS)
    most = QUICK if flags.quick else vta.MAX_SIMULATIONS
    rows = rows_of(flags.cases or list(vta.RESNET18), configs, most, flags.threads)
    totals, speed = summaries(rows), simulator_speed()
    show(rows, totals)
    print(f"\nsimulator: {speed['timed']:.0f} instructions/s timed, ", end="")
    print(f"{speed['computed']:.0f} computed; {time.perf_counter() - start:.0f} s in all")
    if flags.json is not None:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        made = {
            "machine": machine,
            "rows": [asdict(r) for r in rows],
            "summaries": totals,
            "simulator": speed,
        }
        flags.json.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
