"""Count the sketches of Ansor's workloads, and time the way to the first batch of a search.

    python benchmarks/sketches.py [--quick] [--json FILE] [C2D TBS ...]

structures   sketches, as the rules derive them. TVM's rules give 3 for most workloads, 27 for TBS
shapes       ways to decide the steps and formulas of all sketches
derive       CPU seconds to derive the sketches
first batch  CPU seconds to derive them, to make the policy and to propose 16 candidates; at most 2

One core runs this, on a target of two cores. Compiled code is loaded before. --quick: six cases.
"""

from _common import arguments

flags = arguments(__doc__)

import json
import time

import numpy as np

from minitvm import auto_scheduler, tune

TARGET = "llvm -num-cores=2"
QUICK = ("C2D", "GMM", "DEP", "NRM", "ConvLayer", "TBS")


def measured(case: str, shape: tuple[int, ...]) -> dict[str, float]:
    """Return the figures of a workload."""
    start = time.process_time()
    task = auto_scheduler.SearchTask(case, shape, target=TARGET)
    derived = time.process_time()
    tune.GuidedPolicy(task, np.random.default_rng(0)).propose(16)
    end = time.process_time()
    return {
        "structures": len(task.sketches),
        "shapes": sum(sketch.space.shape_count for sketch in task.sketches),
        "derive": derived - start,
        "first batch": end - start,
    }


def main() -> None:
    """Print a line for each workload."""
    shapes = auto_scheduler.workloads.SHAPES
    measured("GMM", (1, 64, 64, 64))  # loads compiled code
    found = dict[str, dict[str, float]]()
    for case in flags.cases or (QUICK if flags.quick else shapes):
        found[case] = measured(case, shapes[case][0])
        print(f"{case:10}", "  ".join(f"{n} {v:6.4g}" for n, v in found[case].items()), flush=True)
    if flags.json is not None:
        flags.json.write_text(json.dumps(found, indent=1))


main()
