"""A Python process whose replies can be waited for with a time limit, on every system."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from .wire import Message, WireError, receive, send

BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])["path"]
from minitvm.workers.boot import main
main()
"""
LAST_BYTES, LAST_LINES = 40_000, 20  # of stderr that a failure shows
TICK = 0.2  # seconds: Windows notices Ctrl-C only between waits
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}


class Process:
    """A process that runs the module named in `given`, in a process group of its own.

    In our process group, Ctrl-C in a terminal would reach it too. Libraries start no threads in it,
    because a process with several threads cannot fork safely.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        path = [os.path.abspath(p) for p in sys.path]
        told = json.dumps({**given, "path": path, "parent": os.getpid()})
        self._stderr: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  until end()
        self._popen = subprocess.Popen(
            [sys.executable, "-c", BOOT, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            env={**os.environ, **ONE_THREAD},
        )
        self._replies: queue.SimpleQueue[Message | WireError] = queue.SimpleQueue()
        assert self._popen.stdout is not None
        self._reader = threading.Thread(
            target=_pass_on, args=(self._popen.stdout, self._replies), daemon=True
        )
        self._reader.start()

    def send(self, value: Any, blobs: Sequence[bytes]) -> None:
        """Send a request; forget what the process has printed before."""
        assert self._popen.stdin is not None
        self._stderr.seek(0)
        self._stderr.truncate()
        with contextlib.suppress(OSError):  # the process has ended: reply() says so
            send(self._popen.stdin, value, blobs)

    def reply(self, seconds: float) -> Message | WireError | None:
        """Return the next reply, a WireError if the pipe was closed, or None after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                return self._replies.get(timeout=max(0.0, min(TICK, left)))
            except queue.Empty:
                if left <= 0:
                    return None

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._popen.poll() is None

    def code(self) -> int:
        """Return the exit code of a process that closed its pipe; -n if signal n ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)
        return self._popen.poll() or 0

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines that were printed since the last request."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - LAST_BYTES))
        text = self._stderr.read().decode(errors="replace").replace("\0", "")
        return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-LAST_LINES:]

    def end(self) -> None:
        """End the process and all processes that it started."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._popen.pid, signal.SIGKILL)
            else:
                self._popen.kill()
        self._popen.wait()
        self._reader.join(1.0)
        if not self._reader.is_alive() and self._popen.stdout is not None:
            self._popen.stdout.close()  # closing would wait for the reader
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        self._stderr.close()


def _pass_on(stream: IO[bytes], replies: queue.SimpleQueue[Message | WireError]) -> None:
    """Put the messages of `stream` into `replies`, which allows timeouts, and then the error."""
    try:
        while True:
            replies.put(receive(stream))
    except WireError as e:
        replies.put(e)
    except (OSError, ValueError):  # end() closed the stream
        pass
