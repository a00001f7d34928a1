"""Load the code of a stored function."""

from __future__ import annotations

from minitvm.base import BuildError

from .export import Package, check_machine
from .jit import load_object
from .loading import NativeRun, Run, load_python, provided
from .numba_load import load_numba


def run_of(package: Package, what: str) -> Run:
    """Load the code of a package and return its function; errors begin with `what`.

    Raises BuildError if the code was made for another CPU or operating system.
    """
    match package.target.kind:
        case "llvm":
            check_machine(package.machine, what)
            symbols = provided(package.calls)
            machine = load_object(package.code, symbols=symbols, calls=package.calls)
            return NativeRun(package.func, machine, package.entry)
        case "numba":
            return load_numba(package.code.decode(), package.target.num_cores)
        case "python":
            return load_python(package.code.decode())
        case kind:
            raise BuildError(what, f"functions of target {kind} cannot be stored")
