"""The log of a search: one line of JSON for each trial, appended as soon as it is measured.

A line has everything needed to build the program again: the task and the steps of the schedule. It
also has the machine, and the times or the whole error. Several processes may append to one log.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args

from minitvm import lowering, runtime, schedule, simt, te
from minitvm.base import ArgumentError, Target, TVMError, host

from .knob import as_json, numbers
from .policy import Trial
from .sketch import replayed
from .space import Space
from .task import Candidate, Task
from .trial import ErrorKind, Result

VERSION = 2
SPACE = 1 << 20  # bytes that must be free on the disk when a search begins
BROKEN, SHOWN = "broken lines", 10  # why a line is skipped; line numbers in a warning
SAID: dict[Any, Any] = {}  # which warnings have been shown, so that each is shown once
UNITS = ("seconds", "cycles")  # of costs; the target of a record decides which
MACHINE = ("cpu", "vector_bytes", "l1", "l2", "l3")  # facts of the host that times depend on


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a log.

    task      the key of the task
    target    as a string
    machine   facts about the machine, see `machine_facts`
    sketch    the name of the sketch
    values    the option of each knob, by the name of the knob
    steps     the steps of the schedule, as JSON values
    batch     the number of the batch in which it was proposed, from 1; 0 if not known
    time, default, final   as in Trial
    """

    task: str
    target: str
    machine: Mapping[str, Any]
    sketch: str
    values: Mapping[str, Any]
    steps: tuple[Any, ...]
    result: Result
    flops: float
    time: float
    final: bool = False
    batch: int = 0
    default: float | None = None

    @property
    def cost(self) -> float:
        """Return the cost of one call as Trial.cost does."""
        return self.result.cost(self.final)

    @property
    def seconds(self) -> float:
        """Return `cost`; raise MeasureError if its unit is not seconds."""
        return self.result.in_seconds(self.cost)

    @property
    def default_is_faster(self) -> bool:
        """Return whether the default schedule was faster when both were measured."""
        return self.default is not None and self.default < self.cost


def record_of(task: Task, trial: Trial, *, batch: int = 0) -> Record:
    """Return the record of a trial on this machine."""
    sketch = task.sketches[trial.candidate.sketch]
    row = trial.candidate.row
    steps = json.loads(schedule.to_json(sketch.filled(row)))
    return Record(
        task.key,
        str(task.target),
        machine_facts(task.target),
        sketch.name,
        json.loads(as_json(sketch.space.options(row))),
        tuple(steps),
        trial.result,
        task.flops,
        trial.time,
        trial.final,
        batch,
        trial.default,
    )


def machine_facts(target: Target) -> dict[str, Any]:
    """Return the facts that a log keeps of this machine, and how many cores the target uses.

    The cost of a program on a simulated machine depends on that machine only, not on this one.
    """
    if target.kind == "vta":
        return asdict(lowering.machine())
    if target.sim:
        return {"simulated": simt.MODEL, "version": simt.VERSION}
    if target.kind == "cuda":
        return {"device": runtime.device_name()}
    machine = host()
    return {"cores": target.num_cores, **{name: getattr(machine, name) for name in MACHINE}}


def candidate_of(record: Record, task: Task) -> Candidate:
    """Find the candidate of a record in the spaces of a task; ArgumentError if it has none."""
    what = f"record of {record.sketch}"
    if record.task != task.key:
        raise ArgumentError(what, f"it belongs to task {record.task}, not {task.key}")
    names = [sketch.name for sketch in task.sketches]
    if record.sketch not in names:
        raise ArgumentError(what, "the task has no such sketch", f"one of {', '.join(names)}")
    n = names.index(record.sketch)
    return Candidate(n, row_of(record, task.sketches[n].space))


def row_of(record: Record, space: Space) -> tuple[int, ...]:
    """Find the option numbers of a record in a space by the values of its options.

    The space may number its options differently now. Raises ArgumentError if it has other knobs, or
    lacks an option.
    """
    what, knobs = f"record of {record.sketch}", space.knobs
    if {knob.name for knob in knobs} != set(record.values):
        why = f"its knobs are {', '.join(record.values)}: another space"
        raise ArgumentError(what, why, f"knobs {', '.join(g.name for g in knobs)}")
    values = {knob: as_json(record.values[knob.name]) for knob in knobs}
    if missing := [knob.name for knob in knobs if values[knob] not in numbers(knob)]:
        why = f"its option {missing[0]} = {record.values[missing[0]]!r} is not in the space"
        raise ArgumentError(what, why, "tune again")
    return tuple(numbers(knob)[values[knob]] for knob in knobs)


def replay(record: Record, task: Task) -> te.Schedule:
    """Return the schedule of a record: apply the record's steps to the formula of the task.

    Neither the space nor the row is used. If the task has the record's sketch, the steps are
    applied to the formula of that sketch, because it may differ from the formula of the task.
    """
    if record.task != task.key:
        what = f"record of {record.sketch}"
        raise ArgumentError(what, f"it belongs to task {record.task}, not {task.key}")
    start = te.create_schedule([t.op for t in task.outputs]).state
    for sketch in task.sketches:
        if sketch.name == record.sketch:
            start = sketch.initial
    return replayed(start, schedule.from_json(json.dumps(record.steps)))


# --- lines ---------------------------------------------------------------------------------------


def to_line(record: Record) -> str:
    """Return a record as one line of JSON."""
    fields = asdict(record)
    fields |= fields.pop("result")
    fields["unit"] = unit = Target(record.target).unit
    for unit_name in UNITS:
        if unit_name != unit:
            del fields[unit_name]
    return as_json({"version": VERSION, **fields}) + "\n"


def from_line(line: str) -> Record:
    """Parse a line to a record, ignoring unknown keys; raise ValueError if the line is damaged."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise ValueError(BROKEN) from e
    if not isinstance(fields, dict):
        raise ValueError(BROKEN)
    line_fields = cast("dict[str, Any]", fields)
    if line_fields.get("version") != VERSION:
        raise ValueError("lines of another version")
    try:
        return _record(line_fields)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, TVMError) as e:
        raise ValueError(BROKEN) from e


def _record(fields: Mapping[str, Any]) -> Record:
    """Return the record of a line; raise an exception if a field is missing or makes no sense."""
    target, unit = _known_target(_text(fields["target"])), fields.get("unit", "seconds")
    if unit != Target(target).unit:
        raise ValueError(unit)
    costs, error = tuple(map(_positive, fields[unit])), fields["error"]
    if error not in get_args(ErrorKind) or bool(costs) == bool(error):
        raise ValueError(error)
    result = Result(
        costs if unit == "seconds" else (),
        cast("ErrorKind", error),
        str(fields["detail"]),
        _finite(fields["build_seconds"]),
        _finite(fields["run_seconds"]),
        costs if unit == "cycles" else (),
    )
    return Record(
        _known_task(fields["task"]),
        target,
        dict(fields["machine"]),
        _text(fields["sketch"]),
        dict(fields["values"]),
        tuple(fields["steps"]),
        result,
        _finite(fields["flops"]),
        _finite(fields["time"]),
        bool(fields["final"]),
        int(fields["batch"]),
        None if fields["default"] is None else _positive(fields["default"]),
    )


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(value)
    return number


def _positive(value: Any) -> float:
    if not _finite(value) > 0:
        raise ValueError(value)
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _known_task(key: str) -> str:
    """Return the key of a task if it is one: a JSON list of a name and other values."""
    match json.loads(key):
        case [str(), *_]:
            return key
        case other:
            raise ValueError(other)


@lru_cache
def _known_target(text: str) -> str:
    """Return the string of a target; raise ArgumentError if there is no such target."""
    Target(text)
    return text


# --- the file ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """The part of a log that a search for one task can use.

    trials    the trials of the task, in the order of the log
    final     the measurements of the best candidates at the end of earlier searches
    skipped   reason -> how many lines were skipped for it
    batches   the number of the batch of each trial
    default   the shortest time of the default schedule; None if the log has none
    """

    trials: tuple[Trial, ...]
    final: tuple[Trial, ...]
    skipped: Mapping[str, int]
    batches: tuple[int, ...]
    default: float | None


class Log:
    """A file of records. A file that does not exist is an empty log.

    unsaved   records that `save` could not write
    fault     why the last write of `save` failed; "" if none failed
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.unsaved = list[Record]()
        self.fault = ""
        if self.path.is_dir() or not self.path.absolute().parent.is_dir():
            raise ArgumentError(f"log {str(path)!r}", "no file can be created there")

    def check_writable(self) -> None:
        """Raise ArgumentError unless the file can be opened to append, and its disk has space."""
        what, fix = f"log {str(self.path)!r}", "another file, log=..."
        is_new = not self.path.exists()
        try:
            os.close(self._opened())
            if is_new:  # a search that is refused for another reason leaves no empty log
                self.path.unlink()
            free = shutil.disk_usage(self.path.absolute().parent).free
        except OSError as e:
            raise ArgumentError(what, f"it cannot be written: {e.strerror}", fix) from e
        if free < SPACE:
            raise ArgumentError(what, f"its disk is full: {free} bytes are free", fix)

    def save(self, record: Record) -> None:
        """Append a record. If that fails, warn once, and try again with the next record."""
        self.unsaved.append(record)
        try:
            while self.unsaved:
                self.append(self.unsaved[0])
                del self.unsaved[0]
        except OSError as e:
            if not self.fault:
                message = f"log {str(self.path)!r} cannot be written: {e.strerror}"
                warnings.warn(f"{message}; the search continues without it", stacklevel=2)
            self.fault = str(e.strerror)

    def _opened(self) -> int:
        """Return a file descriptor to append to the file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return os.open(self.path, flags, 0o644)

    def append(self, record: Record) -> None:
        """Append one line in a single write, so that other processes may append too.

        If a process was killed while it wrote the last line, that line has no end. This ends it
        first, so that the new line stays readable. Raises OSError if the line cannot be written as
        a whole.
        """
        line = to_line(record).encode()
        file = self._opened()
        try:
            end = os.lseek(file, 0, os.SEEK_END)
            if end:
                os.lseek(file, end - 1, os.SEEK_SET)
                if os.read(file, 1) != b"\n":
                    line = b"\n" + line
            if os.write(file, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(file)

    def lines(self) -> Iterator[tuple[str, Record | None, str]]:
        """Yield (line, its record or None, the reason if it has no record, otherwise "").

        A warning at the end gives the numbers of the broken lines.
        """
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8", errors="replace")
        broken = list[int]()
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                yield line, from_line(line), ""
            except ValueError as e:
                broken += [number] if str(e) == BROKEN else []
                yield line, None, str(e)
        if broken:
            numbers = ", ".join(map(str, broken[:SHOWN])) + ", ..." * (len(broken) > SHOWN)
            fault = f"{len(broken)} broken lines, which are ignored"
            message = f"log {str(self.path)!r} has {fault}: line {numbers}"
            location = str(self.path), broken[0]  # a warning without a place in our code
            warnings.warn_explicit(message, UserWarning, *location, registry=SAID)

    def records(self) -> list[Record]:
        """Return the records of all tasks and machines that this version can read."""
        return [record for _, record, _ in self.lines() if record is not None]

    def read(self, task: Task) -> Reading:
        """Return the trials of a task on this machine.

        Skips and counts broken lines, and lines of other tasks, targets, machines, spaces and
        versions. If a candidate was measured twice, both trials are returned.
        """
        trials, final = list[Trial](), list[Trial]()
        batches, defaults = list[int](), list[float]()
        skipped, facts = Counter[str](), machine_facts(task.target)
        for _, record, fault in self.lines():
            reason = fault or _other(record, task, facts)
            if record is None or reason:
                skipped[reason] += 1
                continue
            try:
                candidate = candidate_of(record, task)
            except ArgumentError:
                skipped["lines of another space"] += 1
                continue
            defaults += [] if record.default is None else [record.default]
            trial = Trial(candidate, record.result, record.time, record.default, record.final)
            (final if record.final else trials).append(trial)
            batches += [] if record.final else [record.batch]
        return Reading(
            tuple(trials), tuple(final), dict(skipped), tuple(batches), min(defaults, default=None)
        )


def _other(record: Record | None, task: Task, here: Mapping[str, Any]) -> str:
    """Return why a record cannot be used for a task on this machine; "" if it can be used."""
    if record is None or record.task != task.key:
        return "lines of other tasks"
    if record.target != str(task.target):
        return "lines of other targets"
    return "" if record.machine == here else "lines of other machines"
