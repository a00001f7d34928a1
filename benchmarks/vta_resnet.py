"""ResNet-18 on the accelerator: what hiding the latency of memory behind arithmetic is worth.

    python benchmarks/vta_resnet.py                        C2 .. C12 on both machines
    python benchmarks/vta_resnet.py C9 --config vta_pynq   one layer on one
    python benchmarks/vta_resnet.py --quick --json rows.json

For each layer the fastest tiling is sought with one virtual thread, where no two units of the
accelerator work at a time, and with two, where one loads while the other computes. Cycles are
those of the instructions that vta.build makes of the winner. Utilisation is the useful share of
what the matrix unit could do in this time, 0 to 1; it does not exceed the lower of the two roofs of
the tiling: what its transfers allow (above 1 where they are not the limit), and what the compute
unit's own work allows.

Each ALU operation takes 2 cycles, as in VTA's HLS design; "II=1" are the same programs on a
machine where one takes 1, as in the Chisel design. The network counts each layer as often as
resnet18_v1 has it; C3 is not in that network. The published figure (Chen et al. 2018, "TVM",
section 6.4) is that of the best layer: 0.70 without hiding, 0.88 with it.
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

    utilisation, roof_*   shares of the peak; *_ii1: one cycle for each ALU operation
    tried, legal          tilings that were simulated, of how many that fit
    proven                no other tiling can be faster
    seconds               of searching
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
    """Search, build the winner, and run it on both machines."""
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
    """All rows, the longest searches first."""
    todo = [
        (case, config, n, most) for n in reversed(THREADS) for config in configs for case in cases
    ]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        rows = list(pool.map(row, *zip(*todo, strict=True)))
    order = list(vta.RESNET18)
    return sorted(rows, key=lambda r: (configs.index(r.config), order.index(r.case), r.vthreads))


def network(rows: list[Row], cycles: str = "cycles") -> float:
    """The utilisation of all layers together, each as often as the network has it."""
    config = accel.CONFIGS[rows[0].config]
    macs = sum(vta.TIMES[r.case] * vta.RESNET18[r.case].macs for r in rows)
    total = sum(vta.TIMES[r.case] * getattr(r, cycles) for r in rows)
    return macs / config.macs_per_cycle / total if total else 0.0


def summaries(rows: list[Row]) -> list[dict[str, str | int | float]]:
    """Mean, peak and network of each machine and number of threads."""
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
    """Instructions in a second: timed only, and computed bit by bit as well."""
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
    """The table, and below it what it amounts to."""
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
    """Search, print and write."""
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
    most = QUICK if flags.quick else vta.MOST_SIMULATIONS
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
