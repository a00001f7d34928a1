"""The best programs of a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from minitvm import schedule, te, tensor, topi, tune
from minitvm.base import ArgumentError, Target, check_flag, check_text

from .checks import log_at
from .dag import ComputeDAG
from .derive import is_other_formula
from .workload_registry import known


def load_records(filename: str | Path) -> Iterator[tune.Record]:
    """Yield the records of a log; skip lines that this version cannot read."""
    yield from log_at(filename).records()


def load_best_record(
    filename: str | Path,
    workload_key: str | None = None,
    target: str | Target | None = None,
    include_compatible: bool = False,
) -> tune.Record | None:
    """Return the record of the fastest program in a log, or None if the log has no such record.

    workload_key, target   only records with this key and this target count; None allows any
    include_compatible     whether records of other machines count
    """
    check_flag("include_compatible", include_compatible)
    if workload_key is not None:
        check_text("workload_key", workload_key, "task.workload_key")
    records = load_records(filename)
    return tune.best(records, workload_key, target, all_machines=include_compatible)


class ApplyHistoryBest:
    """A context in which topi.schedule uses the best programs of a log for equal formulas.

    It uses the default schedule if that was faster when both were measured. It ignores programs of
    other formulas than the task's own (`formulas` of SearchTask).
    """

    def __init__(self, records: str | Path, include_compatible: bool = False) -> None:
        """Find the best record of each computation and target."""
        self.best: dict[tuple[str, str], tune.Record] = {}
        check_flag("include_compatible", include_compatible)
        own_records = [r for r in load_records(records) if not is_other_formula(r)]
        best = tune.bests(own_records, all_machines=include_compatible)
        for record in sorted(best, key=lambda record: record.cost):
            key = _formulas(record.task)
            if key is not None:
                self.best.setdefault((key, record.target), record)
        self._hooks = list[ExitStack]()

    def scheduled(self, outs: Sequence[te.Tensor], target: Target) -> te.Schedule | None:
        """Return the schedule of the best record; None to use the default schedule."""
        ops = tensor.producers_first([t.op for t in outs])
        inputs = [op.output(0) for op in ops if isinstance(op, te.PlaceholderOp)]
        try:
            dag = ComputeDAG((*inputs, *outs))
        except ArgumentError:  # the sketch rules cannot schedule it
            return None
        record = self.best.get((dag.workload_key(), str(target)))
        if record is None or record.default_is_faster:
            return None
        return tune.replayed(dag.initial, schedule.from_json(json.dumps(record.steps)))

    def __enter__(self) -> Self:
        hook = ExitStack()
        hook.enter_context(topi.dispatch.using(self.scheduled))
        self._hooks.append(hook)
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.pop().close()


def _formulas(task: str) -> str | None:
    """Return the key of a task's formulas; None if the task's function is not registered."""
    name, *_ = json.loads(task)
    if name in known():
        return ComputeDAG(task).workload_key()
    return task
