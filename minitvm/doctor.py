"""Report what is installed, what this machine is, and which targets work here."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from minitvm import driver, te
from minitvm.base import Host, TVMError, amx_permitted, amx_products, host, target

CORE = ("numpy", "llvmlite", "psutil")  # nothing runs without these
NOTEBOOKS = ("numba", "xgboost", "matplotlib", "ipywidgets", "anywidget", "jupyterlab", "tqdm")
OPTIONAL = {
    "nbval": "pip install -e '.[test]' to run the tests",
    "numba-cuda": "pip install -e '.[cuda]' for NVIDIA GPUs",
    "distributed": "pip install -e '.[dist]' to grade or measure on a cluster",
    "onnx": "pip install -e '.[onnx]' to read networks",
    "torch": "pip install -e '.[torch]' to compare with it",
}
GPU = {  # what target "cuda" offers -> its target, the form of its code, what it is
    "cuda -sim": ("cuda -sim", "", "a simulated GPU, which finds races"),
    "cuda, PTX": ("cuda", "ptx", "kernels compiled for a GPU, without one"),
    "cuda, SASS": ("cuda", "sass", "their machine code, registers and occupancy"),
    "cuda": ("cuda", "", "kernels on a GPU; tested with numba's simulator only"),
}
REPAIRS = {"xgboost": "on macOS: brew install libomp"}  # what pip does not install
IMPORT = """
import importlib, sys
try:
    importlib.import_module(sys.argv[1])
except BaseException as e:
    sys.exit(type(e).__name__ + ": " + " ".join(str(e).split())[:300])
"""
SECONDS = 120  # time limit of an import; the slowest takes a few seconds


def run(say: Callable[[str], None] = print) -> bool:
    """Report on this installation, one `say` call per line; return whether the core works.

    The core works if the packages in CORE can be imported and every CPU target runs a small
    program.
    """
    say(f"minitvm {installed('minitvm')}, Python {platform.python_version()}, {sys.platform}")
    say("\npackages")
    names = (*CORE, *NOTEBOOKS, *OPTIONAL)
    with ThreadPoolExecutor() as pool:
        unusable = dict(zip(names, pool.map(import_fault, names), strict=True))
    for name, why in unusable.items():
        say(f"  {name:12}{' '.join(filter(None, (installed(name), why)))}")
    say("\nmachine")
    for line in machine(host()):
        say(f"  {line}")
    say("\ntargets")
    faults = {kind: fault(kind) for kind, can in target.KINDS.items() if can.cpu}
    for kind, reason in faults.items():
        say(f"  {kind:12}{reason or 'works'}  ({target.KINDS[kind].what})")
    for name, (kind, code, what) in GPU.items():
        say(f"  {name:12}{fault(kind, code) or 'works'}  ({what})")
    bad = [name for name in names if unusable[name] and (name not in OPTIONAL or installed(name))]
    good = not any(faults.values()) and not set(CORE) & set(bad)
    if good and bad:
        say(f"\nthe core works, but not {', '.join(bad)}: see above")
    else:
        say("\neverything works: make lab" if good else "\nthe core does not work: see above")
    return good


def import_fault(package: str) -> str:
    """Import a package in a child process; return why that fails and what to try, or ""."""
    if not installed(package):
        optional = OPTIONAL.get(package)
        return f"not installed (optional: {optional})" if optional else "missing: pip install -e ."
    command = [sys.executable, "-c", IMPORT, package.replace("-", "_")]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"no answer within {SECONDS} seconds"
    else:
        if ran.returncode == 0:
            return ""
        last = ran.stderr.strip().split("\n")[-1]
        why = f"{last} (exit status {ran.returncode})".strip()  # negative: the number of a signal
    fixes = filter(None, (REPAIRS.get(package), f"pip install --force-reinstall {package}"))
    return f"cannot be imported: {why}; try: {', or '.join(fixes)}"


def installed(package: str) -> str:
    """Return the installed version of a package; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def machine(here: Host) -> list[str]:
    """Describe the CPU, vector unit and caches that schedules rely on, one line each."""
    return [
        f"CPU         {here.cpu}, {here.cores} cores for this process",
        f"vectors     {here.vector_bytes // 4} floats wide, {here.vector_registers} registers, "
        f"fused multiply-add: {'yes' if here.fma else 'no'}",
        f"matrix unit {_matrix_unit(here)}",
        f"caches      {here.l1 >> 10} KB, {here.l2 >> 10} KB, {here.l3 >> 10} KB",
    ]


def _matrix_unit(here: Host) -> str:
    products = sorted(amx_products(here.features))
    if not products:
        return "none"
    refused = "" if amx_permitted() else "; the system does not let this process use it"
    return f"AMX, products of {', '.join(products)}{refused}"


def fault(kind: str, code: str = "") -> str:
    """Run a small program on the target `kind`; return why it fails, or "" if it works.

    With a form of its code, such as "ptx", the program is compiled to that instead of run.
    """
    n = 8
    A = te.placeholder((n,), name="A")

    def formula(i: Any) -> Any:
        return A(i) * 2 + 1

    B = te.compute((n,), formula, name="B")
    s = te.create_schedule(B.op)
    if kind.startswith("cuda"):
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    a, b = np.arange(n, dtype="float32"), np.zeros(n, "float32")
    try:
        f = driver.build(s, [A, B], target=kind)
        if code:
            return "" if f.source(code) else "does not work: it has no code"
        f(a, b)
    except (TVMError, RuntimeError, OSError) as e:
        return f"does not work: {' '.join(str(e).split())}"
    return "" if np.array_equal(b, a * 2 + 1) else "does not work: it computes wrong numbers"
