"""Grade one notebook or many, with worker processes that are replaced when something hangs."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from minitvm.base import ArgumentError, MeasureError

from .course import exercise_named
from .item import Exercise, Item, failed
from .notebook import exercise_of, parsed, sha256, sources
from .sandbox import ROOT, USUAL_LIMITS, Limits
from .score import PUBLIC, Mark, Seeds, shortened, unmarked
from .student import CellReport

MAX_BYTES = 20 << 20  # of a notebook


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


class GradingProcess:
    """A process that runs worker.py; it is started when needed, and again after it was ended."""

    def __init__(self) -> None:
        self.retired = False  # after an interrupt: it must not start again
        self._popen: subprocess.Popen[str] | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._ready = False
        self._events: queue.Queue[str] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        if self.retired:
            raise MeasureError("grading", "it was interrupted")
        self._folder = TemporaryDirectory(prefix="minitvm-edu-", ignore_cleanup_errors=True)
        popen = subprocess.Popen(
            [sys.executable, "-m", "minitvm.edu.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": _path(), "TMPDIR": self._folder.name},
        )
        self._events = queue.Queue()
        threading.Thread(target=_listen, args=(popen, self._events), daemon=True).start()
        self._popen, self._ready = popen, False
        return popen

    def events(self, job: dict[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
        """Send one job and yield its events, of which the last is {"end": true} or {"lost": why}.

        Raises MeasureError if the process does not start, which is not the notebook's fault.
        """
        popen = self._popen or self._start()
        assert popen.stdin is not None
        with contextlib.suppress(OSError):
            popen.stdin.write(json.dumps(job) + "\n")
            popen.stdin.flush()
        patience = limits.start + limits.notebook
        while True:
            try:
                text = self._events.get(timeout=patience)
            except queue.Empty:
                text = ""
            event = json.loads(text) if text else {"lost": f"no end after {patience:g} s"}
            if event == {"gone": True}:
                event = {"lost": "the program ended the process that ran it"}
            self._ready = self._ready or "ready" in event
            if "lost" in event:
                self.close()
                if not self._ready:
                    why = f"its process does not start: {event['lost']}"
                    raise MeasureError("grading", why, f"{sys.executable} -m minitvm.edu.worker")
            yield event
            if "end" in event or "lost" in event:
                return
            patience = limits.item

    def close(self) -> None:
        """End the process, the student's process and all others that they started."""
        if self._popen is None:
            return
        with contextlib.suppress(psutil.Error):
            me = psutil.Process(self._popen.pid)
            for p in (*me.children(recursive=True), me):
                with contextlib.suppress(psutil.Error):
                    p.kill()
        self._popen.wait()
        self._popen = None
        if self._folder is not None:  # a killed process leaves its files behind
            self._folder.cleanup()


def _path() -> str:
    """Return PYTHONPATH with the folder of this package first."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


def _listen(popen: subprocess.Popen[str], events: queue.Queue[str]) -> None:
    assert popen.stdout is not None
    for line in popen.stdout:
        events.put(line)
    events.put('{"gone": true}')


@dataclass(slots=True)
class _Progress:
    """The results for a notebook so far."""

    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    cells: tuple[CellReport, ...] = ()
    current: str = ""
    failed: str = ""  # why the student's process could not be started


def printable(name: str) -> str:
    """Replace each character of `name` that is not printable by "?"."""
    return "".join(c if c.isprintable() else "?" for c in name)


def grade(task: Task, worker: GradingProcess) -> Graded:
    """Grade one notebook within the time limits, even if it is broken, hangs or crashes."""
    start = time.monotonic()
    submission, exercise, limits = task.submission, task.exercise, task.limits
    name, data = printable(submission.path.name), submission.data
    told = (submission.student, printable(str(submission.path)), submission.sha256)
    try:
        if submission.problem:
            raise ArgumentError(name, submission.problem)
        if len(data) > MAX_BYTES:
            raise ArgumentError(name, f"{len(data)} bytes", f"at most {MAX_BYTES}: clear outputs")
        notebook = parsed(data, name)
        exercise = exercise or exercise_named(exercise_of(notebook, submission.path), task.checks)
    except ArgumentError as e:
        return Graded(*told, exercise.id if exercise else "", problem=shortened(str(e)))
    job = {
        "checks": str(task.checks),
        "exercise": exercise.id,
        "cells": sources(notebook),
        "seeds": list(task.seeds),
        "limits": asdict(limits),
    }
    known = _Progress()
    while rest := [i for i in exercise.items if i.id not in known.marks]:
        _follow(worker.events({**job, "items": [i.id for i in rest]}, limits), rest, known)
        if not known.failed and all(i.id not in known.marks for i in rest):
            known.failed = "no item was marked"  # asking again would loop
        if known.failed:
            why = f"the machine could not run it ({shortened(known.failed)}): run it again"
            return Graded(*told, exercise.id, problem=why, again=True)
    marks = tuple(known.marks[i.id] for i in exercise.items)
    seconds = time.monotonic() - start
    return Graded(*told, exercise.id, marks, known.cells, "", seconds)


def _follow(events: Iterable[dict[str, Any]], rest: Sequence[Item], known: _Progress) -> None:
    """Store the events of a worker in `known`; if it is lost, the current item gets no points."""
    known.current = ""
    for event in events:
        if "cells" in event:
            known.cells = tuple(CellReport(**c) for c in event["cells"])
        elif "item" in event:
            known.current = event["item"]
        elif "mark" in event:
            found = Mark.from_json(event["mark"])
            known.marks[found.item] = found
        elif "failed" in event:
            known.failed = event["failed"]
        elif "lost" in event:
            why = "the schedule runs for very long, or accesses memory outside its arrays"
            if not known.current:
                why = "the cells of the notebook together took too long"
            outcome = failed("timeout", expected="an end", got=event["lost"], why=why)
            for item in rest:
                if item.id == known.current or not known.current:
                    known.marks[item.id] = unmarked(item, outcome)


def grade_all(tasks: Sequence[Task], jobs: int = 1) -> Iterator[tuple[int, Graded]]:
    """Grade tasks, `jobs` at a time; yield (index of the task, result) as each one is done."""
    idle: queue.LifoQueue[GradingProcess] = queue.LifoQueue()
    workers = [GradingProcess() for _ in range(max(1, jobs))]
    for worker in reversed(workers):
        idle.put(worker)

    def one(n: int) -> tuple[int, Graded]:
        worker = idle.get()
        try:
            return n, grade(tasks[n], worker)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(len(workers))
    try:
        for done in as_completed([pool.submit(one, n) for n in range(len(tasks))]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.retired = True
            worker.close()
