"""The commands of `python -m minitvm tune`: run and resume searches, read and maintain logs."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

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
    "prune": "keep the fastest candidates of each task",
}


def parser() -> argparse.ArgumentParser:
    """Return the parser for `python -m minitvm tune`."""
    about = "search for the fastest schedule of an operator"
    top = argparse.ArgumentParser(prog="python -m minitvm tune", description=about)
    verbs = top.add_subparsers(
        dest="verb", required=True, metavar="OPERATOR|resume|report|log|pool"
    )
    for name, (about, names) in operators().items():
        shape = names.replace(", ", ",")
        command = verbs.add_parser(name, help=f"{about.splitlines()[0]} --shape {shape}")
        command.add_argument("--shape", required=True, help=shape)
        command.add_argument("--target", default="llvm", help='such as "llvm -num-cores=1"')
        command.add_argument("--log", metavar="FILE", help="the log; one that exists is continued")
        _add_budget(command)
        _add_cluster(command)
    resume = verbs.add_parser("resume", help="continue the last search of a log")
    resume.add_argument("log")
    _add_budget(resume)
    _add_cluster(resume)
    page = verbs.add_parser("report", help="write a page about the last search of a log")
    page.add_argument("log")
    page.add_argument("-o", "--output", metavar="FILE", help="the page (LOG.html)")
    logs = verbs.add_parser("log", help=", ".join(VERBS))
    logs.add_argument(
        "action", choices=VERBS, help="; ".join(f"{v}: {w}" for v, w in VERBS.items())
    )
    logs.add_argument("log")
    logs.add_argument("--keep", type=int, default=10, help="candidates that prune keeps (10)")
    pool = verbs.add_parser("pool", help="the devices of a Dask cluster: busy, waiting, failed")
    pool.add_argument("scheduler", metavar="ADDRESS", help="its scheduler: tcp://HOST:8786")
    return top


def _add_cluster(p: argparse.ArgumentParser) -> None:
    cluster = p.add_argument_group("cluster", "see docs/cluster.md")
    about = "measure on the workers of a running Dask cluster"
    cluster.add_argument("--scheduler", metavar="ADDRESS", default="", help=about)
    about = 'the kind of device: "avx512" (that of this machine)'
    cluster.add_argument("--device", metavar="KIND", default="", help=about)


def _add_budget(p: argparse.ArgumentParser) -> None:
    budget = p.add_argument_group("budget", "the search ends at whatever limit it reaches first")
    default = f"{SECONDS:g} if neither --seconds nor --trials is given"
    about = f"seconds of searching, from the first result to the final comparison ({default})"
    budget.add_argument("--seconds", type=float, help=about)
    budget.add_argument("--trials", type=int, help="measured candidates, those in the log included")
    about = "end after so many trials in a row without a faster one, those in the log included"
    budget.add_argument("--early-stopping", type=int, metavar="TRIALS", help=about)
    budget.add_argument("--seed", type=int, default=0, help="seed of the random numbers (0)")


def main(words: Sequence[str], say: Say = print) -> None:
    """Run a `tune` command with the arguments `words`; `say` prints one line or paragraph."""
    options = parser().parse_args(_with_shape(words))
    match options.verb:
        case "resume":
            record = last_record(options.log)
            search(task_of_key(record.task, record.target), Path(options.log), options, say)
        case "report":
            record = last_record(options.log)
            page = Path(options.output or f"{options.log}.html")
            task = task_of_key(record.task, record.target)
            page.write_text(report(task, tune.Log(options.log)), encoding="utf-8")
            say(f"wrote {page}")
        case "log":
            maintain(options.action, existing(options.log), options.keep, say)
        case "pool":
            say(str(tune.pool(options.scheduler)))
        case name:
            task = task_of(name, sizes(options.shape), options.target)
            log = Path(options.log or f"{name}_{'x'.join(map(str, sizes(options.shape)))}.jsonl")
            search(task, log, options, say)


def _with_shape(words: Sequence[str]) -> list[str]:
    """Join --shape and its value to one word, because argparse takes "-4,8" for an option."""
    arguments = list[str]()
    for word in words:
        if arguments[-1:] == ["--shape"]:
            arguments[-1] += f"={word}"
        else:
            arguments.append(word)
    return arguments


def search(task: tune.Task, log: Path, options: argparse.Namespace, say: Say) -> tune.Outcome:
    """Run or continue a search, print its outcome and return it."""
    seconds = SECONDS if options.seconds is None and options.trials is None else options.seconds
    book = tune.Log(log)
    reading = book.read(task)
    say(f"{tune.shown(task)} for {task.target}: {tune.counted(task.size)} candidates; log {log}")
    if reading.trials:
        say(f"continuing after {len(reading.trials)} trials")
    for reason, count in reading.skipped.items():
        say(f"the log has {count} {reason}, which are left alone")
    outcome = tune.run(
        task,
        trials=options.trials,
        seconds=seconds,
        early_stopping=options.early_stopping,
        log=book,
        measure=tune.MeasureOptions(cluster=options.scheduler, device=options.device),
        rng=np.random.default_rng([options.seed, len(reading.trials)]),
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
            for fault, count in Counter(fault for *_, fault in log.lines() if fault).items():
                say(f"{count} {fault}")
        case _:
            unchanged, dropped_count = tune.prune(log, keep)
            say(f"kept {unchanged} lines, dropped {dropped_count}")


def _rate(record: tune.Record) -> str:
    rate = f"{tune.rate(record, record.cost):.1f} {tune.rate_unit(record)}"
    return f"{rate}, {tune.cost_text(record, record.cost)}"


def _say_best(group: tune.Group, summary: tune.Summary, say: Say) -> None:
    name, target, _ = group
    record = summary.best
    if record is None:
        say(f"{name} for {target}: every candidate failed")
        return
    say(f"{name} for {target}: {_rate(record)}")
    for knob, value in record.values.items():
        say(f"  {knob} = {value}")
    with suppress(ArgumentError):  # the task is not known
        say(tune.replay(record, task_of_key(record.task, record.target)).python())


def _say_summary(group: tune.Group, summary: tune.Summary, say: Say) -> None:
    name, target, machine = group
    record, failed = summary.best, sum(summary.failures.values())
    best = "-"
    if record is not None:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.time))
        best = f"{_rate(record)}, {day}"
    machine = re.sub(r'["{}]', "", machine)
    say(f"{name} for {target} on {machine}")
    say(f"  {summary.records} trials, {failed} failed, best {best}")
    for kind, count in summary.failures.items():
        say(f"  {count:6}  {kind}")
