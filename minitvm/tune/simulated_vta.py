"""Measure programs for the accelerator in simulated cycles, in this process.

program() -> instructions -> simulated on data: cycles, right or not

The outputs of each program must equal those of the reference, which is also verified: its tokens
order all conflicting accesses. The last measurements of a search verify the fastest programs, too.
The cycles come from the simulator's timing model. They do not depend on the data, and do not vary.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from minitvm import accel, codegen, driver, runtime, tir
from minitvm.base import ArgumentError, MeasureError, TVMError

from .builder import Program, lowered
from .inputs import Array, arguments, checked, draw, unwritten
from .trial import Result


class SimulatedVta:
    """Runs programs for one formula on the accelerator's simulator, and takes their cycles.

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
        self._func, self._parameters = reference, arguments(reference, inputs)
        self._outputs = [p for p in self._parameters if p.kind == "output" and check]
        self._inputs: Sequence[Array] = (
            draw(self._parameters, rng or np.random.default_rng(0))
            if inputs is None
            else checked(inputs, self._parameters)
        )
        self._check = check
        self._expected: list[Array] = []
        self._cycles = math.inf

    @property
    def reference_cost(self) -> float:
        """Return the cycles of the reference; raise MeasureError if it cannot run."""
        if math.isinf(self._cycles):
            try:
                driver.build(self._func, target="vta")
                self._expected, self._cycles = self._run(self._func)
            except TVMError as e:
                raise MeasureError("the reference program", str(e)) from e
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

    def __exit__(self, *_: object) -> None:
        pass

    def _measured(self, program: Program, *, verify: bool) -> Result:
        start = time.perf_counter()
        func = lowered(program)
        if isinstance(func, Result):
            return func
        built = time.perf_counter()
        try:
            if verify:
                driver.build(func, target="vta")
            outputs, cycles = self._run(func)
        except TVMError as e:
            return Result((), "compile", str(e), built - start)
        seconds = built - start, time.perf_counter() - built
        for p, a, expected in zip(self._outputs, outputs, self._expected, strict=True):
            if difference := runtime.difference(a, expected, expected):
                return Result((), "wrong answer", f"{p.name}{difference}", *seconds)
        return Result((), "", "", *seconds, cycles=(cycles,))

    def _run(self, func: tir.PrimFunc) -> tuple[list[Array], float]:
        """Time a program; return its outputs, which are computed only if checked, and its cycles.

        Raises MeasureError if the program deadlocks.
        """
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
        outputs = accel.execute(program, config, arrays) if self._outputs else {}
        results = [outputs[a.name].reshape(p.shape) for a, p in pairs if a.name in outputs]
        return results, float(timing.cycles)
