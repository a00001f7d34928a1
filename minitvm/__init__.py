"""minitvm: a compact but complete tensor compiler.

    import minitvm as tvm
    from minitvm import te

    A = te.placeholder((1024, 1024), name="A")           # a formula,
    B = te.placeholder((1024, 1024), name="B")
    k = te.reduce_axis((0, 1024), name="k")
    C = te.compute((1024, 1024), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

    s = te.create_schedule(C.op)                          # a schedule,
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 32, 32)
    print(tvm.lower(s, [A, B, C]))                        # loops,
    f = tvm.build(s, [A, B, C])                           # machine code,
    f(a, b, c)                                            # called with numpy arrays.

The house has floors; a file imports only from lower ones (tests/test_floors.py):

    demo, doctor  the command line: a story in a terminal, what works here
    testing     random programs and schedules, comparisons, what the machine can do
    driver      lower(), build()
    runtime     compiled functions, arrays, threads
    codegen     loops -> LLVM, Python, numba
    topi        operators, each with a good schedule
    te          what people type: formulas and schedules
    lowering    schedule -> loops: bounds, nests, passes
    schedule    State and Steps
    tensor      formulas
    tir         the loop IR and its meaning
    base        errors, dtypes, targets
"""

import importlib
from typing import Any

from minitvm import te, tir, topi
from minitvm.base import (
    ArgumentError,
    BuildError,
    ExprError,
    LoweringError,
    MeasureError,
    ScheduleError,
    Target,
    TVMError,
    VerifyError,
    target,
)
from minitvm.driver import build, lower
from minitvm.runtime import Device, Function, cpu, load, nd, num_threads, set_num_threads
from minitvm.tir import register_func

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "BuildError",
    "Device",
    "ExprError",
    "Function",
    "LoweringError",
    "MeasureError",
    "ScheduleError",
    "TVMError",
    "Target",
    "VerifyError",
    "build",
    "cpu",
    "load",
    "lower",
    "nd",
    "num_threads",
    "register_func",
    "set_num_threads",
    "target",
    "te",
    "tir",
    "topi",
]

LATE = ("testing",)  # rooms that most programs never enter


def __getattr__(name: str) -> Any:
    """Import an upper room when it is first asked for."""
    if name in LATE:
        return importlib.import_module(f"minitvm.{name}")
    raise AttributeError(f"minitvm has no {name!r}")
