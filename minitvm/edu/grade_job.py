"""The grader's process: run a notebook in a student's process and mark its answers.

Schedules are lowered and simulated here, not in the student's process, and compiled, run and timed
in a third one (apart.py). If marking an item takes too long, this process is replaced by another
one for the remaining items.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from minitvm import workers

from .apart import end_code_processes
from .course import item_of
from .item import StartError
from .sandbox import Limits, tier
from .score import mark
from .student import Student

_students: list[Student] = []  # at most one


def answer(request: workers.Message) -> workers.Message:
    """Answer one request: end the student's process, run a notebook in a new one, or mark an item.

    None                                   -> None, after ending the student's process
    {"cells": ..., "limits", "checks"}     -> {"cells": those that failed}, or {"failed": why} if
                                              the student's process does not start
    {"item": "ex03.1", "checks", "seeds"}  -> its mark, or {"failed": why} if a process for compiled
                                              code does not start
    """
    match request.value:
        case {"cells": cells, "limits": limits, "checks": checks}:
            return workers.Message(_run(cells, Limits(**limits), Path(checks)))
        case {"item": str(name), "checks": checks, "seeds": seeds}:
            item, student = item_of(name, Path(checks)), _students[0]
            try:
                item_mark = mark(item, lambda *args: student.call(item.answer, args), seeds)
            except StartError as e:
                return workers.Message({"failed": str(e)})
            return workers.Message(item_mark.to_json())
        case _:
            tier()  # found once for all notebooks: this request is answered before they are
            while _students:
                _students.pop().close()
            end_code_processes()
            return workers.Message(None)


def _run(cells: list[tuple[int, str]], limits: Limits, checks: Path) -> dict[str, Any]:
    workers.limit_memory(2 * limits.memory)  # returned formulas may need much memory, too
    try:
        _students[:] = [Student(cells, limits, [checks])]
    except (OSError, StartError) as e:  # no memory, no time: not the student's fault
        return {"failed": str(e)}
    return {"cells": [asdict(report) for report in _students[0].failed]}


if __name__ == "__main__":
    workers.serve(answer)
