"""TimingLab: measure functions in turns, watch the runs, and see which function is faster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from minitvm import runtime
from minitvm.base import ArgumentError

from .chart import text_lines
from .controls import Button, Layout
from .scene import Scene, wrapped
from .timing_plot import SERIES, timing_lines, timing_scene
from .timings import LEAST_SECONDS, Speedup, TimedRun, checked_records, names_in, runs, verdicts_of
from .visual import Visual

PAUSE = 0.2  # the least number of seconds between two drawings while measuring
WATCHED = 4.0  # seconds of a live measurement: it can be watched, disturbed and stopped
WIDTH, MARGIN, LINE = 808, 10, 18  # pixels


class TimingLab(Visual):
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
        self._functions = {name: held(f) for name, f in _checked(functions).items()}
        if not isinstance(args, list | tuple):
            raise ArgumentError(
                f"TimingLab(..., {type(args).__name__})", "args is not a list", "[a, b, c]"
            )
        self._args = tuple(cast("Sequence[Any]", args))
        for f in self._functions.values():
            if isinstance(f, runtime.Function):
                f.check(*self._args)  # here, not at the first click
        self._repeat, self._warmup = _number("repeat", repeat, 1), _number("warmup", warmup, 0)
        self._seed = _number("seed", seed, 0)
        self._records: list[TimedRun] = []
        self._recorded = False
        self._failure: Exception | None = None
        self._halt = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None
        self.running = False
        super().__init__()

    @classmethod
    def from_records(cls, records: Iterable[Any], *, seed: int = 0) -> TimingLab:
        """Return a lab that shows runs: TimedRun objects, or rows (name, seconds, warmup)."""
        given = checked_records(records)
        lab = cls(dict.fromkeys(names_in(given), _nothing), seed=seed)
        lab._records, lab._recorded = list(given), True
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
        self._begin(max(LEAST_SECONDS, WATCHED / rounds / len(self._functions)))

    def _begin(self, least: float) -> None:
        """Start to measure in runs of at least `least` seconds."""
        if self._recorded:
            raise ArgumentError("start", "this lab shows recorded runs only", "TimingLab({...})")
        if self.running:
            return
        self._halt.clear()
        self._records, self._failure, self.running = [], None, True
        self._thread = threading.Thread(target=self._measure, args=(least,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current run, keeping the runs so far."""
        self._halt.set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the measurement ends, or until `seconds` have passed."""
        if self._thread is not None:
            self._thread.join(seconds)

    def run(self) -> tuple[Speedup, ...]:
        """Measure all rounds and return the verdicts; raise MeasureError if a function fails."""
        self._begin(LEAST_SECONDS)
        self.wait()
        if self._failure is not None:
            raise self._failure
        return self.verdicts

    def _measure(self, least: float) -> None:
        drawn, pause = time.perf_counter(), PAUSE
        try:
            plan = self._repeat, self._warmup, self._seed
            for r in runs(self._functions, self._args, *plan, least=least):
                self._records.append(r)
                if self._halt.is_set():
                    break
                start = time.perf_counter()
                if start - drawn > pause:
                    self.refresh()
                    drawn = time.perf_counter()
                    pause = max(PAUSE, 4 * (drawn - start))  # draw for at most a fifth of the time
        except Exception as e:  # an exception in a thread would be lost; refresh() shows it
            self._failure = e
        self.running = False
        self.refresh()

    # --- what is shown ---

    def refresh(self) -> None:
        """Draw everything again; only one thread draws at a time."""
        with self._drawing:
            if self._failure is not None:
                self.message, self.refused = str(self._failure), True
            super().refresh()

    def _status(self) -> str:
        """Return the state of the measurement, such as "measuring: run 12 of 66"."""
        count = len(self._records)
        if self._recorded:
            return f"{count} recorded runs"
        total = len(self._functions) * (self._repeat + self._warmup)
        if self.running:
            return f"measuring: run {count} of {total}"
        return f"{count} of {total} runs measured" if count else f"{total} runs to measure"

    def scene(self) -> Scene:
        """Draw all runs so far; before the first run, describe what will be measured."""
        if self._records:
            return timing_scene(self.records, self._seed, self._status())
        return self._plan()

    def picture(self) -> Scene:
        """Draw recorded runs; for a live measurement, which differs each time, draw the plan."""
        return self.scene() if self._recorded else self._plan()

    def _plan(self) -> Scene:
        lines = [part for line in self._summary() for part in wrapped(line, WIDTH - 2 * MARGIN)]
        shapes = text_lines(lines[:1], MARGIN, 22, size=13, bold=True)
        shapes += text_lines(lines[1:], MARGIN, 22 + LINE, size=13, step=LINE)
        height = 22 + LINE * (len(lines) - 1) + MARGIN
        return Scene(WIDTH, height, tuple(shapes), "times of rival functions", " ".join(lines))

    def _summary(self) -> list[str]:
        names = ", ".join(self._functions)
        return [
            f"time of a call: {names}",
            f"{self._repeat} rounds of one run each in turns, after {self._warmup} of warm-up",
            "Start in the live widget measures them here and now; lab.run() does so from code",
        ]

    def ascii(self) -> str:
        """Return recorded runs as histograms with the verdict; for a live lab, only the plan."""
        lines = timing_lines(self.records, self._seed) if self._recorded else self._summary()
        return "\n".join(lines[:25])

    def layout(self) -> Layout:
        """Return the buttons Start and Stop; a lab with recorded runs has none."""
        if self._recorded:
            return Layout()
        busy = self.running
        return Layout(
            controls=(
                Button("start", "start", not busy, "measure all of them again, in turns"),
                Button("stop", "stop", busy, "stop after the run under way"),
            )
        )

    def on(self, name: str, value: Any) -> str | None:
        """Start or stop the measurement."""
        if name == "start":
            self.start()
        elif name == "stop":
            self.stop()
        return None


def held(f: Callable[..., Any]) -> Callable[..., Any]:
    """Copy a function of the notebook, with its current globals; return other callables as is."""
    if not isinstance(f, FunctionType) or f.__globals__.get("__name__") != "__main__":
        return f
    names = dict(f.__globals__)
    for name, value in names.items():
        if isinstance(value, FunctionType) and value.__globals__ is f.__globals__:
            names[name] = _with_names(value, names)
    return _with_names(f, names)


def _with_names(f: FunctionType, names: dict[str, Any]) -> FunctionType:
    copy = FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
    copy.__kwdefaults__ = f.__kwdefaults__
    return copy


def _nothing(*args: Any) -> None:
    """Do nothing; this replaces a function if only its recorded runs are known."""


def _checked(functions: Any) -> dict[str, Callable[..., Any]]:
    """Return `functions` as a dict; raise ArgumentError unless it maps names to callables."""
    if not isinstance(functions, Mapping) or not functions:
        what = f"TimingLab({type(cast('Any', functions)).__name__})"
        raise ArgumentError(what, "not a dict of functions", '{"naive": f, "tiled": g}')
    table = cast("Mapping[Any, Any]", functions)
    for name, f in table.items():
        if not isinstance(name, str) or not name or not callable(f):
            raise ArgumentError(
                f"TimingLab: {name!r}: {type(f).__name__}",
                "not a name and a function",
                '{"tiled": g}',
            )
    if len(table) > len(SERIES):
        raise ArgumentError(
            f"TimingLab of {len(table)} functions",
            f"at most {len(SERIES)} can be told apart",
            "fewer functions",
        )
    return dict(table)


def _number(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(
            f"{what}={value!r}", f"not a whole number of {least} or more", f"{what}={least}"
        )
    return value
