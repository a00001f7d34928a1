"""Measure programs in modelled cycles, in this process: for "cuda -sim" and for the accelerator.

program() -> kernels      -> counters of the simulated GPU -> cycles, right or not
program() -> instructions -> simulated on data             -> cycles, right or not

The cycles come from simt.cycles, or from the timing model of the accelerator. They are exact
repeats of each other, and have nothing to do with the time that a simulation takes.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from minitvm import accel, codegen, driver, lowering, runtime, schedule, simt, tir
from minitvm.base import ArgumentError, MeasureError, Target, TVMError

from .builder import Program, lowered
from .inputs import Array, arguments, checked, draw, expected_of, tolerance, unwritten
from .legal_gpu import MAX_STEPS
from .trial import Result

SLOWER = 8  # any program may take this many times as many steps as the reference


class Run(NamedTuple):
    """A simulated run: its outputs, its cycles, and what is wrong with it; "" if nothing is."""

    outputs: list[Array]
    cycles: float
    fault: str = ""


class Simulated(ABC):
    """Runs programs for one formula on a simulator; the arguments are those of the subclasses."""

    def __init__(
        self,
        reference: tir.PrimFunc,
        inputs: Sequence[Array] | None,
        rng: np.random.Generator | None,
    ) -> None:
        self._func, self._parameters = reference, arguments(reference, inputs)
        self._inputs: Sequence[Array] = (
            draw(self._parameters, rng or np.random.default_rng(0))
            if inputs is None
            else checked(inputs, self._parameters)
        )
        self._expected: list[Array] = []
        self._limits: list[Array] = []
        self._cycles = math.inf

    @property
    def reference_cost(self) -> float:
        """Return the cycles of the reference; raise MeasureError if it cannot run."""
        if math.isinf(self._cycles):
            self._run_reference()
        return self._cycles

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order; a failure is a result too."""
        _ = self.reference_cost
        for program in programs:
            yield self._measured(program, verify=False)

    def remeasure(self, programs: Sequence[Program]) -> list[Result]:
        """Measure and verify programs; the result of the reference is last."""
        reference = Result(cycles=(self.reference_cost,))
        return [*(self._measured(program, verify=True) for program in programs), reference]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027  there is nothing to close
        pass

    def _measured(self, program: Program, *, verify: bool) -> Result:
        start = time.perf_counter()
        func = lowered(program)
        if isinstance(func, Result):
            return func
        built = time.perf_counter()
        if refusal := self._refusal(func):
            return Result((), "run time-out", refusal, built - start)
        try:
            run = self._simulated(func, verify=verify)
        except TVMError as e:
            return Result((), "compile", str(e), built - start)
        seconds = built - start, time.perf_counter() - built
        if wrong := run.fault or self._wrong(run.outputs):
            return Result((), "wrong answer", wrong, *seconds)
        return Result((), "", "", *seconds, cycles=(run.cycles,))

    def _wrong(self, outputs: Sequence[Array]) -> str:
        """Describe the first wrong element of the outputs; "" if all are right."""
        parameters = (p for p in self._parameters if p.kind == "output")
        rows = zip(parameters, outputs, self._expected, self._limits, strict=False)
        for p, a, expected, limits in rows:
            if difference := runtime.difference(a, expected, limits):
                return f"{p.name}{difference}"
        return ""

    @abstractmethod
    def _run_reference(self) -> None:
        """Set the cycles of the reference, its outputs, and how much others may differ."""

    @abstractmethod
    def _simulated(self, func: tir.PrimFunc, *, verify: bool) -> Run:
        """Run a program; with `verify`, also look for accesses that nothing orders."""

    def _refusal(self, func: tir.PrimFunc) -> str:
        """Return why a program takes too long to simulate; "" if it does not."""
        return ""


class SimulatedGpu(Simulated):
    """Runs programs for one formula on the simulated GPU, and models their cycles.

    A trial runs all blocks and compares the outputs, because alike blocks with wrong edges are a
    common fault. The last measurements of a search also look for races.

    reference   a program that computes the expected outputs
    inputs      the arguments that are not outputs, in order; by default random arrays
    check       whether to compare the outputs with those of the reference
    steps       the most steps of a program; more are refused, because a few threads do all the work
    """

    def __init__(
        self,
        reference: tir.PrimFunc,
        target: str | Target = "cuda -sim",
        *,
        inputs: Sequence[Array] | None = None,
        rng: np.random.Generator | None = None,
        check: bool = True,
        steps: int = MAX_STEPS,
    ) -> None:
        if not Target(target).sim:
            raise ArgumentError(f"simulation of {target}", "it has no simulator", "cuda -sim")
        super().__init__(reference, inputs, rng)
        self._is_given = inputs is not None
        self._tolerance = tolerance(reference) if check else None
        self._steps = max(steps, SLOWER * count_steps(reference))

    def _refusal(self, func: tir.PrimFunc) -> str:
        steps = count_steps(func)
        if steps <= self._steps:
            return ""
        why = f"it takes {steps:,} steps of the simulator, at most {self._steps:,} are allowed"
        return f"{why}; more threads, or less work for each"

    def _simulated(self, func: tir.PrimFunc, *, verify: bool) -> Run:
        outputs, report = self._run(func, self._inputs, races=verify)
        if report.faults:
            return Run(outputs, math.inf, str(report.faults[0]))
        return Run(outputs, simt.cycles(report))

    def _run(
        self, func: tir.PrimFunc, inputs: Sequence[Array], *, races: bool, counters: bool = True
    ) -> tuple[list[Array], simt.Report]:
        """Run a program on the inputs; return its outputs and its report."""
        left, values, outputs = iter(inputs), list[Any](), list[Array]()
        for p in self._parameters:
            match p.kind:
                case "scalar":
                    values.append(p.value)
                case "input":
                    values.append(next(left))
                case "output" | "zeros":
                    outputs.append(unwritten(p.shape, p.dtype))
                    values.append(outputs[-1])
        return outputs, simt.run(func, values, races=races, counters=counters)

    def _run_reference(self) -> None:
        """Compute the expected outputs and how much they may differ, as Measurer does."""

        def outputs_of(inputs: Sequence[Array]) -> list[Array]:
            outputs, report = self._run(self._func, inputs, races=False, counters=False)
            simt.raise_faults("the reference program", report.faults)
            return outputs

        self._inputs, self._expected, self._limits = expected_of(
            outputs_of, self._inputs, self._tolerance, drawn=not self._is_given
        )
        _, report = self._run(self._func, self._inputs, races=True)
        simt.raise_faults("the reference program", report.faults)
        self._cycles = simt.cycles(report)


def count_steps(func: tir.PrimFunc) -> int:
    """Return how many statements the simulator executes, each for all threads of a batch."""
    return sum(
        simt.launch_of(root).batches * sum(map(_repeated, lowering.runs(root)))
        for root in simt.roots(func.body)
        if not (isinstance(root, tir.Allocate) and root.buffer.scope == "global")
    )


def _repeated(run: lowering.GuardedStore) -> int:
    """Return how often a thread runs a store, without regard to guards."""
    loops = [loop for loop in run.loops if not loop.thread or schedule.is_virtual(loop.thread)]
    return math.prod(int(tir.upper_bound(loop.extent)) for loop in loops)


class SimulatedVta(Simulated):
    """Runs programs for one formula on the accelerator's simulator, and takes their cycles.

    The outputs of each program must equal those of the reference, which is also verified: its
    tokens order all conflicting accesses. The last measurements of a search verify the fastest
    programs, too. The cycles do not depend on the data, and do not vary.

    reference   a program that computes the expected outputs, lowered for the accelerator
    inputs      the arguments that are not outputs, in order; by default random arrays
    check       whether to compute the outputs and compare them with those of the reference; without
                it, programs are only timed, several times as fast
    """

    def __init__(
        self,
        reference: tir.PrimFunc,
        *,
        inputs: Sequence[Array] | None = None,
        rng: np.random.Generator | None = None,
        check: bool = True,
    ) -> None:
        if not isinstance(reference.machine, accel.Config):
            why = "it was lowered for another target"
            fix = "vta.lower(s, args), or tune.measurer for that target"
            raise ArgumentError(f"simulation of {reference.name}", why, fix)
        super().__init__(reference, inputs, rng)
        self._computes = check and any(p.kind == "output" for p in self._parameters)

    def _run_reference(self) -> None:
        try:
            self._expected, self._cycles, _ = self._simulated(self._func, verify=True)
        except TVMError as e:
            raise MeasureError("the reference program", str(e)) from e
        self._limits = self._expected

    def _simulated(self, func: tir.PrimFunc, *, verify: bool) -> Run:
        """Time a program, and compute its outputs only if they are checked.

        Raises MeasureError if the program deadlocks.
        """
        if verify:
            driver.build(func, target="vta")
        config = func.machine
        assert isinstance(config, accel.Config)
        program = codegen.emit_vta(func, config)
        timing = accel.measure(program, config)
        if timing.blocked:
            why = "; ".join(map(str, timing.blocked))
            raise MeasureError(func.name, f"it deadlocks: {why}", "vta.verify(f)")
        left, arrays = iter(self._inputs), dict[str, Array]()
        pairs = list(zip(program.areas, self._parameters, strict=True))
        for area, p in pairs:
            shape = area.shape + config.element_shape(area.memory)
            is_input = p.kind == "input"
            arrays[area.name] = next(left).reshape(shape) if is_input else unwritten(shape, p.dtype)
        outputs = accel.execute(program, config, arrays) if self._computes else {}
        results = [outputs[a.name].reshape(p.shape) for a, p in pairs if a.name in outputs]
        return Run(results, float(timing.cycles))
