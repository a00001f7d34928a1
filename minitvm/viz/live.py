"""A Live widget watches work in a thread, or shows recorded work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from .boxes import Box, column, paragraph, picture, text
from .controls import Button, Layout
from .figure import WIDTH, Figure
from .scene import Scene

PAUSE = 0.3  # the least number of seconds between two drawings


class Live(Figure):
    """A widget that watches work in a thread, or shows recorded work.

    A subclass has plan() and lines(), and start() and stop() unless `can_start()` returns None. It
    calls `show_soon` when the work has advanced. A saved notebook shows no live work, because this
    differs from run to run: it shows the plan.

    recorded   whether the widget shows recorded work;  running: whether work is under way
    failure    the exception that ended the work
    """

    recorded = running = False
    failure: Exception | None = None

    def __init__(self) -> None:
        self._shown, self._pause, self._drawing = 0.0, PAUSE, threading.Lock()
        self._thread: threading.Thread | None = None
        super().__init__()

    # --- for subclasses ---

    def plan(self) -> list[str]:
        """Return lines that say what the widget will show; the first is a title."""
        raise NotImplementedError

    def lines(self) -> list[str]:
        """Return the work so far as text."""
        raise NotImplementedError

    def can_start(self) -> bool | None:
        """Return whether Start is enabled; None for a widget without buttons."""
        return None

    def start(self) -> None:
        """Start the work."""

    def stop(self) -> None:
        """End the work soon, keeping all results."""

    def run_in_thread(self, work: Callable[[], object]) -> None:
        """Do the work in a thread; draw at its end, and keep an exception as `failure`."""

        def run() -> None:
            try:
                work()
            except Exception as e:  # an exception in a thread would be lost
                self.failure = e
            self.running = False
            self.refresh()

        self.failure, self.running = None, True
        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def join(self, seconds: float | None) -> None:
        """Wait until the work in the thread ends, or until `seconds` have passed."""
        if self._thread is not None:
            self._thread.join(seconds)

    def show_soon(self, at_once: bool = False) -> None:
        """Draw again, unless the last drawing was just before; draw for a fifth of the time."""
        start = time.perf_counter()
        if at_once or start - self._shown >= self._pause:
            self.refresh()
            self._shown = time.perf_counter()
            self._pause = max(PAUSE, 4 * (self._shown - start))

    # --- what is shown ---

    def refresh(self) -> None:
        """Draw everything again; only one thread draws at a time."""
        with self._drawing:
            if self.failure is not None:
                self.message, self.refused = str(self.failure), True
            super().refresh()

    def scene(self) -> Scene:
        """Draw the work so far."""
        return picture(self.body(), self.title(), "\n".join(self.lines()))

    def picture(self) -> Scene:
        """Draw recorded work; for live work, which differs each time, draw the plan."""
        return self.scene() if self.recorded else picture(self.plan_box(), self.title())

    def plan_box(self) -> Box:
        """Draw the plan as text."""
        first, *others = self.plan()
        words = (paragraph(line, WIDTH, size=13) for line in others)
        return column(text(first, size=13, bold=True, width=WIDTH), *words, gap=2)

    def ascii(self) -> str:
        """Return recorded work as text; for live work, the plan."""
        return "\n".join(self.lines()[:25] if self.recorded else self.plan())

    def layout(self) -> Layout:
        """Return the buttons Start and Stop; none for recorded work."""
        idle = self.can_start()
        if idle is None:
            return Layout()
        tip = "end when the programs under way are measured; all results are kept"
        start = Button("start", "start", idle, "start in a thread")
        return Layout((start, Button("stop", "stop", self.running, tip)))

    def on(self, name: str, value: Any) -> str | None:
        if name == "start":
            return self.start()
        if name == "stop":
            self.stop()
            return "stopping when the programs under way are measured"
        return super().on(name, value)
