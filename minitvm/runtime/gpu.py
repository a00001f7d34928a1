"""Functions of target "cuda": kernels that a GPU runs, or the simulated GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from minitvm import simt, tir
from minitvm.base import BuildError, MeasureError, Target

from .arguments import Arguments
from .function import Function, Times
from .gpu_code import INSTALL, CompiledKernel, PrintedKernel, printed_kernels, to_ptx, to_sass
from .gpu_device import DeviceProgram, has_device
from .gpu_resources import Resources, parse_resources


class GpuFunction(Function):
    """A program of kernels. With target "cuda -sim" a call runs it on the simulated GPU.

    A call raises KernelError for a race, a barrier that not all threads reach, an access out of
    bounds, or a read of memory that no thread has written: each of them has no defined result.

    With target "cuda" a call runs it on a GPU through numba-cuda. No GPU has run this yet: it was
    tested with numba's simulator only. Without a GPU a call raises BuildError.

    source("ptx"), source("sass") and resources() need numba-cuda and programs of NVIDIA's toolkit,
    but neither a GPU nor a driver. They raise BuildError with the command that installs them.
    """

    def __init__(
        self, func: tir.PrimFunc, target: Target, sources: Mapping[str, Callable[[], str]]
    ) -> None:
        self.target = target
        self._arguments = Arguments(func)
        machine = {
            "ptx": lambda: _joined([k.name for k in self._printed], self._ptx),
            "sass": lambda: _joined([k.name for k in self._printed], [c.sass for c in self._sass]),
        }
        super().__init__(func, self._launch, {**sources, **machine}, arguments=self._arguments)

    def check(self, *args: Any, watch: simt.Watch | None = None) -> simt.Report:
        """Run the program on the simulated GPU and report its faults and what it cost.

        Outputs are written. The report has all races, not only the first one, and counts for each
        access: sectors of global memory, passes over the banks of shared memory. `watch` is called
        with each of these accesses, as a simt.Executed.
        """
        return simt.run(self.func, self._shaped(self._arguments.checked(args)), watch=watch)

    def resources(self) -> Resources:
        """Compile the kernels, and return what each needs: registers, shared memory, and so on.

        The code is made for target.arch, by default sm_90. Print the result to see a table.
        """
        return Resources(
            parse_resources(c.kernel.name, c.kernel.launch.threads, c.log, c.sass)
            for c in self._sass
        )

    @property
    def launch_bounds(self) -> dict[str, tuple[int, int]]:
        """The launch bounds of each kernel: threads of a block, blocks of a multiprocessor."""
        return {k.name: k.bounds for k in self._printed}

    @cached_property
    def _printed(self) -> list[PrintedKernel]:
        return printed_kernels(self.func, self.source("cuda"))

    @cached_property
    def _ptx(self) -> list[str]:
        return to_ptx(self._printed, self.source("cuda"), self.name, self.target.arch)

    @cached_property
    def _sass(self) -> list[CompiledKernel]:
        return to_sass(self._printed, self._ptx, self.target.arch)

    @cached_property
    def _device(self) -> DeviceProgram:
        """Return the program on the GPU of this machine; raise BuildError if it has none."""
        if not has_device():
            why = "this machine has no GPU that minitvm can use"
            fix = 'target="cuda -sim", which simulates one; f.source("cuda") shows the kernels'
            raise BuildError(f"call of {self.name}", why, f"{fix}; with a GPU: {INSTALL}")
        f = self.func
        outputs = [n for n, p in enumerate(f.params) if any(p is out for out in f.outputs)]
        return DeviceProgram(self.name, self.source("cuda"), self.launch_bounds, outputs)

    def _launch(self, args: Sequence[Any]) -> None:
        if not self.target.sim:
            return self._device(args)
        report = simt.run(self.func, self._shaped(args), counters=False)
        simt.raise_faults(self.name, report.faults)

    def _shaped(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments in the shapes of their parameters, without the symbolic sizes."""
        return [_shaped(p, a) for p, a in zip(self.func.params, args, strict=False)]

    def time_evaluator(
        self,
        name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        timer: Callable[[], float] = time.perf_counter,
    ) -> Callable[..., Times]:
        """Return a function that takes the same arguments and measures calls with CUDA's events.

        Copies of arrays to and from the GPU are not included. `timer` is not used. No GPU has run
        this yet. Raises MeasureError for target "cuda -sim", because a simulated GPU has no clock;
        `check` counts what a call costs.
        """
        if self.target.sim:
            why = "the time of a simulation says nothing about a GPU"
            raise MeasureError(f"time_evaluator of {self.name}", why, "f.check(...), which counts")
        return super().time_evaluator(name, dev, number, repeat, min_repeat_ms, timer)

    def _stopwatch(self, ready: list[Any], timer: Callable[[], float]) -> Callable[[int], float]:
        del timer
        return self._device.stopwatch(ready)


def _joined(names: Sequence[str], codes: Sequence[str]) -> str:
    """Return the code of some kernels as one text, with the name of each before it."""
    pairs = zip(names, codes, strict=True)
    return "\n\n".join(f"// {name}\n{code.strip()}" for name, code in pairs) + "\n"


def _shaped(p: tir.Buffer | tir.Var, argument: Any) -> Any:
    """Return an argument in the shape of its parameter; networks pass flat arrays."""
    if isinstance(p, tir.Var) or not all(isinstance(n, int) for n in p.shape):
        return argument
    return argument.reshape(p.shape)
