"""A program of the accelerator as a function: it runs on the simulator, and is timed by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm.accel import Config, Memory, Program, execute, simulate
from minitvm.accel import Run as Simulation
from minitvm.base import ArgumentError, MeasureError
from minitvm.tir import Buffer, PrimFunc

from .function import Function, Times, is_count


@dataclass(frozen=True, slots=True)
class SimulatedTimes(Times):
    """Seconds that the accelerator would take: `cycles` at its clock, the same in every repeat."""

    cycles: int

    def __str__(self) -> str:
        return f"{self.cycles} cycles, {self.min * 1e3:.4g} ms on the accelerator"


class AcceleratorFunction(Function):
    """A kernel of target "vta": called as others are, with packed arrays; simulated bit by bit.

    program   its instructions, micro-operations and areas of main memory
    config    the machine it was built for
    """

    def __init__(
        self,
        func: PrimFunc,
        program: Program,
        config: Config,
        sources: Mapping[str, Callable[[], str]],
    ) -> None:
        super().__init__(func, self._execute, sources)
        self.program, self.config = program, config

    def run(self, config: Config | None = None) -> Simulation:
        """Cycles, trace and counters; on a machine with the same buffers but other times, if given.

        Raises ArgumentError if the program does not fit that machine.
        """
        if not isinstance(config, Config | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"run({config!r:.60})", "it is no Config", "vta.vta_pynq")
        return simulate(self.program, config or self.config)

    def time_evaluator(
        self,
        name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        timer: Callable[[], float] = time.perf_counter,
    ) -> Callable[..., SimulatedTimes]:
        """A function of the same arguments that returns the seconds of the simulated accelerator.

        Cycles do not vary: however often it is asked for, the program is timed once, and not run.
        number, min_repeat_ms and timer are accepted because other targets take them.
        """
        del dev, number, min_repeat_ms, timer
        if name not in (None, self.name, "main") or not is_count(repeat):
            raise MeasureError(
                f"time_evaluator({name!r}, repeat={repeat!r})",
                f"the function is {self.name!r}, counts are >= 1",
            )

        def evaluate(*args: Any) -> SimulatedTimes:
            self._checked(args)
            cycles = self.run().cycles
            return SimulatedTimes((cycles / self.config.clock_hz,) * repeat, cycles)

        return evaluate

    def _execute(self, arrays: list[Any]) -> None:
        """Run the program on arrays, one for each area."""
        inputs: dict[str, Any] = {}
        for area, a in zip(self.program.areas, arrays, strict=True):
            element = self.config.element_shape(area.memory)
            inputs[area.name] = a.reshape(area.shape + element)
        outputs = execute(self.program, self.config, inputs)
        for area, p, a in zip(self.program.areas, self.func.params, arrays, strict=True):
            if area.memory is Memory.OUT and isinstance(p, Buffer):
                np.copyto(a, outputs[area.name].reshape(a.shape))
