"""The target "vta": programs of the accelerator, which the simulator runs."""

from __future__ import annotations

from dataclasses import replace

from minitvm import accel, lowering, runtime, tir
from minitvm.base import BuildError, Target, debug, debug_level

from ..backend import Backend, BuildRequest
from .emit import emit_vta
from .passes import PASSES


def _emit(func: tir.PrimFunc, _target: Target) -> accel.Program:
    return emit_vta(func, _config(func))


def _load(request: BuildRequest, program: accel.Program) -> runtime.AcceleratorFunction:
    """Return the function of a program; raise BuildError if tokens leave accesses unordered."""
    func, config = request.func, _config(request.func)
    # f.warnings() reports other faults: hazards of some machines, and uninitialised reads in
    # programs that are only timed, such as those of a mock
    verdict = replace(accel.verify(program, config), hazards=(), uninitialised=())
    if not verdict.ok:
        faults = accel.explain(program, verdict).splitlines()
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        fix = "run the passes in the order assign_units, inject_coproc_sync, inject_virtual_thread"
        raise BuildError(f"{func.name} on {config.name}", faults[0] + more, fix)
    sources = {"tir": lambda: str(func), "vta": lambda: accel.listing(program, config)}
    if debug_level() >= 5:
        debug(5, sources["vta"]())
    return runtime.AcceleratorFunction(func, program, config, sources)


def _config(func: tir.PrimFunc) -> accel.Config:
    """Return the machine that `func` was lowered for."""
    return func.machine if isinstance(func.machine, accel.Config) else lowering.machine()


VTA = Backend(
    passes=PASSES,
    emit=_emit,
    load=_load,
    machine=lowering.machine,
    check=lambda func, target: None,  # its passes refuse what it cannot run
    prepacks=False,
)
