"""What a log says: the best candidates, how much faster than the default they are, and a summary.

Searches, logs and all that applies a log choose by `by_speed`, so they choose the same program.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from minitvm.base import ArgumentError, Target

from .record import Log, Record, machine_facts
from .trial import Result

CHANCE = 1e-3  # the gain lies above the interval, and below it, with at most this probability

Group: TypeAlias = tuple[str, str, str]  # task key, target, machine


class Measurement(Protocol):
    """The properties that Trial and Record share."""

    @property
    def result(self) -> Result: ...
    @property
    def cost(self) -> float: ...
    @property
    def default(self) -> float | None: ...
    @property
    def final(self) -> bool: ...


M = TypeVar("M", bound=Measurement)


def by_speed(measurements: Iterable[M], name: Callable[[M], Hashable]) -> list[M]:
    """Return the measurement that counts for each candidate, the best candidate first.

    name   returns what identifies the candidate of a measurement
    The last final measurement of a candidate counts, or else its fastest trial. The speed of a
    machine changes, so a cost is divided by that of the default schedule measured beside it; where
    that is not known, by the median of those that are. Failures are left out.
    """
    records = list(measurements)
    defaults = [m.default for m in records if m.default is not None]
    median = statistics.median(defaults) if defaults else 1.0

    def relative(m: M) -> float:
        return m.cost / (m.default or median)

    best_of = dict[Hashable, M]()
    for m in records:
        old = best_of.get(name(m))
        if old is None or m.final or (not old.final and relative(m) < relative(old)):
            best_of[name(m)] = m
    return sorted((m for m in best_of.values() if not m.result.error), key=relative)


def best(
    records: Iterable[Record],
    task: str | None = None,
    target: str | Target | None = None,
    *,
    all_machines: bool = False,
) -> Record | None:
    """Return the record of the best candidate in a log; None if no record counts.

    records        as Log.records returns them
    task, target   only records with this key and this target count; None allows any
    all_machines   whether records of other machines count too
    The best candidates of several tasks, targets and machines are compared by their seconds, or by
    their modelled cycles. Raises ArgumentError if the log has both, and no target is given.
    """
    target_text = None if target is None else str(Target(target))
    chosen = (r for r in records if task in (None, r.task) and target_text in (None, r.target))
    candidates = bests(chosen, all_machines=all_machines)
    if len({r.result.unit for r in candidates}) > 1:
        why = "some records have seconds, others the modelled cycles of a simulated GPU"
        raise ArgumentError("the best record", why, "target=...")
    return min(candidates, key=lambda r: r.cost, default=None)


def bests(records: Iterable[Record], *, all_machines: bool = False) -> list[Record]:
    """Return the record of the best candidate of each task, target and machine in a log."""
    records = list(records)
    if not all_machines:
        facts = {target: machine_facts(Target(target)) for target in {r.target for r in records}}
        records = [r for r in records if r.machine == facts[r.target]]
    orders = (by_speed(group, candidate_name) for group in grouped(records).values())
    return [order[0] for order in orders if order]


def grouped(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """Return the records of each group; times may be compared only within a group."""
    groups = dict[Group, list[Record]]()
    for record in records:
        groups.setdefault(group_of(record), []).append(record)
    return groups


def group_of(record: Record) -> Group:
    """Return the task, the target and the machine of a record."""
    return record.task, record.target, json.dumps(record.machine, sort_keys=True)


def candidate_name(record: Record) -> str:
    """Return a string that identifies the candidate of a record within its group."""
    return json.dumps([record.sketch, record.values], sort_keys=True)


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

    Lines of other versions are kept too. Returns how many lines were kept and dropped. The log is
    replaced in one step. Raises ArgumentError, and leaves the log unchanged, if it is missing, or
    if a search appends to it at the same time.
    """
    if keep < 1:
        raise ArgumentError(f"keep={keep}", "it must be at least 1", "keep=1")
    if not log.path.exists():
        raise ArgumentError(f"log {str(log.path)!r}", "there is no such file")
    size = log.path.stat().st_size
    best = {
        (group, candidate_name(record))
        for group, records in grouped(log.records()).items()
        for record in by_speed(records, candidate_name)[:keep]
    }
    lines, dropped = list[str](), 0
    for line, record, fault in log.lines():
        if record is None:
            kept = fault == "lines of another version"
        else:
            kept = not record.result.error and (group_of(record), candidate_name(record)) in best
        lines += [line.strip() + "\n"] if kept else []
        dropped += not kept
    new_path = log.path.with_name(log.path.name + ".new")
    new_path.write_text("".join(lines), encoding="utf-8")
    if log.path.stat().st_size != size:
        new_path.unlink()
        why = "a search is appending to it"
        raise ArgumentError(f"log {str(log.path)!r}", why, "stop the search first")
    os.replace(new_path, log.path)
    return len(lines), dropped


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as fast as the default schedule a candidate is.

    middle      the median of the rounds, in which both were measured alternately
    low, high   the interval in which the gain lies
    """

    middle: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """Return whether the candidate is faster than the default, beyond chance."""
        return self.low > 1

    def __str__(self) -> str:
        interval = f" ({self.low:.2f} to {self.high:.2f})" * (self.low < self.high)
        if not self.is_faster:
            how = "slower" if self.high < 1 else "no faster"
            return f"{how} than the default{interval}"
        return f"{self.middle:.2f} x the default{interval}"


def gain_of(m: Measurement | None) -> Gain | None:
    """Return the gain of a final measurement; None if it or the default was not measured."""
    if m is None or not m.final or m.default is None or m.result.error:
        return None
    gains = sorted(m.default / cost for cost in m.result.costs)
    left_out = _left_out(len(gains))
    return Gain(statistics.median(gains), gains[left_out], gains[len(gains) - 1 - left_out])


def _left_out(rounds: int) -> int:
    """Return how many of the lowest and of the highest gains lie outside the interval.

    Each round exceeds the true median with probability 1/2, so this holds for any noise. The
    interval of few rounds has all of them: 10 rounds are needed for CHANCE.
    """
    least = [sum(math.comb(rounds, k) for k in range(n + 1)) for n in range(rounds // 2)]
    return max(0, sum(ways <= CHANCE * 2**rounds for ways in least) - 1)
