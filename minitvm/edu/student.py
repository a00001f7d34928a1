"""The grader's side of a student's process: start it, run cells, call functions, end it in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from minitvm import tensor, workers

from .data import Reader, Writer, operations
from .item import AnswerError, ChangedError, Kept, Problem, StartError, expanded
from .sandbox import PACKAGE, ROOT, Limits, tier, wall_around
from .score import shortened

JOB = "minitvm.edu.notebook_job"
MAX_REPORTS = 50  # the most reports on failed cells
RESTARTS = 2  # times that a new process runs the other cells after one hung or killed its process


@dataclass(frozen=True, slots=True)
class CellReport:
    """A cell that failed: its number (from 1), the error, and the lines that caused it."""

    number: int
    error: str
    message: str = ""
    trace: str = ""


def confined_worker(job: str, limits: Limits, hidden: Sequence[str]) -> workers.Worker:
    """Start a process that confines itself before it runs anything of a student.

    job      a module that answers a request with "limits", "hidden" and "rules" by confine()
    hidden   paths that it must not read
    Raises StartError if the process does not start.
    """
    worker = workers.Worker(job, apart=True, wall=wall_around(hidden))
    rules = {"hidden": list(hidden), "rules": tier() != "fence"}
    lost = worker.prepare({"limits": asdict(limits), **rules})
    if lost is not None:
        worker.close()
        raise StartError("\n".join([str(lost), *lost.stderr]))
    return worker


class Student:
    """A notebook that has been run, and whose functions can be called.

    failed   the cells that did not run to the end
    hidden   paths that the notebook must not read, besides minitvm/edu and solutions/
    """

    def __init__(
        self, cells: Sequence[tuple[int, str]], limits: Limits, hidden: Sequence[Path] = ()
    ) -> None:
        self._cells, self._limits = list(cells), limits
        self._hidden = [str(path) for path in (PACKAGE, ROOT / "solutions", *hidden)]
        self._left_out: set[int] = set()
        self.failed: list[CellReport] = []
        self._worker: workers.Worker | None = None
        self._starts = 0
        self._run()

    def _run(self) -> None:
        """Run all cells in a new process, except cells that hung or ended a process before."""
        while self._starts <= RESTARTS:
            self._starts += 1
            self.failed = [r for r in self.failed if r.number in self._left_out]
            worker = self._started()
            if all(self._cell(worker, n, source) for n, source in self._cells):
                self.failed.sort(key=lambda r: r.number)
                return
        self.close()

    def _started(self) -> workers.Worker:
        self.close()
        self._worker = confined_worker(JOB, self._limits, self._hidden)
        return self._worker

    def _ask(
        self, worker: workers.Worker, value: Any, blobs: Sequence[bytes] = ()
    ) -> workers.Message | workers.Failure:
        reply = worker.ask(value, blobs, seconds=self._limits.seconds)
        if isinstance(reply, workers.Message) and not isinstance(reply.value, dict):
            return workers.Failure("garbage")
        return reply

    def _cell(self, worker: workers.Worker, number: int, source: str) -> bool:
        """Run one cell; return False if the process is lost."""
        if number in self._left_out:
            return True
        reply = self._ask(worker, {"cell": number, "source": source})
        if isinstance(reply, workers.Failure):
            self._left_out.add(number)
            kind = "time is up" if reply.kind == "timed out" else "the process died"
            self.failed.append(CellReport(number, kind, end_of(reply)))
            return False
        if "error" in reply.value and len(self.failed) < MAX_REPORTS:
            self.failed.append(CellReport(number, *error_texts(reply.value)))
        return True

    def call(self, name: str, arguments: Sequence[Any]) -> Any:
        """Call a function of the notebook; return its value as the grader's own data.

        Raises AnswerError if there is no usable value.
        """
        if self._worker is None:
            raise AnswerError("crash", "the notebook cannot be run: see its cells")
        writer = Writer()
        packed: list[Any] = []
        for a in arguments:
            if isinstance(a, Problem):
                rest = writer.write(list(a.arguments))
                packed.append({"source": a.source, "name": a.name, "arguments": rest})
            elif isinstance(a, Kept):
                packed.append({"kept": writer.write(a.value)})
            else:
                packed.append(writer.write(a))
        reply = self._ask(self._worker, {"call": name, "arguments": packed}, writer.blobs)
        if isinstance(reply, workers.Failure):
            self._run()
            if reply.kind == "timed out":
                raise AnswerError("timeout", f"{name}: {end_of(reply)}")
            raise AnswerError("crash", f"{name} ended the process: {end_of(reply)}")
        if "error" in reply.value:
            raise answer_error(name, *error_texts(reply.value))
        return decoded(name, reply.value, reply.blobs, arguments)

    def close(self) -> None:
        """End the student's process."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def end_of(failure: workers.Failure) -> str:
    """Describe how a student's process ended."""
    match failure.kind:
        case "timed out":
            return f"no end after {failure.detail:g} s"
        case "crashed":
            return f"it was ended by signal {failure.detail:g}"
        case "exited":
            return f"it ended with exit code {failure.detail:g}"
        case "garbage":
            return "it closed its connection"


def error_texts(reply: dict[str, Any]) -> tuple[str, str, str]:
    """Return the error, message and trace in a reply, each shortened."""
    error, message, trace = (
        shortened(str(reply.get(k, ""))) for k in ("error", "message", "trace")
    )
    return error, message, trace


def decoded(name: str, reply: Any, blobs: Sequence[bytes], arguments: Sequence[Any]) -> Any:
    """Rebuild the value in a reply from its JSON and the grader's own copy of each problem."""
    known = expanded(arguments)
    intrins = [x for x in known if isinstance(x, tensor.TensorIntrin)]
    try:
        return Reader(reply["rows"], blobs, operations(known), intrins).read(reply["value"])
    except Exception as e:  # whatever a student's process sends, it is a wrong answer
        raise AnswerError("unreadable", f"{name} returned an unusable value: {e}") from None


def answer_error(name: str, error: str, message: str, trace: str = "") -> AnswerError:
    """Return the AnswerError for an exception in the student's function."""
    if error == "missing":
        return AnswerError("not-started", f"there is no function called {name}")
    if error == "NotImplementedError":
        return AnswerError("not-started", "")
    if error == ChangedError.__name__:
        return AnswerError("changed-argument", message)
    if "cannot be handed in" in message:
        return AnswerError("wrong-type", f"what {name} returned: {message}")
    where = f"\n{trace}" if trace else ""
    return AnswerError("raises", f"{name} raised {error}: {message}{where}")
