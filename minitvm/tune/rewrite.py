"""Maintain logs: summarise them, bring them up to date, and drop slow candidates.

A log is rewritten as a new file that replaces the old one in one step. Lines that this version
cannot read are kept.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from minitvm.base import ArgumentError

from .ranking import Group, by_speed, candidate_name, group_of, grouped
from .record import Log, Record, candidate_of, to_line
from .task import Task

TaskOf: TypeAlias = Callable[[str, str], Task | None]  # (key, target) -> the task, None if unknown


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of the records of one task, target and machine.

    records    the number of records
    failures   kind of error -> the number of records with it
    best       the record of the best candidate; see `best`
    """

    records: int
    failures: Mapping[str, int]
    best: Record | None


def summaries(log: Log) -> dict[Group, Summary]:
    """Return a summary of each task, target and machine of a log."""
    return {group: _summary(records) for group, records in grouped(log.records()).items()}


def _summary(records: list[Record]) -> Summary:
    failures = Counter(r.result.error for r in records if r.result.error and not r.final)
    count = sum(not r.final for r in records)
    return Summary(count, dict(failures), next(iter(by_speed(records, candidate_name)), None))


def prune(log: Log, keep: int = 10) -> tuple[int, int]:
    """Drop all lines of a log except for the `keep` best candidates of each task and machine.

    Lines of other versions are kept too. Returns how many lines were kept and dropped.
    """
    if keep < 1:
        raise ArgumentError(f"keep={keep}", "it must be at least 1", "keep=1")
    names = {
        (group, candidate_name(record))
        for group, records in grouped(log.records()).items()
        for record in by_speed(records, candidate_name)[:keep]
    }

    def kept(line: str, record: Record | None, fault: str) -> str:
        if record is None:
            return line if fault == "lines of another version" else ""
        chosen = (group_of(record), candidate_name(record)) in names
        return line if chosen and not record.result.error else ""

    return _rewrite(log, kept)


def upgrade(log: Log, task_of: TaskOf) -> tuple[int, int]:
    """Renumber the options of each record as the current spaces number them.

    task_of   returns the task of a key and a target, or None if it is not known
    Broken lines and records of other spaces and unknown tasks stay unchanged. Returns how many
    lines stayed unchanged, and how many were changed.
    """
    tasks = dict[tuple[str, str], Task | None]()
    changed = 0

    def renewed(line: str, record: Record | None, fault: str) -> str:
        nonlocal changed
        if record is None:
            return line
        name = record.task, record.target
        if name not in tasks:
            tasks[name] = task_of(*name)
        task = tasks[name]
        if task is None:
            return line
        try:
            row = candidate_of(record, task).row
        except ArgumentError:
            return line
        if row == record.row:
            return line
        changed += 1
        return to_line(replace(record, row=row))

    total, _ = _rewrite(log, renewed)
    return total - changed, changed


def _rewrite(log: Log, change: Callable[[str, Record | None, str], str]) -> tuple[int, int]:
    """Replace each line of a log by change(line, record, fault); drop the line if that is "".

    Returns how many lines are kept and dropped. Raises ArgumentError, and leaves the log unchanged,
    if it is missing, or if a search appends to it at the same time.
    """
    if not log.path.exists():
        raise ArgumentError(f"log {str(log.path)!r}", "there is no such file")
    size = log.path.stat().st_size
    lines = [change(line, record, fault) for line, record, fault in log.lines()]
    kept = [line.strip() + "\n" for line in lines if line]
    other = log.path.with_name(log.path.name + ".new")
    other.write_text("".join(kept), encoding="utf-8")
    if log.path.stat().st_size != size:
        other.unlink()
        why = "a search is appending to it"
        raise ArgumentError(f"log {str(log.path)!r}", why, "stop the search first")
    os.replace(other, log.path)
    return len(kept), len(lines) - len(kept)
