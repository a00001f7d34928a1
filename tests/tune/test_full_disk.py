"""Logs that cannot be written: refused before the first trial, and no reason to lose a search."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minitvm import auto_scheduler, autotvm, tune
from minitvm.base import ArgumentError
from tests.tune.fakes import Machine, search, task

FULL = "No space left on device"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def broken(log: Path) -> Path:
    """Return the path of a log that can be read, because it is missing, but not be created."""
    log.symlink_to(log.parent / "no" / "folder")
    return log


def fill_disk(monkeypatch: pytest.MonkeyPatch, first: int, last: int) -> None:
    """Let the disk have space for only half of each record from number `first` to `last`."""
    write, count = os.write, [0]

    def short(file: int, data: bytes) -> int:
        count[0] += 1
        return write(file, data[: len(data) // 2] if first <= count[0] <= last else data)

    monkeypatch.setattr(os, "write", short)


def nothing_is_measured(machine: Machine) -> bool:
    return not machine.asked and not machine.finals


def test_a_log_that_cannot_be_written_is_refused_before_the_first_trial(broken) -> None:
    machine = Machine(task())
    with pytest.raises(ArgumentError, match="it cannot be written: No such file or directory"):
        search(machine.task, machine=machine, trials=20, log=broken)
    assert nothing_is_measured(machine)


def test_a_full_disk_is_found_before_the_first_trial(log, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    machine = Machine(task())
    with pytest.raises(ArgumentError, match="its disk is full: 100 bytes are free"):
        search(machine.task, machine=machine, trials=20, log=log)
    assert nothing_is_measured(machine)


def test_a_task_scheduler_refuses_it_before_the_first_trial(broken) -> None:
    machine = Machine(task())
    scheduler = auto_scheduler.TaskScheduler([machine.task], measurers=lambda task: machine)
    with pytest.raises(ArgumentError, match="it cannot be written"):
        scheduler.tune(trials=20, log=broken)
    assert nothing_is_measured(machine)


def with_autotvm(log: Path) -> None:
    found = autotvm.task_for("matmul", (16, 16, 16), "llvm -num-cores=1")
    autotvm.tuner.RandomTuner(found).tune(4, callbacks=[autotvm.callback.log_to_file(log)])


def with_auto_scheduler(log: Path) -> None:
    formulas = auto_scheduler.ComputeDAG(list(task().args))
    callbacks = [auto_scheduler.RecordToFile(log)]
    options = auto_scheduler.TuningOptions(4, verbose=0, measure_callbacks=callbacks)
    auto_scheduler.SearchTask(compute_dag=formulas, target=task().target).tune(options)


@pytest.mark.parametrize("tune_into", [with_autotvm, with_auto_scheduler])
def test_callbacks_refuse_it_before_the_first_trial(tune_into, broken) -> None:
    with pytest.raises(ArgumentError, match="it cannot be written"):
        tune_into(broken)


def test_a_search_on_a_log_that_is_only_read_needs_no_space(log, monkeypatch) -> None:
    first = search(trials=20, log=log)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    assert search(trials=20, log=log).best.candidate == first.best.candidate


def test_a_disk_that_is_full_later_loses_no_trial(log, monkeypatch) -> None:
    fill_disk(monkeypatch, 11, 99)
    with pytest.warns(UserWarning, match=FULL) as warned:
        outcome = search(trials=40, log=log)
    assert len(warned) == 1
    assert (len(outcome.trials), len(outcome.final)) == (40, 5)
    assert outcome.unsaved == f"35 records are not in the log: {FULL}"
    assert str(outcome).endswith(f"; {outcome.unsaved}")
    assert len(tune.Log(log).read(task()).trials) == 10


def test_records_are_written_later_when_the_disk_has_space_again(log, monkeypatch) -> None:
    fill_disk(monkeypatch, 11, 13)
    with pytest.warns(UserWarning, match=FULL):
        outcome = search(trials=40, log=log)
    assert outcome.unsaved == ""
    reading = tune.Log(log).read(task())
    assert reading.trials == outcome.trials
    assert reading.skipped == {"broken lines": 3}


def test_the_tasks_of_a_scheduler_share_one_warning(log, monkeypatch) -> None:
    fill_disk(monkeypatch, 3, 999)
    machines = {found: Machine(found) for found in (task(), task())}
    scheduler = auto_scheduler.TaskScheduler(
        list(machines), policy=tune.RandomPolicy, measurers=machines.__getitem__,
        strategy="round-robin", rng=np.random.default_rng(0),
    )  # fmt: skip
    with pytest.warns(UserWarning, match=FULL) as warned:
        outcome = scheduler.tune(trials=16, batch=4, log=log)
    assert len(warned) == 1
    assert [len(o.trials) for o in outcome.outcomes] == [8, 8]
    assert str(outcome).count("24 records are not in the log") == 1
