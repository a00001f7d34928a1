"""Run long calls of C code so that Ctrl-C takes effect during the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
TICK_SECONDS = 0.2  # seconds: Windows notices Ctrl-C only between waits


def interruptibly(work: Callable[[], T]) -> T:
    """Run `work` and return its value; Ctrl-C raises KeyboardInterrupt without waiting for `work`.

    Python raises KeyboardInterrupt in the main thread, and only between two instructions of Python.
    So the main thread waits while another thread runs `work`. After Ctrl-C, `work` still runs
    to its end, and its value is lost.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as e:  # raised again by done.result()
            future.set_exception(e)

    threading.Thread(target=run, name="minitvm-compile", daemon=True).start()
    while not future.done():
        wait([future], TICK_SECONDS)
    return future.result()
