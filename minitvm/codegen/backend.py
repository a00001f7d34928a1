"""`Backend` records how one kind of target lowers, prints and loads a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from minitvm import lowering, runtime, tir
from minitvm.base import Target, debug

from .common import check_memories

Emitted = TypeVar("Emitted")


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A lowered program to be built.

    isolate   whether to compile in another process
    scalar    a function that returns the same program with plain loops in place of vectors
    prepack   the compiled func.prepack, or None
    """

    func: tir.PrimFunc
    target: Target
    isolate: bool
    scalar: Callable[[], tir.PrimFunc]
    prepack: runtime.Function | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(Generic[Emitted]):
    """The functions and properties that define one kind of target, such as "llvm".

    passes        the passes that lower a program for the target
    emit          emits a program as text or instructions
    load          makes a function from the emitted program
    machine       returns the machine that a program is lowered for; None if the target has just one
    check         raises BuildError if the target cannot run a program; by default the check of CPUs
    prepacks      whether what depends on constants only becomes a program of its own, func.prepack
    isolates      whether the target can compile in another process
    bench         returns what another process needs to run and measure a program: the job, and the
                  code as texts; None if the target has no code for another process
    """

    passes: tuple[lowering.Pass, ...]
    emit: Callable[[tir.PrimFunc, Target], Emitted]
    load: Callable[[BuildRequest, Emitted], runtime.Function]
    machine: Callable[[], Hashable] = lambda: None
    check: Callable[[tir.PrimFunc, Target], None] = check_memories
    prepacks: bool = True
    isolates: bool = False
    bench: Callable[[tir.PrimFunc, Target], tuple[runtime.Job, list[str]]] | None = None


def python_function(request: BuildRequest, text: str, run: runtime.Run) -> runtime.Function:
    """Return the function of a program, where `run` calls the code compiled from `text`."""
    debug(5, text)
    func = request.func
    sources = {"tir": lambda: str(func), "python": lambda: text}

    def package() -> runtime.Package:
        texts = {"tir": str(func), "python": text}
        return runtime.Package(func, request.target, text.encode(), texts)

    return runtime.Function(func, run, sources, package, prepack=request.prepack)
