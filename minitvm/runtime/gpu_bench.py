"""Run kernels on a GPU with fixed arguments: compare what they compute, and measure their time.

run_job.py does this in a process of its own. After an error of CUDA, such as an access out of
bounds, a process cannot use the GPU any more: the exception ends it, and another takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from minitvm.base import BuildError

from .bench import Bench, Call, Job, Outcome, Sample
from .gpu_code import INSTALL
from .gpu_device import DeviceProgram, has_device


class DeviceBench(Bench):
    """A Bench for programs of kernels, whose code is printed source for numba.cuda."""

    def run(self, job: Job, code: Sequence[bytes]) -> Outcome:
        """Run the program whose printed source is code[0]; CUDA's events measure it."""
        return super().run(replace(job, cpu_clock=False), code)

    def _loaded(
        self, job: Job, code: Sequence[bytes], values: list[Any]
    ) -> tuple[Call, Callable[[], Sample]]:
        from numba.core.errors import NumbaError

        what = f"measuring {job.entry}"
        if not has_device():
            fix = f'target="cuda -sim", which models cycles; with a GPU: {INSTALL}'
            raise BuildError(what, "this machine has no GPU that minitvm can use", fix)
        bounds = {name: (threads, blocks) for name, (threads, blocks) in job.bounds}
        program = DeviceProgram(job.entry, code[0].decode(), bounds, self._output_indices)
        try:
            program(values)  # numba compiles in the first call, which is therefore not measured
        except NumbaError as e:
            raise BuildError(what, f"numba.cuda cannot compile it: {e}") from e

        def call() -> int:
            program(values)
            return 0

        def sampler() -> Sample:
            seconds_of = program.stopwatch(values)
            return lambda count: seconds_of(count) / count

        return call, sampler

    @property
    def _output_indices(self) -> list[int]:
        return [n for n, a in enumerate(self._arguments) if a.kind in ("output", "zeros")]
