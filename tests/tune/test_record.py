"""Logs: lines that are appended whole, read by other versions, and replayed."""

import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from minitvm import driver, te, tune
from minitvm.base import ArgumentError, Target
from tests.tune.fakes import search, sketch, task


def trials(found: tune.Task, count: int = 6) -> list[tune.Trial]:
    candidates = tune.RandomPolicy(found, np.random.default_rng(0)).propose(count)
    return [
        tune.Trial(c, tune.Result((1e-3 * (n + 1), 2e-3), build_seconds=0.1, run_seconds=0.2), 5.0)
        for n, c in enumerate(candidates)
    ]


def written(path, found: tune.Task, given) -> tune.Log:
    log = tune.Log(path)
    for trial in given:
        log.append(tune.record_of(found, trial))
    return log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.jsonl"


def test_a_record_returns_from_its_line(path) -> None:
    found = task()
    bad = tune.Result((), "compile", 'a "quoted" line\nand another, ü\x00')
    given = [*trials(found), tune.Trial(trials(found, 7)[-1].candidate, bad, 6.5)]
    log = written(path, found, given)
    assert log.records() == [tune.record_of(found, trial) for trial in given]
    assert list(log.read(found).trials) == given
    assert log.read(found).skipped == {}


def test_a_line_says_what_was_measured_where(path) -> None:
    found = task()
    (trial,) = trials(found, 1)
    written(path, found, [trial])
    line = json.loads(path.read_text())
    space = found.sketches[0].space
    assert line["version"] == 2
    assert line["task"] == '["matmul", 512, 512, 512, "float32"]'
    assert line["target"] == "llvm -num-cores=1"
    assert set(line["machine"]) == {"cpu", "cores", "vector_bytes", "l1", "l2", "l3"}
    assert line["sketch"] == "tiles"
    assert line["values"]["i"] == list(space.knobs[0].options[trial.candidate.row[0]])
    assert line["steps"][0][0] == "split"
    assert line["seconds"] == [1e-3, 2e-3]
    assert line["flops"] == 2 * 512**3
    assert (line["build_seconds"], line["run_seconds"], line["time"]) == (0.1, 0.2, 5.0)


def test_a_replay_is_the_same_program(path) -> None:
    """Only the formula is needed: neither the space nor the sketch."""
    found = task(sketch(n=64))
    log = written(path, found, trials(found))
    bare = sketch("other", n=64)
    formula = tune.Task(found.name, found.workload, found.target, bare.args, found.flops, (bare,))
    for record, trial in zip(log.records(), trials(found), strict=True):
        for again in (found, formula):
            lowered = driver.lower(tune.replay(record, again), again.args, target=again.target)
            assert str(lowered) == str(found.lowered(trial.candidate))
    with pytest.raises(ArgumentError, match="it belongs to task"):
        tune.replay(log.records()[0], task())


def test_a_replayed_schedule_is_a_schedule(path) -> None:
    found = task(sketch(n=64))
    (record,) = written(path, found, trials(found, 1)).records()
    s = tune.replay(record, found)
    assert isinstance(s, te.Schedule)
    assert "te.create_schedule" in s.python()
    s.undo()


# --- lines that are not ours ---------------------------------------------------------------------


def test_other_lines_are_counted_and_kept(path) -> None:
    found = task()
    given = trials(found)
    log = written(path, found, given)
    other = tune.Task("dense", found.workload, found.target, found.args, 1.0, found.sketches)
    aimed = tune.Task(
        "matmul", found.workload, Target("llvm -num-cores=2"), found.args, 1.0, found.sketches
    )
    for strange in (other, aimed):
        log.append(tune.record_of(strange, given[0]))
    line = json.loads(path.read_text().splitlines()[0])
    for change in (
        {"version": 1},
        {"machine": line["machine"] | {"cpu": "z80"}},
        {"values": {"i": [1, 1, 512]}},
        {"values": line["values"] | {"i": [3, 3, 3]}},
        {"sketch": "unknown"},
        {"seconds": "fast"},
        {"error": "never heard of it"},
    ):
        with path.open("a") as file:
            file.write(json.dumps(line | change) + "\n")
    with path.open("a") as file:
        file.write("{no json\n\n[1, 2]\n" + json.dumps(line | {"colour": "red"}) + "\n")
    before = path.read_bytes()
    with pytest.warns(UserWarning, match="4 broken lines"):
        reading = log.read(found)
    assert list(reading.trials) == [*given, given[0]]  # the unknown key is ignored
    assert reading.skipped == {
        "lines of other tasks": 1,
        "lines of other targets": 1,
        "lines of another version": 1,
        "lines of other machines": 1,
        "lines of another space": 3,
        "broken lines": 4,
    }
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        {"batch": math.inf},
        {"batch": None},
        {"task": "matmul"},
        {"task": "[]"},
        {"task": 7},
        {"task": "[" * 200_000},
        {"target": "z80"},
        {"target": None},
        {"seconds": [0]},
        {"seconds": [-1]},
        {"seconds": [math.nan]},
        {"seconds": []},
        {"seconds": 1},
        {"error": []},
        {"flops": math.nan},
        {"time": -math.inf},
        {"default": 0},
        {"values": 3},
        {"steps": None},
        {"machine": "here"},
        "[" * 200_000,
        "1" * 5000,
        "null",
        "\x00\ufffd",
    ],
    ids=lambda change: str(change)[:30],
)
def test_the_lines_after_a_bad_line_are_read_and_a_warning_names_it(path, change) -> None:
    found = task()
    one, two = trials(found, 2)
    log = written(path, found, [one])
    bad = change
    if not isinstance(change, str):
        bad = json.dumps(json.loads(path.read_text()) | change)
    with path.open("a") as file:
        file.write(f"{bad}\n")
    written(path, found, [two])
    with pytest.warns(UserWarning, match="has 1 broken lines, which are ignored: line 2$"):
        assert log.read(found).trials == (one, two)


def test_values_count_if_a_space_numbers_its_options_in_another_way(path) -> None:
    found = task()
    log = written(path, found, trials(found))
    k = found.sketches[0]
    turned = tuple(
        tune.sizes_knob(g.name, tuple(reversed(g.options))) if g.kind == "split" else g
        for g in k.space.knobs
    )
    again = tune.Sketch(k.name, k.args, k.initial, k.steps, k.parameters, tune.Space(turned))
    other = tune.Task(found.name, found.workload, found.target, found.args, found.flops, (again,))
    for record, trial in zip(log.records(), log.read(other).trials, strict=True):
        row = tune.candidate_of(record, found).row
        assert trial.candidate.row != row
        assert str(again.filled(trial.candidate.row)) == str(k.filled(row))


def test_a_candidate_of_another_space_is_refused(path) -> None:
    found = task()
    (record, *_) = written(path, found, trials(found)).records()
    k = found.sketches[0]
    less = tune.Space((*k.space.knobs[:3], tune.number_knob("other", [1, 2])))
    other = tune.Sketch(k.name, k.args, k.initial, k.steps, k.parameters, less)
    with pytest.raises(ArgumentError, match="another space"):
        tune.candidate_of(record, task(other))
    with pytest.raises(ArgumentError, match="no such sketch"):
        tune.candidate_of(record, task(sketch("renamed")))
    with pytest.raises(ArgumentError, match="it belongs to task"):
        tune.candidate_of(record, task(sketch(n=64)))


# --- writing -------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_ignored_and_does_not_spoil_the_next(path) -> None:
    found = task()
    given = trials(found)
    log = written(path, found, given[:3])
    whole = path.read_bytes()
    for cut in (1, 5, 200):
        path.write_bytes(whole[:-cut])
        kept = 3 if cut == 1 else 2  # only the end of the line is missing
        assert len(log.read(found).trials) == kept
        log.append(tune.record_of(found, given[4]))
        assert [t.candidate for t in log.read(found).trials] == [
            t.candidate for t in (*given[:kept], given[4])
        ]


def _append(path, start: int) -> None:
    found = task()
    written(path, found, trials(found, 40)[start::2])


def test_two_processes_append_to_one_log(path) -> None:
    found = task()
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_append, args=(path, start)) for start in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    reading = tune.Log(path).read(found)
    assert reading.skipped == {}
    assert {t.candidate for t in reading.trials} == {t.candidate for t in trials(found, 40)}


def test_a_missing_log_is_empty_and_a_bad_place_is_refused(tmp_path) -> None:
    log = tune.Log(tmp_path / "none")
    assert log.records() == []
    assert tune.best(log.records()) is None
    assert not log.path.exists()
    for bad in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(ArgumentError, match="no file can be created there"):
            tune.Log(bad)


def test_a_log_keeps_trials_and_final_measurements_apart(path) -> None:
    found = task()
    one, two = trials(found, 2)
    final = tune.Trial(one.candidate, tune.Result((9.0,)), 6.0, 4.0, final=True)
    reading = written(path, found, [one, two, final]).read(found)
    assert reading.trials == (one, two)
    assert reading.final == (final,)


KILLED = """
import sys, time
sys.path.insert(0, {root!r})
from tests.tune.fakes import Machine, search, task
class Slow(Machine):
    def _result(self, candidate):
        time.sleep(.002)
        return super()._result(candidate)
found = task()
print("ready", flush=True)
search(found, trials=100_000, log={log!r}, machine=Slow(found))
"""


def test_a_killed_search_loses_nothing_that_was_measured(path) -> None:
    """kill -9 at some moment: every line is whole, and the same call goes on from there."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = KILLED.format(root=root, log=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        while not path.exists() or path.stat().st_size < 40_000:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    reading = tune.Log(path).read(task())
    assert len(reading.trials) > 10
    assert set(reading.skipped) <= {"broken lines"}
    assert sum(reading.skipped.values()) <= 1
    known = len(reading.trials)
    outcome = search(trials=known + 20, log=path)
    assert outcome.earlier == known
    assert len({t.candidate for t in outcome.trials}) == known + 20
