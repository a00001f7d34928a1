"""The commands of `python -m minitvm tune`: run and resume searches, read and maintain logs."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError

from .report import report
from .tasks import operators, sizes, task_of, task_of_key

Say: TypeAlias = Callable[[str], None]

SECONDS = 60.0  # the budget if none is given
VERBS = {
    "best": "the fastest schedule of each task",
    "show": "how many trials and failures there are, and the best speed",
    "upgrade": "number the options of all records as today's spaces do",
    "prune": "keep the fastest candidates of each task",
}


def parser() -> argparse.ArgumentParser:
    """Return the parser for `python -m minitvm tune`."""
    about = "search for the fastest schedule of an operator"
    top = argparse.ArgumentParser(prog="python -m minitvm tune", description=about)
    verbs = top.add_subparsers(dest="verb", required=True, metavar="OPERATOR|resume|report|log")
    for name, (about, names) in operators().items():
        shape = names.replace(", ", ",")
        one = verbs.add_parser(name, help=f"{about.splitlines()[0]} --shape {shape}")
        one.add_argument("--shape", required=True, help=shape)
        one.add_argument("--target", default="llvm", help='such as "llvm -num-cores=1"')
        one.add_argument("--log", metavar="FILE", help="the log; one that exists is continued")
        _add_budget(one)
    resume = verbs.add_parser("resume", help="continue the last search of a log")
    resume.add_argument("log")
    _add_budget(resume)
    page = verbs.add_parser("report", help="write a page about the last search of a log")
    page.add_argument("log")
    page.add_argument("-o", "--output", metavar="FILE", help="the page (LOG.html)")
    logs = verbs.add_parser("log", help=", ".join(VERBS))
    logs.add_argument(
        "action", choices=VERBS, help="; ".join(f"{v}: {w}" for v, w in VERBS.items())
    )
    logs.add_argument("log")
    logs.add_argument("--keep", type=int, default=10, help="candidates of a task, for prune (10)")
    return top


def _add_budget(p: argparse.ArgumentParser) -> None:
    budget = p.add_argument_group("budget", "the search ends at whatever limit it reaches first")
    usual = f"{SECONDS:g} if neither --seconds nor --trials is given"
    about = f"seconds of searching, from the first result to the final comparison ({usual})"
    budget.add_argument("--seconds", type=float, help=about)
    budget.add_argument("--trials", type=int, help="measured candidates, those in the log included")
    about = "end after so many trials in a row without a faster one, those in the log included"
    budget.add_argument("--early-stopping", type=int, metavar="TRIALS", help=about)
    budget.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")


def main(words: Sequence[str], say: Say = print) -> None:
    """Run a `tune` command with the arguments `words`; `say` prints one line or paragraph."""
    given = parser().parse_args(_with_shape(words))
    match given.verb:
        case "resume":
            record = last_record(given.log)
            search(task_of_key(record.task, record.target), Path(given.log), given, say)
        case "report":
            record = last_record(given.log)
            page = Path(given.output or f"{given.log}.html")
            task = task_of_key(record.task, record.target)
            page.write_text(report(task, tune.Log(given.log)), encoding="utf-8")
            say(f"wrote {page}")
        case "log":
            maintain(given.action, existing(given.log), given.keep, say)
        case name:
            task = task_of(name, sizes(given.shape), given.target)
            log = Path(given.log or f"{name}_{'x'.join(map(str, sizes(given.shape)))}.jsonl")
            search(task, log, given, say)


def _with_shape(words: Sequence[str]) -> list[str]:
    """Join --shape and its value to one word, because argparse takes "-4,8" for an option."""
    found = list[str]()
    for word in words:
        if found[-1:] == ["--shape"]:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def search(task: tune.Task, log: Path, given: argparse.Namespace, say: Say) -> tune.Outcome:
    """Run or continue a search, print its outcome and return it."""
    seconds = SECONDS if given.seconds is None and given.trials is None else given.seconds
    book = tune.Log(log)
    reading = book.read(task)
    say(f"{tune.shown(task)} for {task.target}: {tune.counted(task.size)} candidates; log {log}")
    if reading.trials:
        say(f"continuing after {len(reading.trials)} trials")
    for reason, count in reading.skipped.items():
        say(f"the log has {count} {reason}, which are left alone")
    outcome = tune.run(
        task,
        trials=given.trials,
        seconds=seconds,
        early_stopping=given.early_stopping,
        log=book,
        rng=np.random.default_rng([given.seed, len(reading.trials)]),
        on=tune.ProgressLine() if sys.stderr.isatty() else None,
    )
    say(str(outcome))
    failures = tune.failures_text(outcome.trials)
    if failures:
        say(failures if outcome.found is None else failures.splitlines()[0])
    if outcome.found is not None:
        say(f"the schedule: python -m minitvm tune log best {log}")
        say(f"a page:       python -m minitvm tune report {log}")
    return outcome


def existing(path: str) -> tune.Log:
    """Return the log at `path`; raise ArgumentError if there is no such file."""
    if not Path(path).is_file():
        raise ArgumentError(f"log {path!r}", "there is no such file", "tune OPERATOR --log FILE")
    return tune.Log(path)


def last_record(path: str) -> tune.Record:
    """Return the last record of the log at `path`; raise ArgumentError if it has none."""
    records = existing(path).records()
    if not records:
        raise ArgumentError(f"log {path!r}", "it has no record that this version can read")
    return records[-1]


def maintain(action: str, log: tune.Log, keep: int, say: Say) -> None:
    """Apply `action`, one of VERBS, to `log`; `prune` keeps `keep` candidates of each task."""
    match action:
        case "best":
            for group, summary in tune.summaries(log).items():
                _say_best(group, summary, say)
        case "show":
            for group, summary in tune.summaries(log).items():
                _say_summary(group, summary, say)
            _say_skipped(log, say)
        case "upgrade":
            kept, changed = tune.upgrade(log, _task_or_none)
            say(f"{changed} lines have new numbers, {kept} are as they were")
        case _:
            kept, dropped = tune.prune(log, keep)
            say(f"kept {kept} lines, dropped {dropped}")


def _task_or_none(key: str, target: str) -> tune.Task | None:
    try:
        return task_of_key(key, target)
    except ArgumentError:
        return None


def _title(group: tune.Group) -> str:
    task, target, _ = group
    return f"{task} for {target}"


def _rate(record: tune.Record) -> str:
    return f"{record.flops / record.seconds / 1e9:.1f} GFLOP/s, {record.seconds * 1e3:.4g} ms"


def _say_best(group: tune.Group, summary: tune.Summary, say: Say) -> None:
    record = summary.best
    if record is None:
        say(f"{_title(group)}: every candidate failed")
        return
    say(f"{_title(group)}: {_rate(record)}")
    for name, value in record.values.items():
        say(f"  {name} = {value}")
    task = _task_or_none(record.task, record.target)
    if task is not None:
        say(tune.replay(record, task).python())


def _say_summary(group: tune.Group, summary: tune.Summary, say: Say) -> None:
    best = "-" if summary.best is None else _rate(summary.best)
    failed = sum(summary.failures.values())
    say(f"{_title(group)} on {_machine(group)}")
    say(f"  {summary.records} trials, {failed} failed, best {best}{_when(summary.best)}")
    for kind, count in summary.failures.items():
        say(f"  {count:6}  {kind}")


def _machine(group: tune.Group) -> str:
    return re.sub(r'["{}]', "", group[2])


def _when(record: tune.Record | None) -> str:
    return "" if record is None else time.strftime(", %Y-%m-%d %H:%M", time.localtime(record.time))


def _say_skipped(log: tune.Log, say: Say) -> None:
    faults: dict[str, Any] = {}
    for _, _, fault in log.lines():
        faults[fault] = faults.get(fault, 0) + 1
    for fault, count in faults.items():
        if fault:
            say(f"{count} {fault}")
