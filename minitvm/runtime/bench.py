"""Run machine code on fixed arguments: compare what it computes, and measure how long it takes.

run_job.py does this in a process of its own, because the code may crash, hang or damage memory.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from minitvm.base import BuildError, dtype, holds_floats

from .aligned import CACHE_LINE, Array
from .guarded import damaged, frozen, guarded
from .jit import NativeCode, load_object
from .loading import provided
from .packed import failure

Call: TypeAlias = Callable[[], int]  # returns 0, or 1 for a failure
Sample: TypeAlias = Callable[[int], float]  # runs so many calls; returns the seconds of one
SAMPLE = 2e-4  # seconds of the shortest measurement; shorter calls are measured together
SPOILED = 77  # what integers are before a program runs, if nothing is known about its results
LONG = 1e-3  # seconds; a shorter first call may be slow because it accesses new memory
FIRST = 3  # a first call that takes more than FIRST times the limit of later calls is the only call
WARM = 1.5  # size of all copies of the constants, relative to the cache that must not keep them
COPIES = 4096  # the most copies; if a cache keeps them all, reading constants costs little


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of all programs of a bench.

    kind    "input", "output" and "zeros", an output that is zero before, are arrays; "scalar" is
            the number `value`
    """

    kind: Literal["input", "output", "zeros", "scalar"]
    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A program to run and measure, and the limits of the measurement.

    entry, calls      the function to call, and the functions that its code needs
    constants         the numbers of the parameters that are constants
    packed            dtype and size of the buffers that a second object file packs constants into
    pack, pack_calls  entry and calls of that object file
    bounds            of kernels for a GPU: names, and the launch bounds of each
    check             whether to compare the outputs with the expected outputs
    outputs           whether to return the outputs
    cpu_clock         whether to measure the CPU time of one thread instead of wall time
    best, early_stop  stop after a timed call that takes more than best * early_stop seconds; the
                      first call, which is not timed otherwise, may take three times as long
    number            the largest number of measurements in a repeat
    seconds           the time after which a repeat ends, even with fewer measurements
    repeat            the number of repeats
    cold              bytes of the caches that must not keep constants between calls; 0 if they may
    """

    entry: str
    calls: tuple[str, ...] = ()
    constants: tuple[int, ...] = ()
    packed: tuple[tuple[str, int], ...] = ()
    pack: str = ""
    pack_calls: tuple[str, ...] = ()
    bounds: tuple[tuple[str, tuple[int, int]], ...] = ()
    check: bool = False
    outputs: bool = False
    cpu_clock: bool = True
    best: float = math.inf
    early_stop: float = math.inf
    number: int = 40
    seconds: float = 0.02
    repeat: int = 1
    cold: int = 0

    @property
    def clock(self) -> Callable[[], float]:
        """Return the function that reads the clock, in seconds, to measure calls."""
        return time.thread_time if self.cpu_clock else time.perf_counter


@dataclass(frozen=True, slots=True)
class Outcome:
    """The shortest call of each repeat in seconds, and the number of calls; or an error."""

    seconds: tuple[float, ...] = ()
    calls: int = 0
    error: Literal["", "compile", "exit", "memory", "wrong answer"] = ""
    detail: str = ""
    outputs: tuple[bytes, ...] = ()


class Bench:
    """The arguments of all programs to be compared, in guarded memory.

    data   the bytes of each input, then, if the outputs are known, of each expected output and of
           the largest errors of its elements, as float64
    """

    def __init__(self, arguments: Sequence[Argument], data: Sequence[bytes]) -> None:
        self._arguments = arguments
        arrays = iter(data)
        self._inputs = {
            n: frozen(_array(a, next(arrays))) for n, a in enumerate(arguments) if a.kind == "input"
        }
        self._wanted = [a for a in arguments if a.kind in ("output", "zeros")]
        self._expected = [frozen(_array(a, d)) for a, d in zip(self._wanted, arrays, strict=False)]
        errors = [replace(a, dtype="float64") for a in self._wanted]
        self._limits = [frozen(_array(a, d)) for a, d in zip(errors, arrays, strict=False)]
        self._outputs: list[Array] = []

    def run(self, job: Job, code: Sequence[bytes]) -> Outcome:
        """Run the program in the object file code[0]; code[1], if any, packs its constants."""
        try:
            return self._measured(job, code)
        except BuildError as e:
            return Outcome(error="compile", detail=str(e))
        except MemoryError as e:
            return Outcome(error="memory", detail=f"out of memory {e}".rstrip())

    def _measured(self, job: Job, code: Sequence[bytes]) -> Outcome:
        program = self._loaded(job, code, self._values())
        if isinstance(program, Outcome):
            return program
        call, sampler = program
        self._spoil()
        clock = job.clock
        start = clock()
        if call():
            return _failed()
        first = clock() - start
        wrong = self._difference() if job.check else ""
        if wrong:
            return Outcome(error="wrong answer", detail=wrong)
        outputs = tuple(a.tobytes() for a in self._outputs) if job.outputs else ()
        if first > max(LONG, FIRST * job.best * job.early_stop):
            return Outcome((first,), 1, outputs=outputs)
        seconds, count = timed(sampler(), job)
        return Outcome(seconds, count, outputs=outputs)

    def _loaded(
        self, job: Job, code: Sequence[bytes], values: list[Any]
    ) -> tuple[Call, Callable[[], Sample]] | Outcome:
        """Load a program; return one call of it, and what makes the function that times calls.

        Returns the outcome instead if the constants cannot be packed.
        """
        constants = [values[n] for n in job.constants]
        main = load_object(code[0], symbols=provided(job.calls), calls=job.calls)
        packed = [guarded((n,), dtype(kind).numpy) for kind, n in job.packed]
        if job.pack:
            pack = load_object(code[1], symbols=provided(job.pack_calls), calls=job.pack_calls)
            if _bound(pack, job.pack, [*constants, *packed])():
                return _failed()
        call = _bound(main, job.entry, [*values, *packed])

        def sampler() -> Sample:
            cold = _cold(main, job, values, packed) if job.cold else itertools.repeat(call)
            return clocked(cold, job.clock)

        return call, sampler

    def _values(self) -> list[Any]:
        """Return the arguments in order; allocate the outputs in the first call.

        A forked process allocates its own outputs. Otherwise their pages would be copied while code
        is measured.
        """
        if not self._outputs:
            self._outputs = [guarded(a.shape, dtype(a.dtype).numpy) for a in self._wanted]
        outputs = iter(self._outputs)
        values: list[Any] = []
        for n, a in enumerate(self._arguments):
            match a.kind:
                case "scalar":
                    values.append(a.value)
                case "output" | "zeros":
                    values.append(next(outputs))
                case "input":
                    values.append(self._inputs[n])
        return values

    def _spoil(self) -> None:
        """Erase the previous program's results: fill the outputs with wrong elements.

        Outputs that a program expects to be zero at its start are filled with 0.
        """
        for n, (parameter, a) in enumerate(zip(self._wanted, self._outputs, strict=True)):
            if parameter.kind == "zeros":
                a.fill(0)
            elif holds_floats(a):
                a.fill(np.nan)
            elif self._expected:
                a[...] = ~self._expected[n]
            else:
                a[...] = SPOILED

    def _difference(self) -> str:
        """Describe the first output that differs from the expected output; "" if all are right."""
        rows = zip(self._wanted, self._outputs, self._expected, self._limits, strict=True)
        for a, got, expected, limits in rows:
            if damaged(got):
                return f"{a.name}: elements past the end were written"
            error = difference(got, expected, limits)
            if error:
                return f"{a.name}{error}"
        return ""


def difference(got: Array, expected: Array, limits: Array) -> str:
    """Describe the element whose error exceeds its limit the most, or return "" if none does.

    Integers must be equal, whatever their limits.
    """
    if holds_floats(got):
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    else:
        error, limits = (got != expected).astype(np.float64), np.zeros(got.shape)
    if (error <= limits).all():  # false for NaN
        return ""
    worst = np.unravel_index(int((error - limits).argmax()), error.shape)
    where = ", ".join(str(i) for i in worst)
    text = f"[{where}] is {got[worst]!s} instead of {expected[worst]!s}"
    return f"{text}; an error of {limits[worst]:.3g} is allowed"


def clocked(calls: Iterator[Call], clock: Callable[[], float]) -> Sample:
    """Return the function that times so many of `calls` with a clock."""

    def sample(count: int) -> float:
        start = clock()
        for call in itertools.islice(calls, count):
            call()
        return (clock() - start) / count

    return sample


def timed(measure: Sample, job: Job) -> tuple[tuple[float, ...], int]:
    """Return the shortest call of each repeat in seconds, and the number of calls."""
    total = 0

    def sample(count: int) -> float:
        nonlocal total
        total += count
        return measure(count)

    count, seconds = 1, sample(1)
    while seconds * count < SAMPLE:  # the clock itself takes a microsecond
        count = max(count + 1, min(10 * count, math.ceil(1.2 * SAMPLE / max(seconds, 1e-9))))
        seconds = sample(count)
    if seconds > job.best * job.early_stop:
        return (seconds,), total
    fastest: list[float] = []
    for _ in range(job.repeat):
        best, spent, samples = math.inf, 0.0, 0
        while samples == 0 or (samples < job.number and spent < job.seconds):
            seconds = sample(count)
            best, spent, samples = min(best, seconds), spent + seconds * count, samples + 1
        fastest.append(best)
    return tuple(fastest), total


def _cold(code: NativeCode, job: Job, values: list[Any], packed: list[Array]) -> Iterator[Call]:
    """Return an endless iterator of calls; each call reads the next copy of the constants."""
    at = [*job.constants, *range(len(values), len(values) + len(packed))]
    values = [*values, *packed]
    size = sum(values[n].nbytes for n in at)
    count = 1 + min(COPIES, math.ceil(WARM * job.cold / size)) if size else 1
    copies = {n: _copies(values[n], count) for n in at}
    call = _bound(code, job.entry, values, [*copies.values()])
    columns = [[v] * count for v in call.args]
    for n, a in copies.items():
        start = a.ctypes.data
        columns[n] = [start + offset for offset in range(0, a.nbytes, a.strides[0])]
    return itertools.cycle([partial(call.func, *row) for row in zip(*columns, strict=True)])


def _copies(a: Array, count: int) -> Array:
    """Return `count` copies of the bytes of `a`, each of which starts at a cache line."""
    rows = np.zeros((count, a.nbytes + -a.nbytes % CACHE_LINE), np.uint8)
    rows[:, : a.nbytes] = a.reshape(-1).view(np.uint8)
    return frozen(rows)


def _bound(
    code: NativeCode, entry: str, values: list[Any], others: Sequence[Array] = ()
) -> partial[int]:
    """Return a function that calls `entry` in the machine code with the arrays and ints `values`.

    others   other arrays to keep in memory as long as the returned function exists
    """
    kinds = [ctypes.c_int64 if isinstance(v, int) else ctypes.c_void_p for v in values]
    function = code.function(entry, *kinds)
    function.arrays = (values, others)  # they stay in memory
    return partial(function, *[v if isinstance(v, int) else v.ctypes.data for v in values])


def _failed() -> Outcome:
    """Return the outcome of a program that failed: a Python exception, or too little memory."""
    error = failure()
    if error is not None:
        return Outcome(error="exit", detail=f"{type(error).__name__}: {error}")
    return Outcome(error="memory", detail="a temporary array cannot be allocated")


def _array(a: Argument, data: bytes) -> Array:
    return np.frombuffer(data, dtype(a.dtype).numpy).reshape(a.shape)
