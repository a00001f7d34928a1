"""Time the simulated GPU on matrix products.

    python benchmarks/simulator.py [--quick] [--json FILE] [case ...]

Milliseconds of one run: "ours" finds races and counts memory traffic; the others compute values and
check barriers only ("values"), find races as well ("races"), or count as well ("counts").
"generators" is another simulator, which runs the printed kernel with a Python generator per thread
and finds divergent barriers only; large products would take it minutes. Each product is compared
with numpy's before it is timed. One thread.

--quick    fewer rounds
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import _generators
from _common import Row, arguments, best_seconds, report

flags = arguments(__doc__)

sys.path.insert(0, str(Path(__file__).parent.parent))
import numpy as np

import minitvm as tvm
from minitvm import simt
from tests.codegen.gpu import programs

CASES: dict[str, Callable[[], programs.Program]] = {
    "64, 16x16 threads": lambda: programs.tiled(64),
    "64, 8x8 results a thread": lambda: programs.in_registers(64, tile=64, each=8),
    "256, 16x16 threads": lambda: programs.tiled(256),
    "256, 8x8 results a thread": lambda: programs.large(256, turned="layout"),
}
MODES = {  # column -> (find races, count traffic)
    "all": (True, True),
    "values": (False, False),
    "races": (True, False),
    "counts": (False, True),
}


def timed(case: str) -> Row:
    """Return the milliseconds of a case in each mode."""
    program = CASES[case]()
    f = tvm.lower(program.schedule, program.args, target="cuda -sim")
    arrays = program.arrays()
    out = np.zeros(program.args[-1].shape, np.float32)
    assert simt.run(f, [*arrays, out]).ok
    np.testing.assert_allclose(out, program.meaning(*arrays), rtol=1e-6)
    runs = {
        mode: partial(simt.run, f, [*arrays, out], races=races, counters=counters)
        for mode, (races, counters) in MODES.items()
    }
    if case.startswith("64"):
        launch = simt.launch_of(f.body)
        source = tvm.build(f, target="cuda -sim").source("cuda")
        wanted, out[:] = out.copy(), np.nan
        by_generators = partial(_generators.run, source, launch.grid, launch.block, [*arrays, out])
        by_generators()
        np.testing.assert_array_equal(out, wanted)
        runs["generators"] = by_generators
    seconds = best_seconds(runs, 3 if flags.quick else 7, burst=1)
    milliseconds = {mode: 1e3 * s for mode, s in seconds.items()}
    return Row(case, 1, "ms", milliseconds.pop("all"), milliseconds)


report([timed(case) for case in flags.cases or CASES], flags.json, ())
