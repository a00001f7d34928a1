"""TimingLab: is it really faster? Rival functions measured in turns, as one watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from minitvm.base import ArgumentError

from .chart import text_lines
from .controls import Button, Layout
from .scene import Scene, wrapped
from .timing_plot import SERIES, timing_lines, timing_scene
from .timings import Timing, Verdict, checked_records, names_in, runs, verdicts_of
from .visual import Visual

PAUSE = 0.2  # seconds at least between two drawings while measuring
WIDTH, MARGIN, LINE = 808, 10, 18  # pixels


class TimingLab(Visual):
    """Rival functions on the same arguments: every run, histograms, and which one is faster.

    Start measures in the background, in turns, until `repeat` rounds are done or Stop is pressed
    (the run under way is finished first). The verdict is about medians of ratios within rounds,
    with a bootstrap interval; the first function is the baseline. See minitvm.viz.timings.

    functions   {"naive": f, "tiled": g}: up to six, anything that can be called
    args        what each is called with; the same arrays, so outputs are overwritten
    repeat      rounds that count; warmup: rounds before them, shown but not counted
    seed        of the order within rounds and of the bootstrap

    Text and picture of a saved notebook show no times measured live, as those differ from run to
    run. TimingLab.from_records(lab.records) does: it shows given runs, always alike.
    `running` says whether it is measuring just now.
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
        self._functions = _checked(functions)
        if not isinstance(args, list | tuple):
            raise ArgumentError(
                f"TimingLab(..., {type(args).__name__})", "all arguments come as one", "[a, b, c]"
            )
        self._args = tuple(cast("Sequence[Any]", args))
        self._repeat, self._warmup = _number("repeat", repeat, 1), _number("warmup", warmup, 0)
        self._seed = _number("seed", seed, 0)
        self._records: list[Timing] = []
        self._recorded = False
        self._failure: Exception | None = None
        self._halt = threading.Event()
        self._drawing = threading.Lock()
        self._thread: threading.Thread | None = None
        self.running = False
        super().__init__()

    @classmethod
    def from_records(cls, records: Iterable[Any], *, seed: int = 0) -> TimingLab:
        """A lab that shows given runs: Timing records, or rows (name, seconds, warmup)."""
        given = checked_records(records)
        lab = cls(dict.fromkeys(names_in(given), _nothing), seed=seed)
        lab._records, lab._recorded = list(given), True
        lab.refresh()
        return lab

    # --- measuring ---

    @property
    def records(self) -> tuple[Timing, ...]:
        """The runs so far, in the order in which they were made."""
        return tuple(self._records)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Each function against the first, from the runs so far."""
        return verdicts_of(self.records, self._seed)

    def start(self) -> None:
        """Measure anew in the background; nothing happens if it does so already."""
        if self._recorded:
            raise ArgumentError("start", "these runs are given, not measured", "TimingLab({...})")
        if self.running:
            return
        self._halt.clear()
        self._records, self._failure, self.running = [], None, True
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring after the run under way; the runs so far stay."""
        self._halt.set()

    def wait(self, seconds: float | None = None) -> None:
        """Return when measuring has ended, or after so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def run(self) -> tuple[Verdict, ...]:
        """Measure all rounds now; the verdicts. Raises MeasureError if a function fails."""
        self.start()
        self.wait()
        if self._failure is not None:
            raise self._failure
        return self.verdicts

    def _measure(self) -> None:
        drawn, pause = time.perf_counter(), PAUSE
        try:
            for r in runs(self._functions, self._args, self._repeat, self._warmup, self._seed):
                self._records.append(r)
                if self._halt.is_set():
                    break
                start = time.perf_counter()
                if start - drawn > pause:
                    self.refresh()
                    drawn = time.perf_counter()
                    pause = max(PAUSE, 4 * (drawn - start))  # most of the time is for measuring
        except Exception as e:  # in a thread nobody would see it: refresh() shows it
            self._failure = e
        self.running = False
        self.refresh()

    # --- what is shown ---

    def refresh(self) -> None:
        """Draw everything anew; from any thread, one after another."""
        with self._drawing:
            if self._failure is not None:
                self.message, self.refused = str(self._failure), True
            super().refresh()

    def _status(self) -> str:
        """measuring: run 12 of 66"""
        count = len(self._records)
        if self._recorded:
            return f"{count} recorded runs"
        total = len(self._functions) * (self._repeat + self._warmup)
        if self.running:
            return f"measuring: run {count} of {total}"
        return f"{count} of {total} runs measured" if count else f"{total} runs to measure"

    def scene(self) -> Scene:
        """All runs so far, or what is going to be measured."""
        if self._records:
            return timing_scene(self.records, self._seed, self._status())
        return self._plan()

    def picture(self) -> Scene:
        """The runs if they are given; nothing that differs from run to run."""
        return self.scene() if self._recorded else self._plan()

    def _plan(self) -> Scene:
        lines = [part for line in self._said() for part in wrapped(line, WIDTH - 2 * MARGIN)]
        shapes = text_lines(lines[:1], MARGIN, 22, size=13, bold=True)
        shapes += text_lines(lines[1:], MARGIN, 22 + LINE, size=13, step=LINE)
        height = 22 + LINE * (len(lines) - 1) + MARGIN
        return Scene(WIDTH, height, tuple(shapes), "times of rival functions", " ".join(lines))

    def _said(self) -> list[str]:
        names = ", ".join(self._functions)
        return [
            f"time of a call: {names}",
            f"{self._repeat} rounds of one run each in turns, after {self._warmup} of warm-up",
            "Start in the live widget measures them here and now; lab.run() does so from code",
        ]

    def ascii(self) -> str:
        """Given runs as histograms with the verdict; what is measured live only by name."""
        lines = timing_lines(self.records, self._seed) if self._recorded else self._said()
        return "\n".join(lines[:25])

    def layout(self) -> Layout:
        """Start and Stop, where there is something to measure."""
        if self._recorded:
            return Layout()
        busy = self.running
        return Layout(
            controls=(
                Button("start", "start", not busy, "measure all of them anew, in turns"),
                Button("stop", "stop", busy, "stop after the run under way"),
            )
        )

    def on(self, name: str, value: Any) -> str | None:
        """Start or Stop."""
        if name == "start":
            self.start()
        elif name == "stop":
            self.stop()
        return None


def _nothing(*args: Any) -> None:
    """Stands for a function of which only the runs are known."""


def _checked(functions: Any) -> dict[str, Callable[..., Any]]:
    """The rivals by name, if they are such."""
    if not isinstance(functions, Mapping) or not functions:
        what = f"TimingLab({type(cast('Any', functions)).__name__})"
        raise ArgumentError(what, "no table of functions", '{"naive": f, "tiled": g}')
    table = cast("Mapping[Any, Any]", functions)
    for name, f in table.items():
        if not isinstance(name, str) or not name or not callable(f):
            raise ArgumentError(
                f"TimingLab: {name!r}: {type(f).__name__}", "not a name and a function"
            )
    if len(table) > len(SERIES):
        raise ArgumentError(
            f"TimingLab of {len(table)} functions", f"at most {len(SERIES)} can be told apart"
        )
    return dict(table)


def _number(what: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{what}={value!r}", f"it is a whole number, {least} or more")
    return value
