"""A program of the accelerator as a function: it runs on the simulator, and is timed by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from minitvm import accel, tir
from minitvm.base import ArgumentError, MeasureError, check_kind

from .arguments import Arguments
from .function import Function, Times, is_count


@dataclass(frozen=True, slots=True)
class SimulatedTimes(Times):
    """Simulated seconds per call: `cycles` at the accelerator's clock, equal in every repeat."""

    cycles: int

    def __str__(self) -> str:
        return f"{self.cycles} cycles, {self.min * 1e3:.4g} ms on the accelerator"


class _Profile:
    """The sums of the counters of all calls; calls may come from several threads."""

    def __init__(self) -> None:
        self.lock, self.sums = Lock(), accel.Counters()

    def add(self, more: accel.Counters) -> None:
        """Add the counters of one call."""
        with self.lock:
            old = asdict(self.sums)
            self.sums = accel.Counters(**{name: old[name] + n for name, n in asdict(more).items()})

    def clear(self) -> None:
        """Begin from 0."""
        with self.lock:
            self.sums = accel.Counters()


_PROFILE = _Profile()


def profiled() -> accel.Counters:
    """Return what all calls of functions of target "vta" have moved and computed."""
    return _PROFILE.sums


def reset_profile() -> None:
    """Set the sums of profiled() to 0."""
    _PROFILE.clear()


class PackedArguments(Arguments):
    """The arguments of a program for the accelerator: arrays in blocks."""

    def __init__(self, func: tir.PrimFunc, program: accel.Program, config: accel.Config) -> None:
        super().__init__(func)
        self._program, self._config = program, config

    def _check_kind(self, p: tir.Buffer, a: Any, fixed: Any) -> None:
        """Check dtype and shape; suggest vta.pack for an array that is not in blocks."""
        (area,) = (a for q, a in zip(self._func.params, self._program.areas, strict=True) if q is p)
        blocks = self._config.element_shape(area.memory)
        if fixed is None or (a.dtype, a.size) != (fixed[1], math.prod(fixed[0])):
            return super()._check_kind(p, a, fixed)
        if a.ndim >= len(blocks) and fixed[0][-len(blocks) :] == blocks:
            sizes = ", ".join(map(str, blocks))
            fix = f"vta.pack({p.name}, {sizes}); a reshape alone moves no numbers"
            self._unfit(p, f"has shape {a.shape}, not {fixed[0]}", fix)
        return super()._check_kind(p, a, fixed)


class AcceleratorFunction(Function):
    """A kernel of target "vta": called as others are, with packed arrays; simulated bit by bit.

    program   its instructions, micro-operations and areas of main memory
    config    the machine it was built for
    """

    def __init__(
        self,
        func: tir.PrimFunc,
        program: accel.Program,
        config: accel.Config,
        sources: Mapping[str, Callable[[], str]],
    ) -> None:
        arguments = PackedArguments(func, program, config)
        super().__init__(func, self._execute, sources, arguments=arguments)
        self.program, self.config = program, config

    @cached_property
    def _per_call(self) -> accel.Counters:
        """Return the counters of one call."""
        return accel.counters(self.program, self.config)

    def run(self, config: accel.Config | None = None) -> accel.Run:
        """Cycles, trace and counters; on a machine with the same blocks but other times, if given.

        Raises ArgumentError if the program does not fit that machine.
        """
        return accel.simulate(self.program, self.machine(config))

    def machine(self, config: accel.Config | None = None) -> accel.Config:
        """The machine that it was built for, or `config`, if elements have the same sizes there.

        Raises ArgumentError if they have not: what its instructions address would be elsewhere.
        """
        if config is None:
            return self.config
        check_kind("config", config, accel.Config, fix="vta.vta_pynq")
        built, given = _blocks(self.config), _blocks(config)
        if built != given:
            raise ArgumentError(
                f"{self.name} on {config.name}",
                f"it is built for {self.config.name}: "
                + ", ".join(f"{k}={n}, not {given[k]}" for k, n in built.items() if n != given[k]),
                f"with vta.Environment({config.name}): lower and build it again",
            )
        return config

    def warnings(self) -> tuple[str, ...]:
        """Return what vta.verify reports though build accepts it.

        Hazards: GEMM reads an accumulator before it adds to it, and three steps later the sum is
        there. Like VTA, build refuses what comes too early inside a list of micro-operations and
        not what does in the two loops around it, so it accepts the reduction innermost, which VTA's
        own tutorial on blocking has; hardware gets it wrong.
        Uninitialised reads, as of a program whose transfers are skipped to time the rest, and
        stores of what was loaded and not computed.
        """
        found = accel.verify(self.program, self.config)
        kept = accel.Verdict(
            hazards=found.hazards, uninitialised=found.uninitialised, stale=found.stale
        )
        return (
            tuple(accel.explain(self.program, kept).splitlines()) if kept != accel.Verdict() else ()
        )

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
        outputs = accel.execute(self.program, self.config, inputs)
        _PROFILE.add(self._per_call)
        for area, p, a in zip(self.program.areas, self.func.params, arrays, strict=True):
            if area.memory is accel.Memory.OUT and isinstance(p, tir.Buffer):
                np.copyto(a, outputs[area.name].reshape(a.shape))


def _blocks(config: accel.Config) -> dict[str, int]:
    """What the sizes of elements depend on."""
    return {name: getattr(config, name) for name in ("batch", "block_in", "block_out")}
