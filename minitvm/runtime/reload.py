"""A stored function becomes one that runs."""

from __future__ import annotations

from minitvm.base import BuildError
from minitvm.codegen import clean

from .export import File, Package, check_machine, read
from .function import Function, Run
from .jit import load_object
from .load import bind, load_python, provided
from .numba_load import load_numba


def load(path: File) -> Function:
    """The function that f.export(path) has stored, ready to call; nothing of llvm is compiled.

    It checks its arguments as f does. It runs the code in the file: load only what you trust.
    Raises ArgumentError if there is no such file; BuildError if it is damaged, or made for another
    CPU, operating system or version.
    """
    package = read(path)
    run = _run(package, f"load({str(path)!r})")
    sources = {kind: (lambda text=text: text) for kind, text in package.sources.items()}
    return Function(package.func, run, sources, lambda: package)


def _run(package: Package, what: str) -> Run:
    """The code of a package, loaded."""
    match package.target.kind:
        case "llvm":
            check_machine(package.machine, what)
            symbols = provided(package.calls)
            machine = load_object(package.code, symbols=symbols, calls=package.calls)
            return bind(package.func, machine, clean(package.func.name))
        case "numba":
            return load_numba(package.code.decode(), package.target.num_cores)
        case "python":
            return load_python(package.code.decode())
        case kind:
            raise BuildError(what, f"functions of target {kind} are not stored")
