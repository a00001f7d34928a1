"""Functions of target "vta": programs that the accelerator's simulator runs and times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from minitvm import accel, tir
from minitvm.base import ArgumentError, MeasureError, check_kind

from .arguments import Arguments
from .function import Function, Times


@dataclass(frozen=True, slots=True)
class SimulatedTimes(Times):
    """Simulated seconds per call (`cycles` divided by the clock rate), equal in all repeats."""

    cycles: int

    def __str__(self) -> str:
        return f"{self.cycles} cycles, {self.min * 1e3:.4g} ms on the accelerator"


_counting = Lock()  # calls may come from several threads
_calls: Counter[str] = Counter()  # the sums of accel.Counters over all calls


def profiled() -> accel.Counters:
    """Return the counters summed over all calls of functions of target "vta"."""
    with _counting:
        return accel.Counters(**_calls)


def reset_profile() -> None:
    """Set the sums of profiled() to 0."""
    with _counting:
        _calls.clear()


class PackedArguments(Arguments):
    """The argument checks of a program for the accelerator, whose arrays are in blocks."""

    def __init__(self, func: tir.PrimFunc, program: accel.Program, config: accel.Config) -> None:
        super().__init__(func)
        self._program, self._config = program, config

    def _check_kind(self, p: tir.Buffer, a: Any, fixed: Any) -> None:
        """Raise ArgumentError for a wrong dtype or shape; suggest vta.pack for unpacked arrays."""
        (area,) = (a for q, a in zip(self._func.params, self._program.areas, strict=True) if q is p)
        blocks = self._config.element_shape(area.memory)
        if fixed is None or (a.dtype, a.size) != (fixed[1], math.prod(fixed[0])):
            return super()._check_kind(p, a, fixed)
        if a.ndim >= len(blocks) and fixed[0][-len(blocks) :] == blocks:
            sizes = ", ".join(map(str, blocks))
            fix = f"vta.pack({p.name}, {sizes}); a reshape does not reorder the numbers"
            self._unfit(p, f"has shape {a.shape}, not {fixed[0]}", fix)
        return super()._check_kind(p, a, fixed)


class AcceleratorFunction(Function):
    """A kernel of target "vta": it takes packed arrays, and the simulator computes its results.

    program   the instructions, micro-operations and areas of main memory
    config    the machine for which it was built
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
    def whole_run(self) -> accel.Run:
        """The run of one call, without data; raises MeasureError if the program deadlocks."""
        run = self.run()
        if run.blocked:
            why = f"it deadlocks: {'; '.join(map(str, run.blocked))}"
            raise MeasureError(self.name, why, "vta.verify(f)")
        return run

    def run(self, config: accel.Config | None = None) -> accel.Run:
        """Simulate a call without data and return its cycles, trace and counters.

        config   another machine with elements of the same sizes, such as one with another clock
        Raises ArgumentError if the program does not fit that machine.
        """
        return accel.simulate(self.program, self.machine(config))

    def machine(self, config: accel.Config | None = None) -> accel.Config:
        """Return `config` or, if it is None, the machine for which the function was built.

        Raises ArgumentError if the elements of `config` have other sizes, because the addresses in
        the instructions would be wrong.
        """
        if config is None:
            return self.config
        check_kind("config", config, accel.Config, fix="vta.vta_pynq")
        built, other_blocks = _blocks(self.config), _blocks(config)
        if built != other_blocks:
            sizes = ", ".join(
                f"{k}={n}, not {other_blocks[k]}" for k, n in built.items() if n != other_blocks[k]
            )
            why = f"it is built for {self.config.name}: {sizes}"
            fix = f"with vta.Environment({config.name}): lower and build it again"
            raise ArgumentError(f"{self.name} on {config.name}", why, fix)
        return config

    def warnings(self) -> tuple[str, ...]:
        """Return a message for each fault that vta.verify finds but build accepts.

        Hazards: an accumulator is updated again less than three steps after its last update, so
        the hardware reads the old value. Like VTA, build refuses such updates within a list of
        micro-operations, but not between iterations of the two loops around the list, because VTA's
        tutorial on blocking has the reduction innermost.
        Uninitialised reads, as in a program whose transfers are skipped to time the rest.
        Stores of accumulators that were loaded but not computed.
        """
        verdict = accel.verify(self.program, self.config)
        accepted = accel.Verdict(
            hazards=verdict.hazards, uninitialised=verdict.uninitialised, stale=verdict.stale
        )
        if accepted == accel.Verdict():
            return ()
        return tuple(accel.explain(self.program, accepted).splitlines())

    def _timed(
        self, args: list[Any], count: int, repeat: int, least_ms: float, timer: Callable[[], float]
    ) -> SimulatedTimes:
        """Return `repeat` equal times: one simulation is enough, because cycles do not vary."""
        del args, count, least_ms, timer
        cycles = self.whole_run.cycles
        return SimulatedTimes((cycles / self.config.clock_hz,) * repeat, cycles)

    def _execute(self, arrays: list[Any]) -> None:
        """Run the program on arrays, one for each area of main memory."""
        inputs: dict[str, Any] = {}
        for area, a in zip(self.program.areas, arrays, strict=True):
            element = self.config.element_shape(area.memory)
            inputs[area.name] = a.reshape(area.shape + element)
        counters = self.whole_run.counters
        outputs = accel.execute(self.program, self.config, inputs)
        with _counting:
            _calls.update(asdict(counters))
        for area, p, a in zip(self.program.areas, self.func.params, arrays, strict=True):
            if area.memory is accel.Memory.OUT and isinstance(p, tir.Buffer):
                np.copyto(a, outputs[area.name].reshape(a.shape))


def _blocks(config: accel.Config) -> dict[str, int]:
    """Return the parameters of `config` that determine the sizes of elements."""
    return {name: getattr(config, name) for name in ("batch", "block_in", "block_out")}
