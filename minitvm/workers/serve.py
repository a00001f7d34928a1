"""The child's side of a worker: answer requests from a pipe, one at a time."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import IO

from .wire import Message, WireError, receive, send


def serve(answer: Callable[[Message], Message]) -> None:
    """Answer requests until the parent process closes the pipe or dies.

    Call this from a module that Worker starts. An exception in `answer` ends the process, and the
    parent gets the traceback. The output of print() goes to stderr.
    """
    requests, replies = _channel()
    waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    send(replies, "ready")
    while True:
        send(replies, *answer(waiting.get()))


def _listen(requests: IO[bytes], waiting: queue.SimpleQueue[Message]) -> None:
    """Queue requests; end the process immediately when the pipe ends."""
    while True:
        try:
            waiting.put(receive(requests))
        except WireError:
            os._exit(0)


def _channel() -> tuple[IO[bytes], IO[bytes]]:
    """Return stdin and stdout as (requests, replies), and detach print() and input() from them."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies
