"""Run printed kernels on a GPU through numba-cuda.

This has not run on a GPU yet: it follows numba-cuda's documentation, and was tested with numba's
simulator (NUMBA_ENABLE_CUDASIM=1), which checks the values, but neither launch bounds nor times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm.base import MeasureError, TVMError

from .gpu_code import loaded, numba_cuda, simulated


def has_device() -> bool:
    """Return whether numba-cuda is installed and finds a GPU; its simulator counts as one."""
    try:
        return bool(numba_cuda("a GPU").is_available())
    except (TVMError, OSError, RuntimeError):
        return False


def device_name() -> str:
    """Return the name of the GPU that runs programs, or "" if there is none."""
    if not has_device():
        return ""
    name = numba_cuda("a GPU").get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


class DeviceProgram:
    """The kernels of a program and the function that launches them, loaded into numba-cuda.

    bounds    the launch bounds of each kernel, by its name in `source`
    outputs   the numbers of the arguments that are outputs
    """

    def __init__(
        self, name: str, source: str, bounds: Mapping[str, tuple[int, int]], outputs: Sequence[int]
    ) -> None:
        self._name, self._outputs = name, outputs
        self._cuda = numba_cuda(f"call of {name}")
        scope = loaded(source, name)
        if not simulated():  # the simulator knows no launch bounds
            for kernel, limits in bounds.items():
                scope[kernel] = self._cuda.jit(launch_bounds=limits)(scope[kernel].py_func)
        self._launch: Callable[..., None] = scope[_last_function(source)]

    def __call__(self, args: Sequence[Any]) -> None:
        """Copy the arrays to the device, run the kernels, and copy the outputs back."""
        copies = self._copied(args)
        self._launch(*copies)
        self._copy_back(copies, args)

    def stopwatch(self, args: Sequence[Any]) -> Callable[[int], float]:
        """Return a function that runs the program a given number of times and returns the seconds.

        Two events on the device measure them. Copies of arrays are not included.
        """
        copies = self._copied(args)

        def seconds_of(calls: int) -> float:
            start, end = self._cuda.event(), self._cuda.event()
            start.record()
            for _ in range(calls):
                self._launch(*copies)
            end.record()
            end.synchronize()
            self._copy_back(copies, args)
            milliseconds = start.elapsed_time(end)
            if milliseconds <= 0:
                why = "its events measure no time; numba's simulator has no clock"
                raise MeasureError(f"time_evaluator of {self._name}", why, "a GPU")
            return milliseconds / 1e3

        return seconds_of

    def _copied(self, args: Sequence[Any]) -> list[Any]:
        """Copy arrays to the device, in one dimension; leave ints alone."""
        return [a if isinstance(a, int) else self._cuda.to_device(_bits(a)) for a in args]

    def _copy_back(self, copies: Sequence[Any], args: Sequence[Any]) -> None:
        """Copy the outputs to the caller's arrays; this waits for the kernels."""
        for n in self._outputs:
            copies[n].copy_to_host(_bits(args[n]))


def _bits(a: Any) -> Any:
    """Return an array in one dimension; numba knows bfloat16 as other values of 16 bits."""
    flat = a.reshape(-1)
    return flat.view(np.float16) if flat.dtype.name == "bfloat16" else flat


def _last_function(source: str) -> str:
    """Return the name of the last function of printed source, which launches the kernels."""
    return source.rsplit("\ndef ", 1)[1].split("(", maxsplit=1)[0]
