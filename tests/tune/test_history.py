"""Maintenance of logs: summaries and pruning."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minitvm import tune
from minitvm.base import ArgumentError
from tests.tune.fakes import sketch, task


def filled(path, count: int = 20, every: int = 4) -> tuple[tune.Task, tune.Log]:
    """Return a task and a log of `count` trials, of which each `every`-th failed."""
    found, log = task(), tune.Log(path / "log.jsonl")
    candidates = tune.RandomPolicy(found, np.random.default_rng(0)).propose(count)
    for n, candidate in enumerate(candidates, 1):
        bad = tune.Result((), "crash", "signal 11")
        result = tune.Result((n * 1e-3,)) if n % every else bad
        log.append(tune.record_of(found, tune.Trial(candidate, result, 7.0)))
    return found, log


def test_a_summary_counts_trials_and_failures(tmp_path) -> None:
    found, log = filled(tmp_path)
    ((group, summary),) = tune.summaries(log).items()
    assert group[:2] == (found.key, str(found.target))
    assert (summary.records, summary.failures) == (20, {"crash": 5})
    assert summary.best is not None
    assert summary.best.seconds == 1e-3


def test_a_final_measurement_decides_which_is_the_best(tmp_path) -> None:
    found, log = filled(tmp_path)
    first = log.read(found).trials[0]
    again = tune.Trial(first.candidate, tune.Result((1.0,)), final=True)
    log.append(tune.record_of(found, again))
    (summary,) = tune.summaries(log).values()
    assert summary.best is not None
    assert summary.best.seconds == 2e-3
    assert summary.records == 20


def test_pruning_keeps_the_fastest_of_each_task_and_foreign_lines(tmp_path) -> None:
    found, log = filled(tmp_path)
    other = task(sketch(n=64))
    for candidate in tune.RandomPolicy(other, np.random.default_rng(0)).propose(3):
        log.append(tune.record_of(other, tune.Trial(candidate, tune.Result((5.0,)))))
    with log.path.open("a") as file:
        file.write('{"version": 0.2, "input": []}\nbroken\n')
    assert tune.prune(log, keep=2) == (5, 20)
    assert [t.seconds for t in log.read(found).trials] == [1e-3, 2e-3]
    assert len(log.read(other).trials) == 2
    assert log.read(found).skipped == {"lines of other tasks": 2, "lines of another version": 1}
    assert tune.prune(log, keep=2) == (5, 0)
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


def test_nothing_is_lost_if_a_search_appends_meanwhile(tmp_path, monkeypatch) -> None:
    _, log = filled(tmp_path)
    record, read = log.records()[0], log.lines

    def lines() -> Iterator[Any]:
        yield from read()
        log.append(record)

    before = log.path.read_text()
    monkeypatch.setattr(log, "lines", lines)
    with pytest.raises(ArgumentError, match="appending to it"):
        tune.prune(log)
    assert log.path.read_text().startswith(before)
    assert [file.name for file in tmp_path.iterdir()] == ["log.jsonl"]


def test_misuse_is_refused(tmp_path) -> None:
    with pytest.raises(ArgumentError, match="no such file"):
        tune.prune(tune.Log(tmp_path / "none"))
    with pytest.raises(ArgumentError, match="keep=0"):
        tune.prune(filled(tmp_path)[1], keep=0)
