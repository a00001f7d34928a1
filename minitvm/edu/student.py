"""The grader's side of a student's process: start it, run cells, call functions, end it in time."""

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from .data import Reader, Writer, operations
from .item import AnswerError, Problem
from .sandbox import ROOM, ROOT, Limits
from .score import shortened
from .wire import ProtocolError, receive, send

BOOT = """
import sys, types
sys.path.insert(0, sys.argv[1])
import minitvm
room = types.ModuleType("minitvm.edu")
room.__path__ = [sys.argv[2]]
sys.modules["minitvm.edu"] = minitvm.edu = room
from minitvm.edu.child import main
main(sys.argv[3])
"""
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "MINITVM_CHECK")
REPORTS = 50  # reports on cells that failed
RESTARTS = 2  # runs of the other cells after one hung or killed the process


class HangError(Exception):
    """Raised if a student's process does not reply in time."""


class GoneError(Exception):
    """Raised if a student's process has ended or sends no valid reply."""


@dataclass(frozen=True, slots=True)
class CellReport:
    """A cell that failed: its number (from 1), the error, and the lines that caused it."""

    number: int
    error: str
    message: str = ""
    trace: str = ""


class Process:
    """A process that runs a student's cells in a temporary folder; close() removes both."""

    def __init__(self, limits: Limits, hidden: Sequence[Path] = ()) -> None:
        self.limits = limits
        self._hidden = [ROOM, ROOT / "solutions", *hidden]
        self._folder = tempfile.TemporaryDirectory(
            prefix="minitvm-edu-", ignore_cleanup_errors=True
        )
        self._popen = self._started(Path(self._folder.name).resolve())
        self._replies: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._reply(limits.start)

    def _started(self, folder: Path) -> subprocess.Popen[bytes]:
        home = str(folder)
        env = {k: os.environ[k] for k in KEPT if k in os.environ} | {
            "HOME": home, "TMPDIR": home, "TEMP": home, "MPLCONFIGDIR": home,
            "IPYTHONDIR": home, "NUMBA_CACHE_DIR": home, "MPLBACKEND": "Agg",
            "MINITVM_WIDGETS": "static", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        hidden = [str(path) for path in self._hidden]
        told = {"limits": asdict(self.limits), "folder": home, "hidden": hidden}
        return subprocess.Popen(
            [sys.executable, "-P", "-s", "-c", BOOT, str(ROOT), str(ROOM), json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=env,
            start_new_session=True,
        )

    def _listen(self) -> None:
        """Move frames from the pipe to a queue, which supports a timeout on every system."""
        assert self._popen.stdout is not None
        try:
            while True:
                self._replies.put(receive(self._popen.stdout))
        except (ProtocolError, OSError, ValueError, TypeError) as e:
            self._replies.put(e)

    def ask(self, message: Any, arrays: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
        """Send a request and wait for its reply. Raises HangError or GoneError."""
        assert self._popen.stdin is not None
        self._all("resume")
        try:
            send(self._popen.stdin, message, arrays)
        except OSError:
            raise GoneError(self._end()) from None
        return self._reply(self.limits.seconds)

    def _reply(self, seconds: float) -> tuple[Any, list[Any]]:
        try:
            reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise HangError(f"no end after {seconds:g} s") from None
        self._all("suspend")  # its threads would disturb measurements
        if isinstance(reply, Exception) or not isinstance(reply[0], dict):
            raise GoneError(self._end())
        return reply

    def _end(self) -> str:
        """Close the process and describe how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)
        code = self._popen.poll()
        self.close()
        if code is None:
            return "it closed its connection"
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

    def _all(self, action: Literal["suspend", "resume", "kill"]) -> None:
        """Send a signal to the process or, on systems with process groups, to its whole group."""
        with contextlib.suppress(OSError, psutil.Error):
            if hasattr(os, "killpg"):
                kinds = {"suspend": "SIGSTOP", "resume": "SIGCONT", "kill": "SIGKILL"}
                os.killpg(self._popen.pid, signal.Signals[kinds[action]])
            else:
                getattr(psutil.Process(self._popen.pid), action)()

    def close(self) -> None:
        """End the process and all processes that it started, and delete its folder."""
        with contextlib.suppress(psutil.Error):
            for p in psutil.Process(self._popen.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    p.kill()
        self._all("kill")
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()


class Student:
    """A notebook that has been run, and whose functions can be called.

    failed   the cells that did not run to the end
    hidden   paths that the notebook must not read, besides minitvm/edu and solutions/
    """

    def __init__(
        self, cells: Sequence[tuple[int, str]], limits: Limits, hidden: Sequence[Path] = ()
    ) -> None:
        self._cells, self._limits, self._hidden = list(cells), limits, hidden
        self._left_out: set[int] = set()
        self.failed: list[CellReport] = []
        self._process: Process | None = None
        self._starts = 0
        self._run()

    def _run(self) -> None:
        """Run all cells in a new process, except cells that hung or ended a process before."""
        while self._starts <= RESTARTS:
            self._starts += 1
            self.failed = [r for r in self.failed if r.number in self._left_out]
            self._process = Process(self._limits, self._hidden)
            if all(self._cell(self._process, n, source) for n, source in self._cells):
                self.failed.sort(key=lambda r: r.number)
                return
        self._process = None

    def _cell(self, process: Process, number: int, source: str) -> bool:
        """Run one cell; return False if the process is lost."""
        if number in self._left_out:
            return True
        try:
            reply, _ = process.ask({"do": "cell", "number": number, "source": source})
        except (HangError, GoneError) as e:
            self._left_out.add(number)
            kind = "time is up" if isinstance(e, HangError) else "the process died"
            self.failed.append(CellReport(number, kind, str(e)))
            return False
        if "error" in reply and len(self.failed) < REPORTS:
            self.failed.append(CellReport(number, *error_texts(reply)))
        return True

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Call a function of the notebook; return its value as the grader's own data.

        Raises AnswerError if there is no usable value.
        """
        if self._process is None:
            raise AnswerError("crash", "the notebook cannot be run: see its cells")
        writer = Writer()
        packed: list[Any] = []
        for a in arguments:
            if isinstance(a, Problem):
                rest = writer.write(list(a.arguments))
                packed.append({"source": a.source, "name": a.name, "arguments": rest})
            else:
                packed.append(writer.write(a))
        message = {"do": "call", "name": name, "arguments": packed}
        try:
            reply, arrays = self._process.ask(message, writer.arrays)
        except (HangError, GoneError) as e:
            self._process = None
            self._run()
            if isinstance(e, HangError):
                raise AnswerError("timeout", f"{name}: {e}") from None
            raise AnswerError("crash", f"{name} ended the process: {e}") from None
        if "error" in reply:
            raise answer_error(name, *error_texts(reply))
        return decoded(name, reply, arrays, arguments)

    def close(self) -> None:
        """End the student's process."""
        if self._process is not None:
            self._process.close()


def error_texts(reply: dict[str, Any]) -> tuple[str, str, str]:
    """Return the error, message and trace in a reply, each shortened."""
    error, message, trace = (
        shortened(str(reply.get(k, ""))) for k in ("error", "message", "trace")
    )
    return error, message, trace


def decoded(name: str, reply: Any, arrays: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """Rebuild the value in a reply from its JSON and the grader's own copy of each problem."""
    made = [x for a in arguments if isinstance(a, Problem) for x in a.made]
    intrins = [x for x in made if type(x).__name__ == "TensorIntrin"]
    try:
        return Reader(reply["rows"], arrays, operations(made), intrins).read(reply["value"])
    except Exception as e:  # whatever a student's process sends, it is a wrong answer
        raise AnswerError("unreadable", f"{name} returned an unusable value: {e}") from None


def answer_error(name: str, error: str, message: str, trace: str) -> AnswerError:
    """Return the AnswerError for an exception in the student's function."""
    if error == "missing":
        return AnswerError("not-started", f"there is no function called {name}")
    if error == "NotImplementedError":
        return AnswerError("not-started", message)
    if "cannot be handed in" in message:
        return AnswerError("wrong-type", f"what {name} returned: {message}")
    where = f"\n{trace}" if trace else ""
    return AnswerError("raises", f"{name} raised {error}: {message}{where}")
