"""A line in the terminal that shows the progress of a search."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

from .events import Event, Finished, Measured, Started, fastest, rate, rate_unit
from .policy import Trial
from .task import Task

STEPS = 1000  # steps of the bar
HASH = re.compile("[0-9a-f]{32}")


class ProgressLine:
    """A listener that draws a progress bar with tqdm: best so far, trials, errors, time left."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.bar: Any = None
        self.task: Task | None = None
        self.limits: tuple[int | None, float | None] = (None, None)
        self.earlier = self.errors = 0

    def __call__(self, event: Event) -> None:
        """Update the line for an event."""
        match event:
            case Started():
                self._open(event)
            case Measured():
                self.errors += bool(event.trial.result.error)
                self._draw(event.number, event.best, event.elapsed)
            case Finished():
                self.bar.close()
            case _:
                pass

    def _open(self, event: Started) -> None:
        from tqdm import tqdm

        self.task = event.task
        self.limits = event.trials, event.seconds
        self.earlier = len(event.earlier)
        self.bar = tqdm(
            total=STEPS,
            file=self.file,
            unit="",
            bar_format="{desc} |{bar:20}| {unit}",
            leave=True,
        )
        self.bar.set_description_str(shown(event.task), refresh=False)
        self._draw(self.earlier, fastest(event.earlier), 0.0)

    def _draw(self, number: int, best: Trial | None, elapsed: float) -> None:
        assert self.task is not None
        speed = "-" if best is None else f"{rate(self.task, best.cost):.1f}"
        done = self._done(number, elapsed)
        left = f", {elapsed * (1 - done) / done:.0f} s left" if 0 < done < 1 and elapsed else ""
        text = f"best {speed} {rate_unit(self.task)}, {number} trials, {self.errors} errors{left}"
        self.bar.n = round(STEPS * done)
        self.bar.unit = text  # a postfix would begin with a comma
        self.bar.refresh()

    def _done(self, number: int, elapsed: float) -> float:
        """Return the share of the budget that is used."""
        trials, seconds = self.limits
        shares = [0.0]
        if trials is not None:
            shares.append((number - self.earlier) / max(1, trials - self.earlier))
        if seconds is not None:
            shares.append(elapsed / seconds)
        return min(1.0, max(shares))


def counted(n: int) -> str:
    """Format a large number for people: 4,096 or 4.1 million."""
    if n >= 10**15:
        return f"{n:.2g}"
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if n >= size:
            return f"{n / size:.1f} {name}"
    return f"{n:,}"


def shown(task: Task) -> str:
    """Format the name and the workload of a task for people: matmul(512, 512, 512, float32).

    A task made of formulas is called by their hash; the name of its last tensor stands for it.
    """
    name = task.args[-1].name if HASH.fullmatch(task.name) else task.name
    return f"{name}({', '.join(str(value) for value in task.arguments)})"
