"""A compiled function: checks its arguments, runs, measures itself, shows its sources."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import tir
from minitvm.base import ArgumentError, BuildError, MeasureError

from .export import File, Package, pack, read, unpack, write
from .loading import Run
from .reload import run_of

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
REACHED = (1, 3)  # DLPack's numbers of main memory, ordinary and pinned
ELSEWHERE = {2: "a CUDA GPU", 8: "a Metal GPU", 10: "a ROCm GPU", 14: "a oneAPI device"}
LONGEST_MS = 24 * 3600 * 1000  # of one repeat: a day
MANY, SHORTEST = 10**6, 1e-8  # a million calls of 10 ns: no machine does that


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per call, one entry a repeat."""

    results: tuple[float, ...]

    @property
    def min(self) -> float:
        """The fastest repeat: what the machine can do when nobody disturbs it."""
        return min(self.results)

    @property
    def median(self) -> float:
        """The repeat in the middle."""
        return statistics.median(self.results)

    @property
    def mean(self) -> float:
        """The average."""
        return statistics.fmean(self.results)

    def __str__(self) -> str:
        return (
            f"median {self.median * 1e3:.4g} ms, min {self.min * 1e3:.4g} ms of {len(self.results)}"
        )


class Function:
    """A kernel: call it with arrays in the order of its parameters; outputs are written in place.

    Arguments are C-contiguous numpy arrays of the declared dtype and shape, or anything with
    __dlpack__ that is one without copying. An output may not share memory with another argument.
    Raises ArgumentError, naming the argument, otherwise; nothing is run then.
    """

    def __init__(
        self,
        func: tir.PrimFunc,
        run: Run,
        sources: Mapping[str, Callable[[], str]],
        package: Callable[[], Package] | None = None,
    ) -> None:
        self.func = func
        self.name = func.name
        self._run = run
        self._sources = sources
        self._package = package  # makes what export() stores
        self._outputs = [n for n, p in enumerate(func.params) if _is_in(p, func.outputs)]
        self._fixed = [_fixed(p) for p in func.params]
        self._symbolic = None in self._fixed  # some extent or scalar is known only at the call
        self._temporary = tir.symbolic_buffers(func)

    @property
    def entry_name(self) -> str:
        """The name under which time_evaluator knows it."""
        return self.name

    def __call__(self, *args: Any) -> None:
        self._run(self._checked(args))

    def source(self, kind: str = "tir") -> str:
        """The program as text: "tir", or what the target makes of it ("python", "ll", "asm")."""
        if not isinstance(kind, str) or kind not in self._sources:  # pyright: ignore[reportUnnecessaryIsInstance]
            known = ", ".join(self._sources)
            raise ArgumentError(
                f"source({kind!r})", "there is no such text here", f"one of {known}"
            )
        return self._sources[kind]()

    def export(self, path: File) -> None:
        """Store the compiled function as the file `path`, for tvm.load(path).

        Raises BuildError if functions of its target cannot be stored.
        """
        write(path, self._stored("export"))

    def __reduce__(self) -> tuple[Callable[[bytes], Function], tuple[bytes]]:
        """Pickle as export() stores: what arrives in another process is not compiled again.

        Raises BuildError if functions of its target cannot be stored. Like any pickle, it runs the
        code in it: load only what you trust.
        """
        return _unpickled, (pack(self._stored("pickle")),)

    def _stored(self, verb: str) -> Package:
        if self._package is None:
            raise BuildError(
                f"{verb} of {self.name}",
                "what runs here is no code that could be stored",
                "build it for one of the targets llvm, numba, python",
            )
        return self._package()

    def time_evaluator(
        self,
        name: str | None = None,
        dev: Any = None,
        number: int = 10,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        timer: Callable[[], float] = time.perf_counter,
    ) -> Callable[..., Times]:
        """A function of the same arguments that returns the seconds a call takes, as Times.

        Each of `repeat` results is the average over `number` calls in a row; more calls are made
        where that takes less than min_repeat_ms. One call before is not counted. `name` and
        `dev` are accepted for TVM's sake.
        """
        del dev
        if not isinstance(name, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(
                f"time_evaluator({type(name).__name__}, ...)",
                "it takes how to measure; what comes out takes the arguments of the function",
                "f.time_evaluator(number=10)(a, b, c)",
            )
        if name not in (None, self.name, "main") or not is_count(number) or not is_count(repeat):
            raise MeasureError(
                f"time_evaluator({name!r}, number={number!r}, repeat={repeat!r})",
                f"the function is {self.name!r}, counts are >= 1",
            )
        least = _least_ms(min_repeat_ms)
        if not callable(timer):
            raise MeasureError(f"timer={timer!r}", "it is not a function", "time.perf_counter")

        def evaluate(*args: Any) -> Times:
            ready = self._checked(args)
            self._run(ready)
            count, results = number, list[float]()
            while len(results) < repeat:
                start = timer()
                for _ in range(count):
                    self._run(ready)
                seconds = timer() - start
                if seconds * 1e3 < least:
                    count = _more_calls(count, least, seconds)
                else:
                    results.append(seconds / count)
            return Times(tuple(results))

        return evaluate

    def __repr__(self) -> str:
        return (
            f"<minitvm function {str(self.func).splitlines()[0].removeprefix('def ').rstrip(':')}>"
        )

    # --- checking ---

    def _checked(self, args: tuple[Any, ...]) -> list[Any]:
        """The arguments as numpy arrays and ints, sizes appended, all fitting."""
        params = self.func.params
        if len(args) != len(params):
            names = ", ".join(p.name for p in params)
            raise ArgumentError(
                f"{self.name}({names})", f"takes {len(params)} arguments, {len(args)} given"
            )
        ready = [
            a if type(a) is np.ndarray or not isinstance(p, tir.Buffer) else _as_array(p.name, a)
            for p, a in zip(params, args, strict=True)
        ]
        for p, a, fixed in zip(params, ready, self._fixed, strict=True):
            if isinstance(p, tir.Buffer):
                if fixed is None or a.shape != fixed[0] or a.dtype != fixed[1]:
                    self._check_kind(p, a, fixed)
                flags = a.flags
                if not flags.c_contiguous:
                    self._unfit(p, "is not C-contiguous", "numpy.ascontiguousarray(...)")
                if not flags.aligned:
                    self._unfit(p, "starts at an address that is not aligned", "a copy")
            elif not isinstance(a, Integral):
                _refuse(self.name, p, f"is {type(a).__name__}, not an int", "an int")
            elif not -(2**63) <= a < 2**63:
                _refuse(self.name, p, f"is {a}, which does not fit in 64 bits", "a smaller int")
        for n in self._outputs:
            self._check_output(n, ready)
        if not self._symbolic:
            return ready
        sizes = tir.sizes_of(self.func, tuple(ready))
        tir.check_symbolic_buffers(self.func, self._temporary, sizes)
        pairs = zip(self.func.params, ready, strict=True)
        plain = [
            a if isinstance(p, tir.Buffer) else int(a) for p, a in pairs
        ]  # int: of numpy.int64
        return [*plain, *(sizes[v] for v in self.func.sizes)]

    def _check_output(self, n: int, ready: list[Any]) -> None:
        out, p = ready[n], self.func.params[n]
        if not out.flags.writeable:
            self._unfit(p, "is an output, but read-only", "")
        for q, other in zip(self.func.params, ready, strict=True):
            if q is not p and isinstance(q, tir.Buffer) and np.may_share_memory(out, other):
                why = f"is an output, but shares memory with {q.name}"
                _refuse(self.name, p, why, "separate arrays")

    def _check_kind(
        self, p: tir.Buffer, a: Array, fixed: tuple[tuple[int, ...], np.dtype[Any]] | None
    ) -> None:
        """Dtype, rank and, where it is constant, shape."""
        if a.dtype != p.dtype.numpy:
            fix = f"{p.name}.astype({str(p.dtype)!r})"
            self._unfit(p, f"holds {a.dtype}, not {p.dtype}", fix)
        if a.ndim != len(p.shape):
            self._unfit(p, f"has {a.ndim} dimensions, not {len(p.shape)}", "reshape it")
        if fixed is not None:
            self._unfit(p, f"has shape {a.shape}, not {fixed[0]}", "arrays of the declared shape")

    def _unfit(self, p: Any, why: str, fix: str) -> None:
        """Refuse an array. A converted copy does for an input; an output must be the user's own."""
        if _is_in(p, self.func.outputs):
            comma = "," if len(p.shape) == 1 else ""
            shape = f"({', '.join(map(tir.text, p.shape))}{comma})"
            fix = f"make it with numpy.empty({shape}, {str(p.dtype)!r})"
        _refuse(self.name, p, why, fix)


def load(path: File) -> Function:
    """Return the function that f.export(path) has stored; nothing of llvm is compiled.

    It checks its arguments as f does. It runs the code in the file: load only what you trust.
    Raises ArgumentError if there is no such file; BuildError if it is damaged, or made for another
    CPU, operating system or version.
    """
    return _loaded(read(path), f"load({str(path)!r})")


def _unpickled(data: bytes) -> Function:
    what = "a pickled function"
    return _loaded(unpack(data, what), what)


def _loaded(package: Package, what: str) -> Function:
    """The function of a package; errors begin with `what`."""
    sources = {kind: (lambda text=text: text) for kind, text in package.sources.items()}
    return Function(package.func, run_of(package, what), sources, lambda: package)


def is_count(n: object) -> bool:
    """Is `n` an int >= 1?"""
    return isinstance(n, int) and not isinstance(n, bool) and n >= 1


def _least_ms(given: object) -> float:
    """min_repeat_ms as a number; MeasureError if no measurement ever takes as long."""
    ms = float(given) if isinstance(given, Real) else math.nan
    if not 0 <= ms <= LONGEST_MS:
        raise MeasureError(f"min_repeat_ms={given!r}", f"not milliseconds from 0 to {LONGEST_MS}")
    return ms


def _more_calls(count: int, least_ms: float, seconds: float) -> int:
    """How many calls to try next, where `count` took but `seconds`."""
    if count >= MANY and seconds < count * SHORTEST:
        raise MeasureError(
            f"{count} calls took {seconds} seconds by this timer", "it does not seem to advance"
        )
    return max(count + 1, int(count * min(10, 1.2 * least_ms / max(seconds * 1e3, 1e-3))))


def _is_in(p: object, buffers: tuple[tir.Buffer, ...]) -> bool:
    return any(p is b for b in buffers)


def _fixed(p: Any) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """The shape and dtype a call must bring, where they are constants."""
    if not isinstance(p, tir.Buffer) or not all(isinstance(n, int) for n in p.shape):
        return None
    return tuple(n for n in p.shape if isinstance(n, int)), p.dtype.numpy


def _refuse(name: str, p: Any, why: str, fix: str) -> None:
    raise ArgumentError(f"{name}: argument {p.name}", why, fix)


def _as_array(name: str, a: Any) -> Array:
    if isinstance(a, np.ma.MaskedArray):
        why = "is a masked array, whose mask compiled code does not see"
        raise ArgumentError(f"argument {name}", why, f"{name}.filled(0), or {name}.data as it is")
    if isinstance(a, np.ndarray):
        return np.asarray(cast("Array", a))
    if hasattr(a, "__dlpack__"):
        try:
            where = a.__dlpack_device__()[0]
            if where in REACHED:
                return np.from_dlpack(a)
        except Exception as e:  # whatever the code of another library raises
            raise ArgumentError(f"argument {name}", f"cannot be read in place: {e}") from e
        what = ELSEWHERE.get(where, f"a device of DLPack's type {where}")
        raise ArgumentError(
            f"argument {name}", f"is in the memory of {what}", "x.cpu(): a copy in main memory"
        )
    raise ArgumentError(f"argument {name}", f"is {type(a).__name__}, not an array", "a numpy array")
