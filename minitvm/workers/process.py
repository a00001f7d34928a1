"""Run a Python process, and wait for its replies with a time limit, on every system."""

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
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

import psutil

from . import wall
from .folder import remove
from .wall import Wall
from .wire import MAX_BYTES_APART, MAX_TEXT_APART, Message, WireError, receive, send
from .zygote import kill_descendants

BOOT = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"] + (sys.path if given["apart"] else [])
from minitvm.workers.boot import main
main()
"""
FOLDER = "minitvm"  # how names of temporary folders begin; the process that owns them follows
LAST_BYTES, LAST_LINES = 40_000, 20  # of stderr that a failure shows
CLOSE_SECONDS = (
    5.0  # seconds that a busy machine may take to end a process that has closed its pipe
)
TICK_SECONDS = 0.2  # seconds: Windows notices Ctrl-C only between waits
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
LIMITS_APART = (MAX_BYTES_APART, MAX_TEXT_APART)  # of messages from untrusted processes
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "MINITVM_CHECK")
ROOT = str(Path(__file__).resolve().parent.parent.parent)  # the folder of the package


class Process:
    """A process that runs the module named in `options`, in a process group of its own.

    In the caller's process group, Ctrl-C in a terminal would reach it too. Libraries start no
    threads in it, because a process with several threads cannot fork safely. Its temporary files
    are in a folder of its own, and end() deletes them.
    """

    def __init__(self, options: Mapping[str, Any], around: Wall | None = None) -> None:
        self._apart: bool = options["apart"]
        path = [ROOT] if self._apart else [os.path.abspath(p) for p in sys.path]
        prefix = f"{FOLDER}-{os.getpid()}-"
        folder = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
        self._remove_folder = weakref.finalize(self, remove, folder)
        remove_leftovers(os.stat(folder).st_uid)
        self._walled = around is not None
        before = wall.command(around, folder) if around else []
        settings = wall.options() if around else None
        argument = json.dumps({**options, "path": path, "parent": os.getpid(), "wall": settings})
        self._stderr: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  until end()
        self._popen = subprocess.Popen(
            [*before, sys.executable, *(("-P", "-s") if self._apart else ()), "-c", BOOT, argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
            cwd=folder if self._apart else None,
            env=_environment(folder, self._apart),
        )
        self._replies: queue.SimpleQueue[Message | WireError] = queue.SimpleQueue()
        assert self._popen.stdout is not None
        self._reader = threading.Thread(
            target=_pass_on,
            args=(self._popen.stdout, self._replies, LIMITS_APART if self._apart else ()),
            daemon=True,
        )
        self._reader.start()

    def send(self, value: Any, blobs: Sequence[bytes]) -> None:
        """Send a request, and discard what the process has printed so far."""
        assert self._popen.stdin is not None
        self._stderr.seek(0)
        self._stderr.truncate()
        self._let("resume")
        with contextlib.suppress(OSError):  # the process has ended: reply() says so
            send(self._popen.stdin, value, blobs)

    def reply(self, seconds: float) -> Message | WireError | None:
        """Return the next reply, a WireError if the pipe was closed, or None after `seconds`."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                reply = self._replies.get(timeout=max(0.0, min(TICK_SECONDS, left)))
                if isinstance(reply, Message):
                    self._let("suspend")
                return reply
            except queue.Empty:
                if left <= 0:
                    return None

    def _let(self, action: Literal["suspend", "resume"]) -> None:
        """Suspend or resume an untrusted process, with its process group where there is one."""
        if self._apart:
            with contextlib.suppress(OSError, psutil.Error):
                if hasattr(os, "killpg"):
                    number = {"suspend": "SIGSTOP", "resume": "SIGCONT"}[action]
                    os.killpg(self._popen.pid, signal.Signals[number])
                else:
                    getattr(psutil.Process(self._popen.pid), action)()

    @property
    def alive(self) -> bool:
        """Return whether the main thread runs. If it was killed, other threads may end later."""
        with contextlib.suppress(psutil.Error):
            status = psutil.Process(self._popen.pid).status()
            return status != psutil.STATUS_ZOMBIE and self._popen.poll() is None
        return False

    def code(self) -> int:
        """Return the exit code of a process that closed its pipe; -n if signal n ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(CLOSE_SECONDS)
        code = self._popen.poll() or 0
        return wall.ended(code) if self._walled else code

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines that the process printed to stderr since the last request."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - LAST_BYTES))
        text = self._stderr.read().decode(errors="replace").replace("\0", "")
        return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-LAST_LINES:]

    def kill(self) -> None:
        """Kill the process and all processes that it started; safe in any thread."""
        with contextlib.suppress(psutil.Error):
            if self._popen.poll() is None:
                kill_descendants(psutil.Process(self._popen.pid))
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self._popen.pid, signal.SIGKILL)
            else:
                self._popen.kill()

    def end(self) -> None:
        """End the process and all processes that it started; delete its temporary files."""
        self.kill()
        self._popen.wait()
        self._reader.join(1.0)
        if not self._reader.is_alive() and self._popen.stdout is not None:
            self._popen.stdout.close()  # closing would wait for the reader
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        self._stderr.close()
        self._remove_folder()


@cache
def remove_leftovers(user: int) -> None:
    """Remove the temporary folders of a user's processes whose owner was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}-*-*"):
        owner = folder.name.split("-")[1]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            with contextlib.suppress(OSError):  # another process may remove it, too
                if folder.lstat().st_uid == user:
                    remove(str(folder))


def _environment(folder: str, apart: bool) -> dict[str, str]:
    """Return the environment variables of a process whose temporary files are in `folder`."""
    files = {"TMPDIR": folder, "TEMP": folder}
    if not apart:
        return {**os.environ, **ONE_THREAD, **files}
    variables = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**variables, **ONE_THREAD, **files, "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1"}


def _pass_on(
    stream: IO[bytes], replies: queue.SimpleQueue[Message | WireError], limits: Sequence[int]
) -> None:
    """Put each message of `stream` and the final error into `replies`, a queue with timeouts."""
    try:
        while True:
            replies.put(receive(stream, *limits))
    except WireError as e:
        replies.put(e)
    except (OSError, ValueError):  # end() closed the stream
        pass
