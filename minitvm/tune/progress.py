"""Lines in the terminal that show the progress of a search."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

from .events import Event, Finished, Measured, Started, fastest, rate, rate_unit
from .policy import Trial
from .task import Task

STEPS = 1000  # steps of the bar
HASH = re.compile(r'(\[")?[0-9a-f]{32}')  # formulas are called by it; their key begins with it


class BudgetBar:
    """A progress bar, drawn with tqdm: what is tuned, the used share of the budget, and a text."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.bar: Any = None

    def open(self, title: str) -> None:
        """Draw an empty bar."""
        from tqdm import tqdm

        form = "{desc} |{bar:20}| {unit}"
        self.bar = tqdm(total=STEPS, file=self.file, bar_format=form, unit="", leave=True)
        self.bar.set_description_str(title)

    def draw(self, text: str, elapsed: float, *used: tuple[float, float | None]) -> None:
        """Draw `text` and the time left; `used` has pairs (used, limit), None for no limit."""
        done = min(
            1.0, max((u / max(1e-9, most) for u, most in used if most is not None), default=0)
        )
        left = f", {elapsed * (1 - done) / done:.0f} s left" if 0 < done < 1 and elapsed else ""
        self.bar.n = round(STEPS * done)
        self.bar.unit = text + left  # a postfix would begin with a comma
        self.bar.refresh()


class ProgressLine(BudgetBar):
    """A listener that draws a progress bar with tqdm: best so far, trials, errors, time left."""

    def __call__(self, event: Event) -> None:
        """Update the line for an event."""
        match event:
            case Started():
                self.started, self.errors = event, 0
                self.open(shown(event.task))
                self._draw(len(event.earlier), fastest(event.earlier), 0.0)
            case Measured():
                self.errors += bool(event.trial.result.error)
                self._draw(event.number, event.best, event.elapsed)
            case Finished():
                self.bar.close()
            case _:
                pass

    def _draw(self, number: int, best: Trial | None, elapsed: float) -> None:
        s, earlier = self.started, len(self.started.earlier)
        speed = "-" if best is None else f"{rate(s.task, best.cost):.1f}"
        text = f"best {speed} {rate_unit(s.task)}, {number} trials, {self.errors} errors"
        trials = None if s.trials is None else max(1, s.trials - earlier)
        self.draw(text, elapsed, (number - earlier, trials), (elapsed, s.seconds))


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

    A task made of formulas is called by their hash; the name of its last tensor stands for it. Keys
    of formulas among the arguments are left out.
    """
    name = task.args[-1].name if HASH.fullmatch(task.name) else task.name
    values = map(str, task.arguments)
    return f"{name}({', '.join(value for value in values if not HASH.match(value))})"
