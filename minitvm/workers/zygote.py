"""A process that has imported everything and forks the children that answer the requests.

caller  -- request -->  zygote  -- request -->  child
        <-- reply ----          <-- reply ----

A child that dies is replaced in milliseconds, because the next one needs no imports. The zygote
passes whole frames on, so a child that dies while it writes does not disturb the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import IO, NamedTuple, TypeAlias

import psutil

from .wire import ClosedError, Message, WireError, receive, send

FORKS = sys.platform == "linux"  # on macOS, libraries do not survive a fork
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CHECK_SECONDS = 1.0  # seconds between two checks that the caller is alive
END_SECONDS = 1.0  # seconds that a child may take to end after it has closed its pipe
Answer: TypeAlias = Callable[[Message], Message]


class Pipes(NamedTuple):
    """The pipes through which a process gets requests and sends replies."""

    requests: IO[bytes]
    replies: IO[bytes]


def fork_children(caller: Pipes, answer: Answer, parent: int, renew: int | None) -> Pipes:
    """Answer requests in forked children, one after the other.

    Returns only in a child, with the pipes of that child.

    parent   the caller's process; this process and its child end when it dies
    renew    the number of requests after which a child is replaced
    A request to prepare is answered in this process, so that all later children have its effects.
    """
    _adopt_orphans()
    gc.freeze()  # garbage collection in children must not copy shared memory
    request: Message | None = None
    while True:
        child = _forked(caller)
        if isinstance(child, Pipes):
            return child
        served_count, alive = 0, True
        while alive and served_count != renew:
            request = request or _next_request(caller, parent)
            if request.value["prepare"]:
                reply = answer(Message(request.value["value"], request.blobs))
                reply, alive = Message({"answer": reply.value}, reply.blobs), False
            elif child.status() is not None:  # it was killed while idle: the next one answers
                break
            else:
                reply, alive = _asked(child, request, caller, parent)
            send(caller.replies, *reply)
            request, served_count = None, served_count + 1
        child.end(0)
        _end_orphans()


def die_with_parent(parent: int) -> None:
    """Make Linux kill this process when `parent` dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        os._exit(0)


def _adopt_orphans() -> None:
    """Become the parent of the processes that a dead child started."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_orphans() -> None:
    """Kill all processes that a dead child started, even in process groups of their own."""
    end = time.monotonic() + END_SECONDS
    with contextlib.suppress(ChildProcessError):  # none is left
        while time.monotonic() < end:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                kill_descendants(psutil.Process())


def kill_descendants(process: psutil.Process) -> None:
    """Kill all processes that `process` has started, directly or not."""
    with contextlib.suppress(psutil.Error):
        for p in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                p.kill()


class Child:
    """A forked process, as the zygote sees it."""

    def __init__(self, pid: int, pipes: Pipes) -> None:
        self.pipes = pipes
        self._pid = pid
        self._status: int | None = None

    def status(self) -> int | None:
        """Return the exit code, or -n if signal n ended the child; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def end(self, seconds: float) -> int:
        """Kill the child unless it ends within `seconds` seconds; return its exit code."""
        end = time.monotonic() + seconds
        while self.status() is None and time.monotonic() < end:
            time.sleep(0.001)
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        for pipe in self.pipes:
            with contextlib.suppress(OSError):  # bytes that the child did not read
                pipe.close()
        return self._status


def _forked(caller: Pipes) -> Child | Pipes:
    """Fork this process; return a Child in the parent, and the child's Pipes in the child."""
    zygote = os.getpid()
    (requests, asks), (answers, replies) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(requests)
        os.close(replies)
        return Child(pid, Pipes(os.fdopen(answers, "rb"), os.fdopen(asks, "wb")))
    die_with_parent(zygote)
    os.close(asks)
    os.close(answers)
    caller.requests.close()
    caller.replies.close()
    return Pipes(os.fdopen(requests, "rb"), os.fdopen(replies, "wb"))


def _asked(child: Child, request: Message, caller: Pipes, parent: int) -> tuple[Message, bool]:
    """Return the child's reply, or how it ended, and whether it is alive.

    A child ends itself at the time limit of its request, so this wait always ends.
    """
    replies, requests = child.pipes
    try:
        with contextlib.suppress(BrokenPipeError):
            send(requests, *request)
        _wait(replies, caller, parent, child)
        return receive(replies), True
    except ClosedError:
        return Message({"ended": child.end(END_SECONDS)}), False
    except WireError as e:
        child.end(0)
        return Message({"garbage": str(e)}), False


def _next_request(caller: Pipes, parent: int) -> Message:
    _wait(caller.requests, caller, parent)
    try:
        return receive(caller.requests)
    except WireError:
        os._exit(0)


def _wait(stream: IO[bytes], caller: Pipes, parent: int, child: Child | None = None) -> None:
    """Wait until `stream` can be read; end this process and its child if the caller has ended.

    Raises ClosedError if `child` has ended, even if processes that it started keep the pipe open.
    """
    while True:
        ready_streams = select.select([stream, caller.requests], [], [], CHECK_SECONDS)[0]
        if stream in ready_streams:
            return
        if ready_streams or os.getppid() != parent:  # during a request, the caller sends nothing
            os._exit(0)
        if child is not None and child.status() is not None:
            raise ClosedError("the child has ended")
