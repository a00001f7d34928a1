"""Run printed kernels of random programs in numba's simulator of CUDA, a witness of its own.

    NUMBA_ENABLE_CUDASIM=1 python -m tests.fuzz.witness 20

It runs each thread as a thread of Python, and shares no code with minitvm's simulated GPU. Programs
whose functions numba.cuda does not have, and those with shuffles or barriers of warps, which its
simulator does not have, are skipped.
"""

import sys
import warnings
from itertools import count
from typing import Any

import numpy as np
from numba import cuda

from minitvm import driver
from minitvm.base import BuildError, LoweringError
from minitvm.testing import difference

from .case import GPU, Case, make_case, stores
from .schedules import Tally

MAX_STORES = 3000  # a Python thread executes about 10,000 per second


def main(programs: int) -> None:
    """Run the first `programs` cases that numba's simulator can run; raise if one is wrong."""
    warnings.simplefilter("ignore")
    done = 0
    for seed in count():
        case = make_case(seed, np.random.default_rng(seed), Tally(), gpu=True)
        try:
            text = driver.build(case.schedule, case.program.args, target=GPU).source("cuda")
        except (BuildError, LoweringError):
            continue
        if "shfl" in text or "syncwarp" in text or not case.certain or stores(case) > MAX_STORES:
            continue
        with np.errstate(all="ignore"):
            check(case, text)
        done += 1
        print(f"seed {seed}: right, {text.count('syncthreads')} barriers")
        if done == programs:
            return


def check(case: Case, text: str) -> None:
    """Execute the printed source on arrays of the case, and compare its outputs."""
    scope: dict[str, Any] = {}
    exec(compile(text, "<kernels>", "exec"), scope)
    program = case.program
    inputs = [cuda.to_device(case.inputs[t].reshape(-1)) for t in program.inputs]
    outputs = [cuda.to_device(np.zeros(w.size, w.dtype)) for w in case.wanted]
    shapes = [program.sizes[v] for v in program.sizes]
    scope["main"](*inputs, *outputs, *shapes)
    for got, want, exact in zip(outputs, case.wanted, program.exact, strict=True):
        found = difference(
            got.copy_to_host().reshape(want.shape), want, 0.0, 0.0 if exact else case.tolerance
        )
        assert not found, f"seed {case.seed}: {found}\n{text}"


if __name__ == "__main__":
    main(int(sys.argv[1]))
