"""The parent's side of a worker: start a process, send requests with a time limit, end it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal, TypeAlias

from .wire import Message, WireError, receive, send

BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])["path"]
from minitvm.workers.boot import main
main()
"""
START = 60.0  # seconds until a process must be ready
LAST_LINES = 20  # of stderr that a failure shows
LONGEST_LINE = 2000  # bytes
TICK = 0.2  # seconds: Windows notices Ctrl-C only between waits
FailureKind: TypeAlias = Literal["crashed", "exited", "timed out"]


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a worker did not answer; returned, not raised, so that a search can continue.

    kind     "crashed": killed by a signal; "exited": ended by itself; "timed out": killed by ask()
    detail   the number of the signal, the exit code, or the time limit in seconds
    stderr   the last lines that the process printed
    """

    kind: FailureKind
    detail: float
    stderr: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "crashed":
                return f"the process was ended by {_signal_name(int(self.detail))}"
            case "exited":
                return f"the process ended with exit code {self.detail:g}"
            case "timed out":
                return f"no answer within {self.detail:g} s"


class Worker:
    """A Python process that runs `module`, which calls serve().

    memory   the limit of its address space in bytes; None for no limit
    The worker ends when this process ends. Use it from one thread at a time, and close() it.
    """

    def __init__(self, module: str, *, memory: int | None = None) -> None:
        self._process = _started(module, memory)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._replies: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._readers = (
            threading.Thread(target=_pass_on, args=(self._process.stdout, self._replies)),
            threading.Thread(target=_keep, args=(self._process.stderr, self._lines)),
        )
        for reader in self._readers:
            reader.daemon = True
            reader.start()
        self._ready = False
        self._closed = False

    def ask(self, value: Any, blobs: Sequence[bytes] = (), *, seconds: float) -> Message | Failure:
        """Send a request and wait for its answer.

        seconds   the time limit for this request, not including the start of the process
        After a Failure or Ctrl-C, the worker is closed.
        """
        try:
            if not self._ready:
                first = self._reply(START)
                if isinstance(first, Failure):
                    return first
                self._ready = True
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):  # the process has ended: _reply returns a Failure
                send(self._process.stdin, value, blobs)
            return self._reply(seconds)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """Return whether the worker can take requests."""
        return not self._closed and self._process.poll() is None

    def close(self) -> None:
        """End the process and all processes that it started."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        pipes = (self._process.stdout, self._process.stderr)
        for reader, pipe in zip(self._readers, pipes, strict=True):
            reader.join(1.0)
            if pipe is not None and not reader.is_alive():  # closing would wait for the reader
                pipe.close()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _reply(self, seconds: float) -> Message | Failure:
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                frame = self._replies.get(timeout=max(0.0, min(TICK, left)))
            except queue.Empty:
                if left > 0:
                    continue
                return self._failure("timed out", seconds)
            return self._ended() if frame is None else frame

    def _ended(self) -> Failure:
        """Return the failure of a process that closed its pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        code = self._process.poll()
        if code is not None and code < 0:
            return self._failure("crashed", -code)
        return self._failure("exited", 0 if code is None else code)

    def _failure(self, kind: FailureKind, detail: float) -> Failure:
        self.close()
        lines = (line.decode(errors="replace").rstrip() for line in self._lines)
        return Failure(kind, detail, tuple(line for line in lines if line))


def _started(module: str, memory: int | None) -> subprocess.Popen[bytes]:
    """Start a Python process with the same sys.path, in a process group of its own.

    In our process group, Ctrl-C in a terminal would reach the worker too. Workers of the main
    thread ask Linux to kill them when that thread ends; other workers end when their pipe is
    closed.
    """
    main = threading.current_thread() is threading.main_thread()
    given = {
        "module": module,
        "path": [os.path.abspath(p) for p in sys.path],
        "memory": memory,
        "parent": os.getpid() if main else None,
    }
    return subprocess.Popen(
        [sys.executable, "-c", BOOT, json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _pass_on(stream: IO[bytes], replies: queue.SimpleQueue[Message | None]) -> None:
    """Put the messages of `stream` into `replies`, which allows timeouts; put None at its end."""
    with contextlib.suppress(WireError, OSError, ValueError):
        while True:
            replies.put(receive(stream))
    replies.put(None)


def _keep(stream: IO[bytes], lines: deque[bytes]) -> None:
    """Read `stream` to its end and add its lines, truncated, to `lines`."""
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(LONGEST_LINE):
            lines.append(line)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
