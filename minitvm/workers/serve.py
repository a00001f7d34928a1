"""The child's side of a worker: answer requests from a pipe, one at a time."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import IO

from .wire import Frame, WireError, receive, send


def serve(answer: Callable[[Frame], Frame]) -> None:
    """Answer requests until the parent process closes the pipe or dies.

    Call it from a module that is started by Worker. An exception in `answer` ends the process; its
    traceback is what the parent sees. What the process prints goes to stderr.
    """
    requests, replies = _channel()
    waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    send(replies, "ready")
    while True:
        send(replies, *answer(waiting.get()))


def _listen(requests: IO[bytes], waiting: queue.SimpleQueue[Frame]) -> None:
    """Queue requests; end the process immediately when the pipe ends."""
    while True:
        try:
            waiting.put(receive(requests))
        except WireError:
            os._exit(0)


def _channel() -> tuple[IO[bytes], IO[bytes]]:
    """Take over stdin and stdout as (requests, replies), out of reach of print() and input()."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies
