"""The hook by which a tuned schedule replaces the default schedule of topi.schedule."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from minitvm import te
from minitvm.base import ArgumentError, Target

Dispatcher: TypeAlias = Callable[[list[te.Tensor], Target], te.Schedule | None]
_dispatcher: ContextVar[Dispatcher | None] = ContextVar("dispatcher", default=None)


def get() -> Dispatcher | None:
    """Return the dispatcher of the innermost `using`, or None."""
    return _dispatcher.get()


@contextmanager
def using(dispatcher: Dispatcher) -> Generator[None]:
    """Let topi.schedule ask `dispatcher(outputs, target)` first, inside this `with` statement.

    The dispatcher returns a schedule, or None for the default one. It replaces an outer dispatcher.
    Other threads are not affected: a new thread starts without a dispatcher. While the dispatcher
    itself runs, topi.schedule returns the default schedule.
    """
    if not callable(dispatcher):
        why = "it is not a function"
        raise ArgumentError(f"dispatcher {dispatcher!r}", why, "lambda outputs, target: None")
    token = _dispatcher.set(dispatcher)
    try:
        yield
    finally:
        _dispatcher.reset(token)


def dispatched(outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
    """Return the schedule that the current dispatcher chooses, or None for the default one."""
    ask = _dispatcher.get()
    if ask is None:
        return None
    token = _dispatcher.set(None)
    try:
        return ask(outputs, target)
    finally:
        _dispatcher.reset(token)
