"""The grader's process: run a notebook in a student's process and mark its answers.

It reads jobs from stdin and writes events to stdout, each as a line of JSON. The events are:

    {"cells": [...]}       the cells that failed, once the notebook has been run
    {"item": "ex03.1"}     this item is being checked now
    {"mark": {...}}        its mark
    {"failed": "..."}      the student's process could not be started
    {"end": true}

Schedules are built, run and timed here, not in the student's process. If a schedule takes too long,
grader.py ends this process and starts another one for the remaining items.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from .course import exercise_named
from .item import Item
from .sandbox import Limits, adopt_orphans, limit_memory
from .score import mark
from .student import GoneError, HangError, Student


def main() -> None:
    """Serve jobs until stdin ends."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # other output must not mix with events

    def tell(event: Any) -> None:
        events.write(json.dumps(event, ensure_ascii=False) + "\n")
        events.flush()

    adopt_orphans()
    tell({"ready": True})
    for line in sys.stdin:
        work(json.loads(line), tell)
        tell({"end": True})


def work(job: dict[str, Any], tell: Any) -> None:
    """Grade the notebook in `job`, as grade() describes it, and report each event by `tell`."""
    limits, checks = Limits(**job["limits"]), Path(job["checks"])
    limit_memory(2 * limits.memory)  # returned formulas may need much memory, too
    try:
        student = Student([(n, text) for n, text in job["cells"]], limits, [checks])
    except (OSError, HangError, GoneError) as e:  # no memory, no time: not the student's fault
        tell({"failed": str(e)})
        return
    try:
        tell({"cells": [asdict(report) for report in student.failed]})
        for item in exercise_named(job["exercise"], checks).items:
            if item.id in job["items"]:
                tell({"item": item.id})
                tell({"mark": _marked(item, student, job["seeds"])})
    finally:
        student.close()
        end_all()


def end_all() -> None:
    """End all processes that a notebook has started and that still run."""
    for p in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            p.kill()


def _marked(item: Item, student: Student, seeds: list[int | None]) -> dict[str, Any]:
    return mark(item, lambda *args: student.call(item.answer, args), seeds).to_json()


if __name__ == "__main__":
    main()
