# ruff: noqa: E402 (sys.path is set before anything else is imported)
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

Networks are graphs of operators, compiled to one function:

    from minitvm import graph

    net = graph.networks.resnet18()
    module = graph.compile(net)
    scores = module(image)

The packages are layered: a file imports only from packages further down (tests/test_layers.py).

    demo, doctor  the command line: a guided demo, a check of this installation
    show        the command line: every stage of a formula, an operator or a network
    tuning      the command line: searches for fast schedules, their logs and reports
    net         the command line: a network, compiled, measured, and its report
    course      predictions: a notebook asks for a guess before it shows an answer
    edu         exercises: built, checked, graded
    viz         pictures and widgets, imported on first use
    graph       networks: rewritten, fused, laid out, compiled to one function
    auto_scheduler  sketches derived by rules, for computations without a template
    autotvm     templates with knobs, tuners, tuned operators
    tune        candidates as rows of integers: measured, recorded, learned from
    vta         programming the accelerator
    testing     random programs and schedules, comparisons, peak rates of the machine
    accesses    what a program reads and writes, in which order
    driver      lower(), build()
    codegen     the targets: loops -> LLVM, Python, numba, instructions of the accelerator
    runtime     compiled functions, arrays, threads
    topi        operators, each with a good schedule
    te          the user's notation: formulas and schedules
    explain     why each bound and guard is there, what is likely slow
    lowering    schedule -> loops: bounds, nests, passes
    schedule    immutable schedule states, and the steps that change them
    tensor      formulas
    tir         the loop IR, its verifier and its interpreter
    accel       the accelerator: instructions, simulator, verifier
    cachesim    simulated caches, reuse distances
    workers     child processes that run jobs under time and memory limits
    base        errors, dtypes, targets
"""

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if sys.argv[:1] == ["-m"] and "minitvm.edu" in sys.orig_argv and not sys.flags.safe_path:
    # `python -m minitvm.edu grade .` must not import the modules that students handed in
    sys.path[:1] = [_ROOT] if os.path.realpath(sys.path[0]) == _ROOT else []

import importlib
from types import ModuleType
from typing import Any

from minitvm import te, tir, topi
from minitvm.base import (
    ArgumentError,
    BuildError,
    ExprError,
    GraphError,
    LoweringError,
    MeasureError,
    ScheduleError,
    Target,
    TVMError,
    VerifyError,
    name_missing,
    target,
)
from minitvm.driver import build, lower
from minitvm.runtime import Device, Function, cpu, device, load, nd, num_threads, set_num_threads
from minitvm.tir import register_func

__version__ = "0.1.0"
__all__ = [
    "ArgumentError",
    "BuildError",
    "Device",
    "ExprError",
    "Function",
    "GraphError",
    "LoweringError",
    "MeasureError",
    "ScheduleError",
    "TVMError",
    "Target",
    "VerifyError",
    "build",
    "cpu",
    "device",
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

LATE = (  # imported on first use
    *("accesses", "auto_scheduler", "autotvm", "cachesim", "course", "edu", "graph", "net"),
    *("show", "testing", "tune", "tuning", "viz", "vta"),
)
TALK = {  # tvm.compiler.build and tvm.frontend.from_keras, as the talk about TVM spells them
    "compiler": "graph",
    "frontend": "graph.frontend",
}
OLDER: dict[str, tuple[ModuleType, str]] = {  # tvm.compute, as TVM 0.5 and the lectures spell it
    **{name: (te, name) for name in te.__all__},
    "call_extern": (tir, "call_extern"),
    "call_packed": (tir, "call_packed"),
    "decl_buffer": (tir, "decl_buffer"),
    "ir_builder": (tir, "ir_builder"),
    "likely": (tir, "likely"),
    "select": (tir, "Select"),
}


def __getattr__(name: str) -> Any:
    """Return the attribute `name`: a package imported on first use, or a name of te or tir."""
    if name in LATE or name in TALK:
        return importlib.import_module(f"minitvm.{TALK.get(name, name)}")
    if name in OLDER:
        package, known = OLDER[name]
        return getattr(package, known)
    raise name_missing("tvm", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*__all__, *LATE, *TALK, *OLDER})
