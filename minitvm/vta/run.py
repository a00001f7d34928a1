"""Running and judging programs for the accelerator, and the functions that are built from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minitvm import accel, driver
from minitvm.accel import Config, Program, Run, Verdict
from minitvm.base import ArgumentError
from minitvm.lowering import machine
from minitvm.runtime import AcceleratorFunction
from minitvm.te import Schedule
from minitvm.tir import PrimFunc


def lower(s: Schedule, args: Sequence[Any], name: str = "main", **options: Any) -> PrimFunc:
    """The program for the accelerator, printable: tvm.lower(..., target="vta")."""
    return driver.lower(s, args, name, target="vta", **options)


def build(
    s: Schedule | PrimFunc,
    args: Sequence[Any] = (),
    target: Any = None,
    target_host: Any = None,
    name: str = "main",
) -> AcceleratorFunction:
    """The function that runs on the accelerator: tvm.build(..., target="vta").

    target and target_host are accepted for TVM's sake.
    """
    del target, target_host
    made = driver.build(s, args, "vta", name)
    assert isinstance(made, AcceleratorFunction)
    return made


def simulate(
    program: Program | AcceleratorFunction,
    config: Config | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Run:
    """Outputs (if `inputs` are given), cycles, trace and counters of a program or of a function.

    config   the machine; by default the one a function was built for, else the one chosen now
    inputs   one array for each area of main memory
    Raises ArgumentError for addresses that do not exist. A deadlock is a result.
    """
    return accel.simulate(*_judged(program, config), inputs)


def verify(program: Program | AcceleratorFunction, config: Config | None = None) -> Verdict:
    """Deadlocks, tokens left over, races and hazards of a program or of a function."""
    return accel.verify(*_judged(program, config))


def _judged(given: Any, config: Any) -> tuple[Program, Config]:
    """The program, and the machine it is for."""
    code = given.program if isinstance(given, AcceleratorFunction) else given
    if not isinstance(code, Program):
        raise ArgumentError(
            f"{given!r:.60}", "it is no program for the accelerator", "vta.build(s, args).program"
        )
    if config is None:
        config = given.config if isinstance(given, AcceleratorFunction) else machine()
    if not isinstance(config, Config):
        raise ArgumentError(f"config={config!r:.60}", "it is no Config", "vta.vta_pynq")
    return code, config
