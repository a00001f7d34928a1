"""Compiled functions: calls with checked arguments, measurements, sources and storage."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from minitvm import tir
from minitvm.base import ArgumentError, BuildError, MeasureError, Target, is_count

from .aligned import Array
from .arguments import Arguments
from .constants import bound, pack_constants, packing
from .export import AGAIN, File, Package, pack, read, run_of, unpack, write
from .loading import NativeRun, NotRunnable, Run

MAX_MS = 24 * 3600 * 1000  # a day, the largest min_repeat_ms
MANY, MIN_SECONDS = 10**6, 1e-8  # a million calls below 10 ns each mean that the timer stands still


@dataclass(frozen=True, slots=True)
class Times:
    """Measured seconds per call, one entry per repeat."""

    results: tuple[float, ...]

    @property
    def min(self) -> float:
        """Return the time of the fastest repeat; other work on the machine disturbed it least."""
        return min(self.results)

    @property
    def median(self) -> float:
        """Return the median of the repeats."""
        return statistics.median(self.results)

    @property
    def mean(self) -> float:
        """Return the average of the repeats."""
        return statistics.fmean(self.results)

    def __str__(self) -> str:
        return (
            f"median {self.median * 1e3:.4g} ms, min {self.min * 1e3:.4g} ms of {len(self.results)}"
        )


class Function:
    """A kernel: call it with arrays in the order of its parameters; outputs are written in place.

    Arguments are C-contiguous numpy arrays of the declared dtype and shape, or objects with
    __dlpack__ that numpy can read as such an array without a copy. An output must not share memory
    with another argument. Otherwise a call raises ArgumentError with the argument's
    name and runs nothing.
    """

    def __init__(
        self,
        func: tir.PrimFunc,
        run: Run,
        sources: Mapping[str, Callable[[], str]],
        package: Callable[[], Package] | None = None,
        arguments: Arguments | None = None,
        prepack: Function | None = None,
    ) -> None:
        self.func = func
        self.name = func.name
        self.main = run  # its arguments: those of the function, packed constants, symbolic sizes
        self.prepack = prepack
        self._run = run if prepack is None else packing(func, prepack.main, run)
        self._sources = sources
        self.package = package  # returns the package that export() writes
        self._checked = (arguments or Arguments(func)).checked

    @property
    def entry_name(self) -> str:
        """Return the name of the function, which time_evaluator accepts."""
        return self.name

    def __call__(self, *args: Any) -> None:
        self._run(self._checked(args))

    def bind(self, **constants: Any) -> Function:
        """Return this function with its constants set: g = f.bind(W=w), then g(a, c).

        Computes everything that depends only on constants here, once, aligned to 64 bytes; calls of
        g compute the rest. The arrays must not change afterwards. Raises ArgumentError unless a
        fitting array is given for each constant.
        """
        prepack = None if self.prepack is None else self.prepack.main
        func, run = bound(self.func, prepack, self.main, constants)
        return Function(func, run, self._sources)

    def check(self, *args: Any) -> Any:
        """Raise ArgumentError if the arguments do not fit the parameters; run nothing."""
        self._checked(args)

    def source(self, kind: str = "tir") -> str:
        """Return the program as text: "tir", "python", "ll", "asm", "vta", "cuda", "ptx" or "sass".

        The program that packs constants comes first, if there is one.
        All targets have "tir"; other forms depend on the target, or raise ArgumentError.
        """
        if not isinstance(kind, str) or kind not in self._sources:  # pyright: ignore[reportUnnecessaryIsInstance]
            fix = f"one of {', '.join(self._sources)}"
            raise ArgumentError(f"source({kind!r})", "the function has no such source", fix)
        text = self._sources[kind]()
        if self.prepack is None or kind == "tir":
            return text
        return f"{self.prepack.source(kind)}\n\n{text}"

    def export(self, path: File) -> None:
        """Write the compiled function to the file `path`; tvm.load(path) reads it.

        Raises BuildError if functions of its target cannot be stored, or if constants are bound.
        """
        write(path, pack(stored(self, "export")))

    def __reduce__(self) -> tuple[Callable[[bytes], Function], tuple[bytes]]:
        """Pickle the function in the format of export(); unpickling does not compile it again.

        Raises BuildError if functions of its target cannot be stored. Unpickling runs the code in
        the pickle: load only what you trust.
        """
        return unpickled, (pack(stored(self, "pickle")),)

    def time_evaluator(
        self,
        name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        timer: Callable[[], float] = time.perf_counter,
    ) -> Callable[..., Times]:
        """Return a function that takes the same arguments, measures calls and returns Times.

        Each of `repeat` results is the average of `number` calls in a row. If these calls take less
        than min_repeat_ms, more calls are made. A warm-up call is not measured. `name` and `dev`
        are accepted for compatibility with TVM.
        """
        del dev
        if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"time_evaluator({type(name).__name__}, ...)"
            why = "it takes options only; the function that it returns takes the arrays"
            raise ArgumentError(what, why, "f.time_evaluator(number=10)(a, b, c)")
        if name not in (None, self.name, "main") or not is_count(number) or not is_count(repeat):
            what = f"time_evaluator({name!r}, number={number!r}, repeat={repeat!r})"
            why = f"the function is {self.name!r}; number and repeat must be ints of at least 1"
            raise MeasureError(what, why, "f.time_evaluator(number=10, repeat=3)")
        least = _least_ms(min_repeat_ms)
        if not callable(timer):
            raise MeasureError(f"timer={timer!r}", "it is not a function", "time.perf_counter")

        return lambda *args: self._timed(self._checked(args), number, repeat, least, timer)

    def _timed(
        self, args: list[Any], count: int, repeat: int, least_ms: float, timer: Callable[[], float]
    ) -> Times:
        """Measure calls with checked arguments, as time_evaluator says."""
        self._run(args)
        seconds_of, results = self._stopwatch(args, timer), list[float]()
        while len(results) < repeat:
            seconds = seconds_of(count)
            if seconds * 1e3 < least_ms:
                count = _more_calls(count, least_ms, seconds)
            else:
                results.append(seconds / count)
        return Times(tuple(results))

    def _stopwatch(self, ready: list[Any], timer: Callable[[], float]) -> Callable[[int], float]:
        """Return a function that makes and times a given number of calls in a row."""

        def seconds_of(calls: int) -> float:
            start = timer()
            for _ in range(calls):
                self._run(ready)
            return timer() - start

        return seconds_of

    def __repr__(self) -> str:
        head = next(self.func.lines(self.func.printer()))
        return f"<minitvm function {head.removeprefix('def ').rstrip(':')}>"


def load(path: File, target: str | Target | None = None) -> Function:
    """Load the function that f.export(path) has stored, without compiling LLVM IR.

    target   the target that it must have been built for; default: any

    The function checks its arguments as f does. Loading runs the code in the file, so load only
    files that you trust. Raises ArgumentError if the file does not exist, BuildError if it is
    damaged, was made for another target, CPU, operating system or version, or if another user may
    have written it.
    """
    what = f"load({str(path)!r})"
    package = unpack(read(path), what)
    if target is not None and str(to := Target(target)) != str(package.target):
        raise BuildError(what, f"it was built for {package.target}, not for {to}", AGAIN)
    return _loaded(package, what)


def code_of(f: Function) -> tuple[Run, Run | None]:
    """Return the code of `f`, which also takes packed constants, and the code that packs these."""
    return f.main, f.prepack and f.prepack.main


def address_of(f: Function) -> int | None:
    """Return the address of the machine code of `f`; None if Python runs it."""
    return f.main.address if isinstance(f.main, NativeRun) else None


def prepacked(f: Function, constants: list[Any]) -> list[Array]:
    """Return the arrays that `f` reads in place of its constants; none if it packs no constants."""
    prepack = code_of(f)[1]
    if prepack is None or isinstance(prepack, NotRunnable):  # the first call raises why
        return []
    return pack_constants(f.func, prepack, constants)


def sized(f: Function, n: int) -> Function:
    """Return `f` for one value of its only scalar parameter; `f` itself if it has none.

    Raises ArgumentError if it does not work for this value.
    """
    scalars = [k for k, p in enumerate(f.func.params) if isinstance(p, tir.Var)]
    if not scalars:
        return f
    (at,), main = scalars, f.main
    return Function(
        tir.signature_at(f.func, n),
        lambda args: main([*args[:at], n, *args[at:]]),
        {},
        prepack=f.prepack,
    )


def stored(f: Function, verb: str) -> Package:
    """Return the package that stores `f`; raise BuildError about `verb` if `f` cannot be stored."""
    if f.package is None and f.func.packed and f.prepack is None:
        why = "its constants are bound"
        fix = "the function that build returned; bind after load"
        raise BuildError(f"{verb} of {f.name}", why, fix)
    if f.package is None:
        why = "functions of this target cannot be stored"
        raise BuildError(f"{verb} of {f.name}", why, "target llvm, numba or python")
    package = f.package()
    if f.prepack is None:
        return package
    return replace(package, prepack=stored(f.prepack, verb))


def exported(f: Function) -> bytes:
    """Return the bytes that f.export writes to a file."""
    return pack(stored(f, "export"))


def unpickled(data: bytes) -> Function:
    """Return the function in a pickle."""
    return loaded(data, "a pickled function")


def loaded(data: bytes, what: str) -> Function:
    """Return the function in the bytes of a file; errors begin with `what`."""
    return _loaded(unpack(data, what), what)


def _loaded(package: Package, what: str) -> Function:
    """Return the function of a package; errors begin with `what`."""
    sources = {kind: (lambda text=text: text) for kind, text in package.sources.items()}
    prepack = None if package.prepack is None else _loaded(package.prepack, what)
    return Function(package.func, run_of(package, what), sources, lambda: package, prepack=prepack)


def _least_ms(value: object) -> float:
    """Return min_repeat_ms as a number; raise MeasureError unless it is from 0 to a day."""
    ms = float(value) if isinstance(value, Real) else math.nan
    if not 0 <= ms <= MAX_MS:
        raise MeasureError(f"min_repeat_ms={value!r}", f"not a number from 0 to {MAX_MS}")
    return ms


def _more_calls(count: int, least_ms: float, seconds: float) -> int:
    """Return how many calls to time next, after `count` calls took only `seconds`."""
    if count >= MANY and seconds < count * MIN_SECONDS:
        what = f"{count} calls took {seconds} seconds by this timer"
        raise MeasureError(what, "the timer does not advance", "timer=time.perf_counter")
    return max(count + 1, int(count * min(10, 1.2 * least_ms / max(seconds * 1e3, 1e-3))))
