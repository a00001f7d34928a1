"""Which part of the time that a search takes counts towards its budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable


class Stopwatch:
    """Counts the seconds in which a policy is built, and those after the first result.

    In between, processes start and numba loads the code of the search. On a busy machine that can
    take longer than the whole budget, so it does not count. Searches that share a budget share a
    stopwatch, which starts when it is made.

    is_batch_begun   whether all candidates of a batch have been started: no budget ends before that
    """

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self.timer = timer
        self.is_batch_begun = False
        self._begin = timer()
        self._ready: float | None = None
        self._first: float | None = None

    def ready(self) -> None:
        """Pause until the first result: the policy is built."""
        self._ready = self.timer() if self._ready is None else self._ready

    def measured(self) -> None:
        """Count from now on: there is a result."""
        self._first = self.timer() if self._first is None else self._first

    def counted(self) -> float:
        """Return the seconds that count."""
        seconds = self.timer()
        after = 0.0 if self._first is None else seconds - self._first
        return after + (seconds if self._ready is None else self._ready) - self._begin

    def total(self) -> float:
        """Return all seconds since the start."""
        return self.timer() - self._begin

    def is_over(self, seconds: float | None) -> bool:
        """Return whether a budget of so many seconds is used up; None never is."""
        return seconds is not None and self.is_batch_begun and self.counted() >= seconds
