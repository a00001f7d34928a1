"""The child's side of a worker: answer requests from a pipe, one at a time."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import IO

from .wire import Message, WireError, receive, send
from .zygote import Answer, Pipes, fork_children

MIN_SECONDS = 1e-6  # seconds; 0 would mean no limit


def serve(answer: Answer) -> None:
    """Answer requests until the parent process closes the pipe or dies.

    Call this from a module that Worker starts. An exception in `answer` ends the process, and the
    parent gets the traceback. The output of print() goes to stderr.
    """
    options = json.loads(sys.argv[1])
    pipes = _detached()
    send(pipes.replies, "ready")
    if options["forks"]:
        pipes = fork_children(pipes, answer, options["parent"], options["renew"])
    # a second thread makes forks unsafe, and keeps the rights that an untrusted process gives up
    one_thread = options["forks"] or options["apart"]
    take = partial(_taken, pipes.requests) if one_thread else _listener(pipes.requests)
    while True:
        value, blobs = take()
        _limit_time(value["seconds"], value["cpu_seconds"])
        reply = answer(Message(value["value"], blobs))
        _limit_time(None, None)
        send(pipes.replies, {"answer": reply.value}, reply.blobs)


def _limit_time(seconds: float | None, cpu_seconds: float | None) -> None:
    """Make the system end this process after these times, even in native code; None: no limit."""
    if hasattr(signal, "setitimer"):  # on Windows, the parent ends this process
        timers = ((signal.ITIMER_REAL, seconds), (signal.ITIMER_PROF, cpu_seconds))
        for timer, limit in timers:
            signal.setitimer(timer, 0 if limit is None else max(MIN_SECONDS, limit))


def _taken(requests: IO[bytes]) -> Message:
    """Return the next request; end the process if the pipe is closed."""
    try:
        return receive(requests)
    except WireError:
        os._exit(0)


def _listener(requests: IO[bytes]) -> Callable[[], Message]:
    """Return a function that waits for a request; end the process as soon as the pipe is closed."""
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            messages.put(_taken(requests))

    threading.Thread(target=listen, daemon=True).start()
    return messages.get


def _detached() -> Pipes:
    """Return stdin and stdout as pipes, and detach print() and input() from them."""
    pipes = Pipes(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return pipes
