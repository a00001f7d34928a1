"""Use the best configurations of a log: `with autotvm.apply_history_best("matmul.log"):`."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self, TypeAlias

from minitvm import te, topi, tune
from minitvm.base import ArgumentError, Target

from .dispatch import ApplyConfig, DispatchContext, Workload
from .measure import MeasureInput, MeasureResult
from .operators import scheduled
from .recognise import recognised
from .space import Config, ConfigEntity
from .task import collected
from .templates import TEMPLATES

Measured: TypeAlias = tuple[MeasureInput, MeasureResult]
Records: TypeAlias = str | Path | tune.Log | Iterable[Measured]
Key: TypeAlias = tuple[str, str]  # (the target or its kind, the key of a task)


class ApplyHistoryBest(DispatchContext):
    """A context that gives each workload the best configuration in a log, measured on this machine.

    A configuration set by `update` comes first, then the best on this target, then the fastest on a
    target of the same kind. If a template has changed since a configuration was measured, this
    configuration is not used.
    """

    def __init__(self, records: Records | None = None) -> None:
        super().__init__()
        self.set: dict[Key, Config] = {}
        self.best: dict[Key, tuple[float, tune.Record | ConfigEntity]] = {}
        self.found: dict[Key, Config | None] = {}
        self._hooks = list[ExitStack]()
        if records is not None:
            self.load(records)

    def __enter__(self) -> Self:
        """Also let topi.schedule use the configurations."""
        hook = ExitStack()
        hook.enter_context(topi.dispatch.using(self.schedule))
        self._hooks.append(hook)
        return super().__enter__()

    def __exit__(self, *about: object) -> None:
        super().__exit__(*about)
        self._hooks.pop().close()

    def schedule(self, outs: Sequence[te.Tensor], target: Target) -> te.Schedule | None:
        """Return the tuned schedule of topi operators; None to use the default schedule.

        Returns None if the log does not have the workload, or if the default was faster when both
        were measured.
        """
        workload = recognised(outs)
        if workload is None or self._default_is_faster(target, workload):
            return None
        cfg = self.find(target, workload)
        if cfg is None:
            return None
        with target, ApplyConfig(cfg):
            return scheduled(outs)

    def load(self, records: Records) -> None:
        """Add the records of a log."""
        self.found.clear()
        if isinstance(records, str | Path | tune.Log):
            log = records if isinstance(records, tune.Log) else tune.Log(records)
            if not log.path.exists():
                raise ArgumentError(f"log {str(log.path)!r}", "there is no such file")
            for record in tune.bests(log.records()):
                self._add(record.target, record.task, record.cost, record)
            return
        for measured, result in records:
            if not result.error_no:
                self._add(
                    str(measured.target), measured.task.key, min(result.costs), measured.config
                )

    def _add(self, target: str, task: str, cost: float, what: tune.Record | ConfigEntity) -> None:
        for key in ((target, task), (_kind(Target(target)), task)):
            if cost < self.best.get(key, (math.inf, None))[0]:
                self.best[key] = cost, what

    def find(self, target: Target, workload: Workload) -> Config | None:
        key = str(target), json.dumps(workload)
        if key in self.set:
            return self.set[key]
        if key not in self.found:
            self.found[key] = self._config(target, workload)
        return self.found[key]

    def _config(self, target: Target, workload: Workload) -> Config | None:
        match self._fastest(target, workload):
            case tune.Record() as record:
                return config_of(record, target, workload)
            case other:
                return other

    def _fastest(self, target: Target, workload: Workload) -> tune.Record | ConfigEntity | None:
        task = json.dumps(workload)
        for name in (str(target), _kind(target)):
            if (name, task) in self.best:
                return self.best[name, task][1]
        return None

    def _default_is_faster(self, target: Target, workload: Workload) -> bool:
        if (str(target), json.dumps(workload)) in self.set:
            return False
        record = self._fastest(target, workload)
        return isinstance(record, tune.Record) and record.default_is_faster

    def update(self, target: Target, workload: Workload, cfg: Config) -> None:
        """Set the configuration of a workload; it takes precedence over the log."""
        self.set[str(target), json.dumps(workload)] = cfg


def _kind(target: Target) -> str:
    """Return the kind of a target, with the unit of its costs: only costs in one unit compare."""
    return f"{target.kind}, {target.unit}"


def config_of(record: tune.Record, target: Target, workload: Workload) -> ConfigEntity | None:
    """Return the configuration of a record; None, with a warning, if its template has changed.

    The space may also differ on another target: it has the default plan for that target.
    """
    template = TEMPLATES.get(workload[0])
    if template is None:
        return None
    if f"@{template.code_hash}." in record.sketch:
        space, _ = collected(template, workload[1:], target)
        with suppress(ArgumentError):
            return space.entity(tune.row_of(record, space.space))
    text = f"template {template.name!r} has changed since {record.task} was tuned: tune again"
    warnings.warn(text, stacklevel=2)
    return None


def apply_history_best(records: Records) -> ApplyHistoryBest:
    """Return a context that gives each workload the best configuration in a log."""
    return ApplyHistoryBest(records)
