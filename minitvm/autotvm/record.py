"""Logs under AutoTVM's names: lines of JSON as inputs and results."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from minitvm import tune
from minitvm.base import ArgumentError, Target

from .dispatch import DispatchContext, Workload
from .history import Measured
from .measure import ERRORS, MeasureInput, MeasureResult, result_of
from .space import Config
from .task import Task, create


def load_from_file(filename: str | Path) -> Iterator[Measured]:
    """Yield the measurements of a log as (MeasureInput, MeasureResult).

    Skips broken lines, and lines of another version of this program or of a template; a warning at
    the end gives their number. Raises ArgumentError for a template that does not exist.
    """
    tasks: dict[tuple[str, str], Task] = {}
    skipped = Counter[str]()
    for _, record, fault in tune.Log(filename).lines():
        measured = fault if record is None else _measured(record, tasks)
        if isinstance(measured, str):
            skipped[measured] += 1
        else:
            yield measured
    if skipped:
        text = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        warnings.warn(f"skipped in log {str(filename)!r}: {text}", stacklevel=2)


def _measured(record: tune.Record, tasks: dict[tuple[str, str], Task]) -> Measured | str:
    """Return the measurement of a record, or why it cannot be used; `tasks` caches tasks."""
    key = record.task, record.target
    if key not in tasks:
        name, *workload = json.loads(record.task)
        tasks[key] = create(name, workload, record.target)
    task, space = tasks[key], tasks[key].config_space
    if f"@{task.template.code_hash}." not in record.sketch:
        return "lines of another version of a template"
    try:
        config = space.entity(tune.row_of(record, space.space))
    except ArgumentError:
        return "lines of another space"
    trial = tune.Trial(task.candidate(config), record.result, record.time)
    return MeasureInput(task.target, task, config), result_of(trial)


class ApplyGraphBest(DispatchContext):
    """A context that gives the n-th workload that is asked for the n-th configuration of a log.

    After the last one, a workload gets the configuration that it had before.
    """

    def __init__(self, records: str | Path | Iterable[Measured]) -> None:
        super().__init__()
        self.records = iter(load_from_file(records) if isinstance(records, str | Path) else records)
        self.given: dict[tuple[str, str], Config] = {}

    def find(self, target: Target, workload: Workload) -> Config | None:
        measured = next(self.records, None)
        if measured is None:
            return self.given.get((str(target), json.dumps(workload)))
        key, config = measured[0].task.key, measured[0].config
        if key != json.dumps(workload):
            why = f"the next record is for {key}, but the next workload is {json.dumps(workload)}"
            raise ArgumentError("ApplyGraphBest", why, "the records in the order of the workloads")
        self.update(target, workload, config)
        return config

    def update(self, target: Target, workload: Workload, cfg: Config) -> None:
        """Set the configuration of a workload after the last record."""
        self.given[str(target), json.dumps(workload)] = cfg


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Encode a measurement as a line of a log."""
    _check_protocol(protocol)
    kinds: list[tune.ErrorKind] = [
        kind for kind, number in ERRORS.items() if number == result.error_no
    ]
    kind: tune.ErrorKind = kinds[0] if kinds else "garbage"
    costs = () if result.error_no else tuple(result.costs)
    seconds, cycles = ((), costs) if inp.target.unit == "cycles" else (costs, ())
    measured = tune.Result(seconds, kind, result.detail, 0.0, result.all_cost, cycles)
    trial = tune.Trial(inp.task.candidate(inp.config), measured, result.timestamp)
    return tune.to_line(tune.record_of(inp.task, trial)).rstrip("\n")


def decode(row: str, protocol: str = "json") -> Measured | None:
    """Decode a line of a log to a measurement; None if this version cannot read the line."""
    _check_protocol(protocol)
    try:
        record = tune.from_line(row)
    except ValueError:
        return None
    measured = _measured(record, {})
    return None if isinstance(measured, str) else measured


def _check_protocol(protocol: str) -> None:
    if protocol != "json":
        raise ArgumentError(f"protocol {protocol!r}", "a line of a log is JSON", '"json"')


def pick_best(in_file: str | Path, out_file: str | Path) -> None:
    """Write the best record of each task, target and machine in the log `in_file` to `out_file`."""
    _write(tune.bests(_records(in_file), all_machines=True), out_file)


def split_workload(in_file: str | Path, clean: bool = True) -> None:
    """Write the records of each workload in a log to a file: LOG.000.wkl, LOG.001.wkl and so on.

    clean    whether to keep only the fastest record of each configuration
    """
    workloads = dict[tuple[str, str], list[tune.Record]]()
    for record in _records(in_file):
        workloads.setdefault((record.task, record.target), []).append(record)
    for n, records in enumerate(workloads.values()):
        slowest_first = sorted(records, key=lambda r: -r.cost)
        fastest = {tune.candidate_name(r): r for r in slowest_first}.values()
        _write(fastest if clean else records, f"{in_file}.{n:03d}.wkl")


def _records(path: str | Path) -> list[tune.Record]:
    log = tune.Log(path)
    if not log.path.exists():
        raise ArgumentError(f"log {str(path)!r}", "there is no such file")
    return log.records()


def _write(records: Iterable[tune.Record], path: str | Path) -> None:
    Path(path).write_text("".join(map(tune.to_line, records)), encoding="utf-8")
