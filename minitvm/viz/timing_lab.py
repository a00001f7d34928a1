"""TimingLab: measure functions alternately, watch the runs, and see which function is faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any, cast

from minitvm import runtime
from minitvm.base import ArgumentError, check_count

from .boxes import Box
from .live import Live
from .timing_plot import SERIES, timing_box, timing_lines
from .timings import MIN_SECONDS, Speedup, TimedRun, checked_records, names_in, runs, verdicts_of

WATCHED = 4.0  # seconds of a live measurement: it can be watched, disturbed and stopped


class TimingLab(Live):
    """Compare functions on the same arguments: every run, histograms, and which one is faster.

    The Start button measures in the background, in turns, until `repeat` rounds are done or Stop is
    pressed; the current run is finished first. Quick functions are called several times in a run,
    so that the rounds take at least four seconds together and can be watched. The verdict gives the
    median of the ratios within rounds, with a bootstrap interval; the first function is the
    baseline. See minitvm.viz.timings.

    functions   {"naive": f, "tiled": g}: up to six callables
    args        the arguments of every call; all functions overwrite the same output arrays.
                Compiled functions check the arguments at once
    repeat      the number of measured rounds
    warmup      the number of warm-up rounds; they are shown, but do not affect the verdict
    seed        the seed of the order within rounds and of the bootstrap

    A function defined in the notebook keeps the current values of the global names that it uses,
    even if later cells reassign them. A saved notebook shows no live measurements, because they
    differ from run to run; it does show TimingLab.from_records(lab.records). `running` is True
    during a measurement.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        args: Sequence[Any] = (),
        *,
        repeat: int = 30,
        warmup: int = 3,
        seed: int = 0,
    ) -> None:
        self._functions = {name: with_own_globals(f) for name, f in _checked(functions).items()}
        if not isinstance(args, list | tuple):
            why = "args is not a list"
            raise ArgumentError(f"TimingLab(..., {type(args).__name__})", why, "[a, b, c]")
        self._args = tuple(cast("Sequence[Any]", args))
        for f in self._functions.values():
            if isinstance(f, runtime.Function):
                f.check(*self._args)  # here, not at the first click
        self._repeat, self._warmup = check_count("repeat", repeat), check_count("warmup", warmup, 0)
        self._seed = check_count("seed", seed, 0)
        self._records: list[TimedRun] = []
        self._halt = threading.Event()
        super().__init__()

    @classmethod
    def from_records(cls, records: Iterable[Any], *, seed: int = 0) -> TimingLab:
        """Return a lab that shows runs: TimedRun objects, or rows (name, seconds, warmup)."""
        runs = checked_records(records)
        lab = cls(dict.fromkeys(names_in(runs), lambda *_: None), seed=seed)
        lab._records, lab.recorded = list(runs), True
        lab.refresh()
        return lab

    # --- measuring ---

    @property
    def records(self) -> tuple[TimedRun, ...]:
        """The runs so far, in the order of measuring."""
        return tuple(self._records)

    @property
    def verdicts(self) -> tuple[Speedup, ...]:
        """The comparison of each function with the first, from the runs so far."""
        return verdicts_of(self.records, self._seed)

    def start(self) -> None:
        """Discard the runs and measure in the background, unless a measurement is running."""
        rounds = self._repeat + self._warmup
        self._begin(max(MIN_SECONDS, WATCHED / rounds / len(self._functions)))

    def _begin(self, least: float) -> None:
        """Start to measure in runs of at least `least` seconds."""
        if self.recorded:
            raise ArgumentError("start", "this lab shows recorded runs only", "TimingLab({...})")
        if not self.running:
            self._halt.clear()
            self._records = []
            self.run_in_thread(partial(self._measure, least))

    def stop(self) -> None:
        """Stop after the current run, keeping the runs so far."""
        self._halt.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the measurement ends, or until `seconds` have passed."""
        self.join(seconds)

    def run(self) -> tuple[Speedup, ...]:
        """Measure all rounds and return the verdicts; raise MeasureError if a function fails."""
        self._begin(MIN_SECONDS)
        self.wait()
        if self.failure is not None:
            raise self.failure
        return self.verdicts

    def _measure(self, least: float) -> None:
        plan = self._repeat, self._warmup, self._seed
        for r in runs(self._functions, self._args, *plan, least=least):
            self._records.append(r)
            if self._halt.is_set():
                break
            self.show_soon()

    # --- what is shown ---

    def _status(self) -> str:
        """Return the state of the measurement, such as "measuring: run 12 of 66"."""
        count = len(self._records)
        if self.recorded:
            return f"{count} recorded runs"
        total = len(self._functions) * (self._repeat + self._warmup)
        if self.running:
            return f"measuring: run {count} of {total}"
        return f"{count} of {total} runs measured" if count else f"{total} runs to measure"

    def title(self) -> str:
        return "times of rival functions"

    def body(self) -> Box:
        """Draw all runs so far; before the first run, describe what will be measured."""
        if self._records:
            return timing_box(self.records, self._seed, self._status())
        return self.plan_box()

    def plan(self) -> list[str]:
        names = ", ".join(self._functions)
        return [
            f"time of a call: {names}",
            f"{self._repeat} rounds of one run each in turns, after {self._warmup} of warm-up",
            "Start in the live widget measures them here and now; lab.run() does so from code",
        ]

    def lines(self) -> list[str]:
        return timing_lines(self.records, self._seed) if self._records else self.plan()

    def can_start(self) -> bool | None:
        return None if self.recorded else not self.running


def with_own_globals(f: Callable[..., Any]) -> Callable[..., Any]:
    """Copy a function of the notebook, with its current globals; return other callables as is."""
    if not isinstance(f, FunctionType) or f.__globals__.get("__name__") != "__main__":
        return f
    names = dict(f.__globals__)

    def copied(g: FunctionType) -> FunctionType:
        copy = FunctionType(g.__code__, names, g.__name__, g.__defaults__, g.__closure__)
        copy.__kwdefaults__ = g.__kwdefaults__
        return copy

    for name, value in names.items():
        if isinstance(value, FunctionType) and value.__globals__ is f.__globals__:
            names[name] = copied(value)
    return copied(f)


def _checked(functions: Any) -> dict[str, Callable[..., Any]]:
    """Return `functions` as a dict; raise ArgumentError unless it maps names to callables."""
    if not isinstance(functions, Mapping) or not functions:
        what = f"TimingLab({type(cast('Any', functions)).__name__})"
        raise ArgumentError(what, "not a dict of functions", '{"naive": f, "tiled": g}')
    table = cast("Mapping[Any, Any]", functions)
    for name, f in table.items():
        if not isinstance(name, str) or not name or not callable(f):
            why = "not a name and a function"
            raise ArgumentError(f"TimingLab: {name!r}: {type(f).__name__}", why, '{"tiled": g}')
    if len(table) > len(SERIES):
        why = f"at most {len(SERIES)} can be told apart"
        raise ArgumentError(f"TimingLab of {len(table)} functions", why, "fewer functions")
    return dict(table)
