"""Logs under AutoTVM's names: lines of JSON as inputs and results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from minitvm import tune
from minitvm.base import ArgumentError

from .history import Measured, best_records, row_of
from .measure import ERRORS, MeasureInput, MeasureResult, result_of
from .task import Task, create


def load_from_file(filename: str | Path) -> Iterator[Measured]:
    """Yield the measurements of a log as (MeasureInput, MeasureResult).

    Lines that cannot be read are skipped. Raises ArgumentError for a template that does not exist.
    """
    tasks: dict[tuple[str, str], Task] = {}
    for record in tune.Log(filename).records():
        yield _measured(record, tasks)


def _measured(record: tune.Record, tasks: dict[tuple[str, str], Task]) -> Measured:
    key = record.task, record.target
    if key not in tasks:
        name, *workload = json.loads(record.task)
        tasks[key] = create(name, workload, record.target)
    task = tasks[key]
    space = task.config_space
    config = space.entity(row_of(space, record))
    trial = tune.Trial(task.candidate(config), record.result, record.time)
    return MeasureInput(task.target, task, config), result_of(trial)


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """Return a measurement as a line of a log."""
    kinds: list[tune.ErrorKind] = [
        kind for kind, number in ERRORS.items() if number == result.error_no
    ]
    kind: tune.ErrorKind = kinds[0] if kinds else "garbage"
    seconds = () if result.error_no else tuple(result.costs)
    found = tune.Result(seconds, kind, result.detail, 0.0, result.all_cost)
    trial = tune.Trial(inp.task.candidate(inp.config), found, result.timestamp)
    return tune.to_line(tune.record_of(inp.task, trial)).rstrip("\n")


def decode(row: str) -> Measured | None:
    """Return the measurement of a line; None if this version cannot read it."""
    try:
        record = tune.from_line(row)
    except ValueError:
        return None
    return _measured(record, {})


def pick_best(in_file: str | Path, out_file: str | Path) -> None:
    """Write the best record of each task and target of one log to another one."""
    log = tune.Log(in_file)
    if not log.path.exists():
        raise ArgumentError(f"log {str(in_file)!r}", "there is no such file")
    lines = [tune.to_line(r) for r in best_records(log.records())]
    Path(out_file).write_text("".join(lines), encoding="utf-8")
