"""Lower, build, simulate and verify programs for the accelerator."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from minitvm import accel, driver, lowering, runtime, te, tir
from minitvm.base import ArgumentError, Target, check_kind


def lower(s: te.Schedule, args: Sequence[Any], name: str = "main", **options: Any) -> tir.PrimFunc:
    """Lower a schedule for the current accelerator, as tvm.lower(..., target="vta") does.

    target   accepted for compatibility with TVM
    """
    _check_target(options.pop("target", None))
    return driver.lower(s, args, name, target="vta", **options)


def build(
    s: te.Schedule | tir.PrimFunc,
    args: Sequence[Any] = (),
    target: Any = None,
    target_host: Any = None,
    name: str = "main",
) -> runtime.AcceleratorFunction:
    """Build a function that runs on the accelerator, as tvm.build(..., target="vta") does.

    A schedule is built for the current accelerator, a lowered program for the accelerator for which
    it was lowered. target and target_host are accepted for compatibility with TVM. f.warnings()
    returns the warnings of a function f.
    """
    del target_host
    _check_target(target)
    function = driver.build(s, args, "vta", name)
    assert isinstance(function, runtime.AcceleratorFunction)
    return function


def build_config(debug_flag: int = 0, **options: Any) -> AbstractContextManager[None]:
    """Return a context that changes nothing: vta.build always runs the passes for VTA.

    Raises ArgumentError for options, because they configure passes of TVM that do not exist here.
    """
    if debug_flag or options:
        all_options = {"debug_flag": debug_flag, **options}
        shown = ", ".join(f"{k}={v!r:.30}" for k, v in all_options.items())
        fix = 'build_config(); f.source("vta") shows the instructions, vta.lower takes passes='
        raise ArgumentError(f"build_config({shown})", "no pass of minitvm has such an option", fix)
    return nullcontext()


def _check_target(target: Any) -> None:
    """Raise ArgumentError if `target` is neither None nor a target of the accelerator."""
    kind = target.kind if isinstance(target, Target) else str(target).partition(" ")[0]
    if target is not None and kind not in ("vta", "ext_dev"):
        why = "vta.lower and vta.build are for the accelerator only"
        fix = 'leave out target, or tvm.build(s, args, target); name="main" names the function'
        raise ArgumentError(f"target={reprlib.repr(target)}", why, fix)


def simulate(
    program: accel.Program | runtime.AcceleratorFunction,
    config: accel.Config | None = None,
    inputs: Mapping[str, Any] | None = None,
    *,
    order: Sequence[int] | np.random.Generator | None = None,
) -> accel.Run:
    """Simulate a program or function; return cycles, trace, counters and, with `inputs`, outputs.

    config   the machine; by default, the machine of a function, or for a program the current one
    inputs   one array for each area of main memory, by name
    order    the order in which instructions take effect: see accel.execute

    Raises ArgumentError for addresses that do not exist. A deadlock is a result, not an error.
    """
    if not isinstance(inputs, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        why = "not a dict of arrays by name"
        raise ArgumentError(f"inputs={reprlib.repr(inputs)}", why, '{"A": a, "B": b}')
    return accel.simulate(*_code_and_machine(program, config), inputs, order=order)


def verify(
    program: accel.Program | runtime.AcceleratorFunction, config: accel.Config | None = None
) -> accel.Verdict:
    """Check a program or function for deadlocks, leftover tokens, races and hazards."""
    return accel.verify(*_code_and_machine(program, config))


def _code_and_machine(program: Any, config: Any) -> tuple[accel.Program, accel.Config]:
    """Return the program and the machine: `config`, or by default the one of a function."""
    if isinstance(program, runtime.AcceleratorFunction):
        return program.program, program.machine(config)
    if not isinstance(program, accel.Program):
        why = "not a program for the accelerator"
        raise ArgumentError(reprlib.repr(program), why, "vta.build(s, args).program")
    config = lowering.machine() if config is None else config
    return program, check_kind("config", config, accel.Config, fix="vta.vta_pynq")
