"""Logs under AutoTVM's names: lines of JSON as inputs and results."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from minitvm import tune
from minitvm.base import ArgumentError

from .history import Measured, row_of
from .measure import ERRORS, MeasureInput, MeasureResult, result_of
from .task import Task, create


def load_from_file(filename: str | Path) -> Iterator[Measured]:
    """Yield the measurements of a log as (MeasureInput, MeasureResult).

    Skips broken lines, and lines of another version of this program or of a template; a warning at
    the end gives their number. Raises ArgumentError for a template that does not exist.
    """
    tasks: dict[tuple[str, str], Task] = {}
    skipped = Counter[str]()
    for _, record, fault in tune.Log(filename).lines():
        task = None if record is None else _task(record, tasks)
        reason = fault if record is None or task is None else _outdated(record, task)
        if reason or record is None:
            skipped[reason] += 1
        else:
            yield _measured(record, tasks)
    if skipped:
        text = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        warnings.warn(f"skipped in log {str(filename)!r}: {text}", stacklevel=2)


def _outdated(record: tune.Record, task: Task) -> str:
    """Return why a record cannot be used for a task of the same name; "" if it can be used."""
    if f"@{task.template.code_hash}." not in record.sketch:
        return "lines of another version of a template"
    try:
        row_of(task.config_space, record)
    except ArgumentError:
        return "lines of another space"
    return ""


def _task(record: tune.Record, tasks: dict[tuple[str, str], Task]) -> Task:
    """Return the task of a record; `tasks` caches tasks that were made before."""
    key = record.task, record.target
    if key not in tasks:
        name, *workload = json.loads(record.task)
        tasks[key] = create(name, workload, record.target)
    return tasks[key]


def _measured(record: tune.Record, tasks: dict[tuple[str, str], Task]) -> Measured:
    task = _task(record, tasks)
    space = task.config_space
    config = space.entity(row_of(space, record))
    trial = tune.Trial(task.candidate(config), record.result, record.time)
    return MeasureInput(task.target, task, config), result_of(trial)


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """Encode a measurement as a line of a log."""
    kinds: list[tune.ErrorKind] = [
        kind for kind, number in ERRORS.items() if number == result.error_no
    ]
    kind: tune.ErrorKind = kinds[0] if kinds else "garbage"
    seconds = () if result.error_no else tuple(result.costs)
    found = tune.Result(seconds, kind, result.detail, 0.0, result.all_cost)
    trial = tune.Trial(inp.task.candidate(inp.config), found, result.timestamp)
    return tune.to_line(tune.record_of(inp.task, trial)).rstrip("\n")


def decode(row: str) -> Measured | None:
    """Decode a line of a log to a measurement; None if this version cannot read the line."""
    try:
        record = tune.from_line(row)
    except ValueError:
        return None
    return _measured(record, {})


def pick_best(in_file: str | Path, out_file: str | Path) -> None:
    """Write the best record of each task, target and machine in the log `in_file` to `out_file`."""
    log = tune.Log(in_file)
    if not log.path.exists():
        raise ArgumentError(f"log {str(in_file)!r}", "there is no such file")
    lines = [tune.to_line(r) for r in tune.bests(log.records(), all_machines=True)]
    Path(out_file).write_text("".join(lines), encoding="utf-8")
