"""A search in a thread, so that a notebook cell returns at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from minitvm.base import MeasureError

from .events import Event, Finished, Listener, Measured, Outcome
from .limits import Limits
from .policy import Policy, Trial
from .search import run
from .task import Task

LAST_WORDS = 60.0  # after Ctrl-C, the seconds that `wait` leaves to programs being measured


class Search:
    """A search that runs in its own thread.

        search = Search(task, seconds=60, log="matmul.jsonl").start()
        search.best                 the fastest trial so far
        search.stop()               finish the programs that are being measured
        search.wait()               the Outcome, or the exception that ended the search

    The arguments are those of `run`. `events` are all events so far.
    """

    def __init__(self, task: Task, policy: Policy | None = None, **options: Any) -> None:
        listener: Listener | None = options.pop("on", None)
        limits = {name: options[name] for name in Limits.__slots__ if name in options}
        Limits(**limits)  # raises errors here, not later in the thread
        self.task = task
        self.events = list[Event]()
        self._listeners = [] if listener is None else [listener]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._run: Callable[[], Outcome] = partial(
            run, task, policy, on=self._report, stop=self._stop, **options
        )
        self._thread = threading.Thread(target=self._work, name=f"tune {task.name}", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> Self:
        """Start the thread; return this search."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let the search finish the programs that are being measured, and then end."""
        self._stop.set()

    @property
    def running(self) -> bool:
        """Return whether the search has been started and has not ended."""
        return self._thread.is_alive()

    @property
    def best(self) -> Trial | None:
        """Return the fastest trial so far, or None before the first."""
        for event in reversed(self.events):
            if isinstance(event, Finished):
                return event.outcome.found
            if isinstance(event, Measured):
                return event.best
        return None

    @property
    def outcome(self) -> Outcome | None:
        """Return the result; None if the search has not ended."""
        last = self.events[-1] if self.events else None
        return last.outcome if isinstance(last, Finished) else None

    def wait(self, timeout: float | None = None) -> Outcome:
        """Wait until the search has ended; return its result, or raise the exception it raised.

        Ctrl-C stops the search and returns its result so far. Raises MeasureError if the search has
        not ended after `timeout` seconds; the search then keeps running.
        """
        if self._thread.ident is None:
            raise MeasureError(f"search for {self.task.name}", "it was not started", "start()")
        try:
            self._thread.join(timeout)
        except KeyboardInterrupt:
            self.stop()
            self._thread.join(LAST_WORDS)
        if self._failure is not None:
            raise self._failure
        outcome = self.outcome
        if outcome is None:
            why = f"it has not ended after {timeout} seconds"
            raise MeasureError(f"search for {self.task.name}", why, "stop(), or wait longer")
        return outcome

    def listen(self, listener: Listener) -> None:
        """Call the listener with all events so far, and then with each new one.

        New events arrive in the thread of the search.
        """
        with self._lock:
            for event in self.events:
                listener(event)
            self._listeners.append(listener)

    def _report(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            for listener in self._listeners:
                listener(event)

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as e:
            self._failure = e
