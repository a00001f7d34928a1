"""Grade one notebook or many, with worker processes that are replaced when they hang."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from minitvm import workers
from minitvm.base import ArgumentError, MeasureError

from .course import exercise_named
from .item import Exercise, Item, Outcome, failed
from .notebook import exercise_of, parsed, sha256, sources
from .sandbox import USUAL_LIMITS, Limits
from .score import PUBLIC, Mark, Seeds, shortened, unmarked
from .student import CellReport

JOB = "minitvm.edu.grade_job"
MAX_BYTES = 20 << 20  # the largest size of a notebook
LOST = "the process of the grader ended"
OURS = "this is a fault of the grader: the next run of grade marks this item again"
TRIES = 2  # times that an item is marked if the grader's own process ends


@dataclass(frozen=True, slots=True)
class Submission:
    """A notebook to grade; its bytes are read once, and the same bytes are hashed and graded.

    problem   why the notebook could not be read, or ""
    """

    path: Path
    data: bytes
    student: str = ""
    problem: str = ""

    @property
    def sha256(self) -> str:
        return "" if self.problem else sha256(self.data)


@dataclass(frozen=True, slots=True)
class Task:
    """A submission and how to grade it.

    checks     the folder with the checks
    exercise   the exercise; None to find it by the metadata or file name of the notebook
    """

    submission: Submission
    checks: Path
    exercise: Exercise | None = None
    seeds: Seeds = PUBLIC
    limits: Limits = USUAL_LIMITS


@dataclass(frozen=True, slots=True)
class Graded:
    """The marks of one notebook.

    problem   why nothing could be graded, or ""
    cells     the cells that failed
    again     whether the cause of `problem` is the machine, so that the next run must try again
    """

    student: str
    path: str
    sha256: str
    exercise: str
    marks: tuple[Mark, ...] = ()
    cells: tuple[CellReport, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    again: bool = False

    @property
    def unsure(self) -> bool:
        """Whether the machine failed or was too busy, so that the next run must grade it again."""
        outcomes = [p.outcome.status for m in self.marks for p in m.parts]
        return self.again or "inconclusive" in outcomes

    @property
    def points(self) -> float:
        return round(sum(m.points for m in self.marks), 2)

    @property
    def worth(self) -> float:
        return sum(m.worth for m in self.marks)


@dataclass(slots=True)
class _Progress:
    """What is known about a notebook so far: its failed cells, its marks, and what went wrong."""

    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    cells: tuple[CellReport, ...] = ()
    failed: str = ""  # why a process could not be started
    lost: Counter[str] = field(default_factory=Counter[str])  # ended processes, by item


def printable(name: str) -> str:
    """Replace each character of `name` that is not printable by "?"."""
    return "".join(c if c.isprintable() else "?" for c in name)


def grade(task: Task, worker: workers.Worker) -> Graded:
    """Grade one notebook within the time limits, even if it is broken, hangs or crashes.

    worker   a worker of JOB
    Raises MeasureError if the worker does not start, which is not the notebook's fault.
    """
    start = time.monotonic()
    submission, exercise = task.submission, task.exercise
    name, data = printable(submission.path.name), submission.data
    identity = (submission.student, printable(str(submission.path)), submission.sha256)
    try:
        if submission.problem:
            raise ArgumentError(name, submission.problem)
        if len(data) > MAX_BYTES:
            raise ArgumentError(name, f"{len(data)} bytes", f"at most {MAX_BYTES}: clear outputs")
        notebook = parsed(data, name)
        exercise = exercise or exercise_named(exercise_of(notebook, submission.path), task.checks)
    except ArgumentError as e:
        return Graded(*identity, exercise.id if exercise else "", problem=shortened(str(e)))
    cells, known = sources(notebook), _Progress()
    while rest := [i for i in exercise.items if i.id not in known.marks]:
        _end_notebook(worker)
        _mark(worker, task, cells, rest, known)
        if known.failed:
            return failed_here(task, known.failed, exercise.id)
    _end_notebook(worker)
    marks = tuple(known.marks[i.id] for i in exercise.items)
    seconds = time.monotonic() - start
    return Graded(*identity, exercise.id, marks, known.cells, "", seconds)


def failed_here(task: Task, why: str, exercise: str = "") -> Graded:
    """Return the result of a notebook that the machine or the grader could not grade."""
    s = task.submission
    problem = f"the machine could not run it ({shortened(why)}): run it again"
    identity = (s.student, printable(str(s.path)), s.sha256, exercise)
    return Graded(*identity, problem=problem, again=True)


def _end_notebook(worker: workers.Worker) -> None:
    """End the processes that a notebook started, and make the worker ready for the next one."""
    if worker.prepare(None) and (lost := worker.prepare(None)):  # a new process must start
        why = "\n".join([f"its process does not start: {lost}", *lost.stderr])
        raise MeasureError("grading", why, "python -m minitvm doctor")


def _mark(
    worker: workers.Worker,
    task: Task,
    cells: list[tuple[int, str]],
    rest: Sequence[Item],
    known: _Progress,
) -> None:
    """Run the cells, mark the items `rest`, and add to `known`; stop if the process is lost."""
    limits, checks = task.limits, str(task.checks)
    request = {"cells": cells, "limits": asdict(limits), "checks": checks}
    reply = worker.ask(request, seconds=workers.START_SECONDS + limits.notebook)
    if isinstance(reply, workers.Failure):
        if reply.kind != "timed out":
            known.failed = f"{LOST}: {reply}"
            return
        why = "the cells of the notebook together took too long"
        late = failed("timeout", "an end", f"no end after {reply.detail:g} s", why=why)
        known.marks |= {item.id: unmarked(item, late) for item in rest}
        return
    known.failed = reply.value.get("failed", "")
    known.cells = tuple(CellReport(**c) for c in reply.value.get("cells", ()))
    for item in () if known.failed else rest:
        request = {"item": item.id, "checks": checks, "seeds": list(task.seeds)}
        reply = worker.ask(request, seconds=limits.item)
        if isinstance(reply, workers.Failure):
            known.lost[item.id] += 1
            # the process that marks neither calls nor compiles code of the student
            is_ours = reply.kind != "timed out"
            if not is_ours or known.lost[item.id] == TRIES:
                known.marks[item.id] = unmarked(item, _lost(reply, is_ours))
            return
        if "failed" in reply.value:
            known.failed = reply.value["failed"]
            return
        known.marks[item.id] = Mark.from_json(reply.value)


def _lost(failure: workers.Failure, ours: bool) -> Outcome:
    """Return the outcome of an item if the grader's process hung or ended while marking it."""
    if ours:
        return Outcome("inconclusive", 0.0, "", got=f"{LOST}: {failure}", why=OURS)
    why = "what the function returns takes very long to check"
    return failed("timeout", "an end", f"no end after {failure.detail:g} s", why=why)


def graded_or_failed(task: Task, worker: workers.Worker) -> Graded:
    """Grade one notebook; if that raises an error that is a mistake of ours, return the error."""
    try:
        return grade(task, worker)
    except MeasureError:
        raise  # no notebook can be graded
    except Exception as e:  # whatever it is, the others are graded
        worker.close()
        return failed_here(task, f"{type(e).__name__}: {e}")


def grade_all(tasks: Sequence[Task], jobs: int = 1) -> Iterator[tuple[int, Graded]]:
    """Grade tasks, `jobs` at a time; yield (index of the task, result) as each one is done."""

    def one(worker: workers.Worker, n: int) -> tuple[int, Graded]:
        return n, graded_or_failed(tasks[n], worker)

    with workers.Pool(JOB, min(max(1, jobs), len(tasks))) as pool:
        yield from pool.map(one, range(len(tasks)))
