"""Measure programs for "cuda -sim" in modelled cycles, in this process.

program() -> kernels -> counters of the simulated GPU -> cycles, right or not

A trial runs all blocks and compares the outputs, because alike blocks with wrong edges are a common
fault. The last measurements of a search also look for races. The cycles come from simt.cycles; they
are exact repeats of each other, and have nothing to do with the time that a simulation takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from minitvm import lowering, runtime, schedule, simt, tir
from minitvm.base import ArgumentError, Target, TVMError

from .builder import Program, lowered
from .inputs import Array, arguments, checked, draw, expected_of, tolerance, unwritten
from .legal_gpu import MAX_STEPS
from .trial import Result

SLOWER = 8  # any program may take this many times as many steps as the reference


class SimulatedGpu:
    """Runs programs for one formula on the simulated GPU, and models their cycles.

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
        parameters = arguments(reference, inputs)
        self._func, self._parameters, self._is_given = reference, parameters, inputs is not None
        self._inputs: Sequence[Array] = (
            draw(parameters, rng or np.random.default_rng(0))
            if inputs is None
            else checked(inputs, parameters)
        )
        self._tolerance = tolerance(reference) if check else None
        self._steps = max(steps, SLOWER * count_steps(reference))
        self._expected: list[Array] = []
        self._limits: list[Array] = []
        self._cycles = math.inf

    @property
    def reference_cost(self) -> float:
        """Return the cycles of the reference; raise MeasureError if it cannot run."""
        if not self._expected:
            self._run_reference()
        return self._cycles

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order; a failure is a result too."""
        _ = self.reference_cost
        for program in programs:
            yield self._measured(program, races=False)

    def remeasure(self, programs: Sequence[Program]) -> list[Result]:
        """Measure programs once more, looking for races; the result of the reference is last."""
        reference = Result(cycles=(self.reference_cost,))
        return [*(self._measured(program, races=True) for program in programs), reference]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _measured(self, program: Program, *, races: bool) -> Result:
        start = time.perf_counter()
        func = lowered(program)
        if isinstance(func, Result):
            return func
        built = time.perf_counter()
        steps = count_steps(func)
        if steps > self._steps:
            why = f"it takes {steps:,} steps of the simulator, at most {self._steps:,} are allowed"
            fix = "more threads, or less work for each"
            return Result((), "run time-out", f"{why}; {fix}", built - start)
        try:
            outputs, report = self._run(func, self._inputs, races=races)
        except TVMError as e:
            return Result((), "compile", str(e), built - start)
        seconds = built - start, time.perf_counter() - built
        if wrong := self._wrong(outputs, report):
            return Result((), "wrong answer", wrong, *seconds)
        return Result((), "", "", *seconds, cycles=(simt.cycles(report),))

    def _wrong(self, outputs: Sequence[Array], report: simt.Report) -> str:
        """Return what is wrong with a run: a fault, or an element; "" if nothing is."""
        if report.faults:
            return str(report.faults[0])
        parameters = (p for p in self._parameters if p.kind == "output")
        rows = zip(parameters, outputs, self._expected, self._limits, strict=False)
        for p, a, expected, limits in rows:
            if difference := runtime.difference(a, expected, limits):
                return f"{p.name}{difference}"
        return ""

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

        self._inputs, expected, self._limits = expected_of(
            outputs_of, self._inputs, self._tolerance, drawn=not self._is_given
        )
        _, report = self._run(self._func, self._inputs, races=True)
        simt.raise_faults("the reference program", report.faults)
        self._expected, self._cycles = expected, simt.cycles(report)


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
