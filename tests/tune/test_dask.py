"""A Dask cluster measures as this machine does: each program once, also if a worker dies."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pytest

from minitvm import auto_scheduler, autotvm, dist, tune
from minitvm.base import ArgumentError, MeasureError, Target
from minitvm.tune import cluster, device
from minitvm.tuning import main

from . import failing

pytest.importorskip("distributed")

ONE = "llvm -num-cores=1"
SHORT = tune.MeasureOptions(compile_seconds=30, run_seconds=30, min_repeat_ms=1)
DEVICE = device.RESOURCE + device.this_device()
FAILING = [name for name in failing.FAILURES if name not in ("garbage", "hang", "slow build")]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two worker processes with a device each, which are started again if they die.

    They have a folder of their own for locks, because other tests may have clusters at that time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("locks")))
        with dist._local_cluster(dist.distributed("tests"), 2, {DEVICE: 1}) as started:
            yield started


@pytest.fixture
def measurer(pool: Any) -> Iterator[tune.DaskMeasurer]:
    with tune.DaskMeasurer(pool) as m:
        yield m


def matmul() -> tune.Task:
    return autotvm.task_for("matmul", (64, 64, 64), ONE)


def search(**options: Any) -> tune.Outcome:
    """Measure the same twelve candidates in each call."""
    task = matmul()
    policy = tune.RandomPolicy(task, np.random.default_rng(0))
    return tune.run(task, policy, trials=12, rng=np.random.default_rng(0), **options)


def verdicts(trials: Any) -> list[tuple[tune.Candidate, str]]:
    return [(trial.candidate, trial.result.error) for trial in trials]


# --- measuring -----------------------------------------------------------------------------------


def test_a_failure_on_a_device_is_that_of_this_machine(measurer: tune.DaskMeasurer) -> None:
    programs = [failing.FAILURES[name][0] for name in FAILING]
    with measurer.of(failing.doubled(), ONE, options=SHORT) as there:
        *results, last = there.measure([*programs, failing.doubled])
    assert (last.error, len(last.seconds)) == ("", 1)
    for name, result in zip(FAILING, results, strict=True):
        _, error, detail = failing.FAILURES[name]
        assert (name, result.error) == (name, error)
        assert detail in result.detail


def test_the_best_are_measured_again_beside_the_reference(measurer: tune.DaskMeasurer) -> None:
    with measurer.of(failing.doubled(), ONE, options=SHORT) as there:
        right, wrong, reference = there.remeasure([failing.doubled, failing.wrong], rounds=3)
    assert (len(right.seconds), wrong.error, len(reference.seconds)) == (3, "wrong answer", 3)


@pytest.mark.slow
def test_a_log_is_the_same_if_a_worker_is_killed_in_the_middle(
    measurer: tune.DaskMeasurer, tmp_path
) -> None:
    here, log = search(measure=SHORT), tune.Log(tmp_path / "log.jsonl")
    processes, killed = measurer.client.run(os.getpid), list[psutil.Process]()

    def kill(event: tune.Event) -> None:
        """Kill a worker that is building or measuring."""
        if isinstance(event, tune.Measured) and not killed:
            under_way = measurer.client.processing()
            for worker in [w for w, keys in under_way.items() if keys][:1]:
                killed.append(psutil.Process(processes[worker]))
                killed[0].kill()

    there = search(measurer=measurer, measure=SHORT, log=log, on=kill)
    assert len(killed) == 1
    assert not killed[0].is_running()
    assert verdicts(there.trials) == verdicts(here.trials)
    assert verdicts(log.read(matmul()).trials) == verdicts(here.trials)
    assert all(trial.result.seconds or trial.result.error for trial in there.trials)
    assert measurer.pool().lost >= 1


@pytest.mark.slow
def test_one_line_moves_later_searches_to_a_cluster(pool: Any) -> None:
    task = matmul()
    with tune.DaskMeasurer(pool).use() as used:
        before = sum(d.measured for d in used.pool().devices)
        scheduler = auto_scheduler.TaskScheduler([task])
        (outcome,) = scheduler.tune(trials=4, batch=4).outcomes
        assert sum(d.measured for d in used.pool().devices) == before + len(outcome.trials)
        assert isinstance(tune.measurer(task.default(), task.target), cluster.ClusterMeasurer)
    assert isinstance(tune.measurer(task.default(), task.target), tune.Measurer)


@pytest.mark.slow
def test_the_runner_of_tvm_is_a_kind_of_device_and_a_scheduler(pool: Any) -> None:
    host, port = pool.scheduler_address.removeprefix("tcp://").split(":")
    runner = autotvm.RPCRunner(device.this_device(), host, int(port), number=2, min_repeat_ms=1)
    options = autotvm.measure_option(autotvm.LocalBuilder(), runner)
    assert (options.cluster, options.number) == (pool.scheduler_address, 2)
    task = matmul()
    outcome = autotvm.tuner.RandomTuner(task, np.random.default_rng(0)).tune(3, options)
    assert len(outcome.trials) == 3
    assert auto_scheduler.TuningOptions(runner=runner).measure.device == device.this_device()


def test_the_pool_is_a_table(pool: Any, capsys) -> None:
    main(["pool", pool.scheduler_address])
    title, heads, *rows, counts = capsys.readouterr().out.splitlines()
    assert title == f"pool {pool.scheduler_address}"
    assert heads.split() == ["device", "worker", "busy", "measured", "failed"]
    assert [row.split()[0] for row in rows] == [device.this_device()] * 2
    assert counts.startswith("0 waiting, ")


@pytest.mark.slow
def test_the_command_measures_on_a_cluster(pool: Any, tmp_path, capsys) -> None:
    log = tmp_path / "log.jsonl"
    words = ["matmul", "--shape", "64,64,64", "--target", ONE, "--trials", "3", "--log", str(log)]
    with tune.DaskMeasurer(pool) as client:
        before = sum(d.measured for d in client.pool().devices)
        main([*words, "--scheduler", pool.scheduler_address])
        assert sum(d.measured for d in client.pool().devices) == before + 3
    assert "3 trials" in capsys.readouterr().out


# --- devices -------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU is reserved here")
def test_two_devices_have_no_cpu_in_common(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that another process has locked is left to it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = device.locked(0)
    assert lock is not None
    with lock:
        assert device.locked(0) is None
    with device.locked(0) or pytest.fail("it is still locked"):
        pass


def test_a_device_without_a_free_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_claims", {})
    free = {3: open(os.devnull, "rb")}  # noqa: SIM115
    with free[3], pytest.raises(ArgumentError, match=r"it needs 2 of the CPUs \[2, 3\]"):
        device.claimed([2, 3], 2, free.get)


@pytest.mark.parametrize(("threads", "is_alone"), [(1, True), (1, False), (2, True)])
def test_a_worker_of_one_thread_builds_where_it_measures(
    threads: int, is_alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "claimed", lambda cpus, count, lock: cpus[:count])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {4, 5, 6}, raising=False)
    builders, runner = device.cpus_of(threads, is_alone)
    assert runner == [4, 5, 6][:threads]
    assert builders == (runner if is_alone else [4, 5, 6][threads:])


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"facts": {"architecture": "riscv64"}}, "its architecture is .*, that of the machine"),
        ({"features": frozenset({"avx10.2"})}, "it may use avx10.2"),
        ({"code": "0.0.9"}, "the process that sends the work 0.0.9"),
    ],
)
def test_another_machine_is_refused_before_it_runs_a_program(
    measurer: tune.DaskMeasurer, other: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(device.Machine.here(Target(ONE)), **other)
    monkeypatch.setattr(device.Machine, "here", lambda target: machine)
    before = [d.measured for d in measurer.pool().devices]
    with (
        measurer.of(failing.doubled(), ONE, options=SHORT) as there,
        pytest.raises(ArgumentError, match=why),
    ):
        list(there.measure([failing.doubled]))
    assert [d.measured for d in measurer.pool().devices] == before


def test_without_a_device_of_the_kind_the_error_says_how_to_start_one(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "CONNECT_SECONDS", 1.0)
    with (
        tune.DaskMeasurer(pool, "pynq") as m,
        m.of(failing.doubled(), ONE) as there,
        pytest.raises(ArgumentError, match=r"no worker offers.*\n.*--resources device.pynq=1"),
    ):
        _ = there.reference_cost


def test_a_scheduler_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "CONNECT_SECONDS", 0.5)
    start = time.monotonic()
    with pytest.raises(ArgumentError, match=r"tcp://127\.0\.0\.1:9: it does not answer"):
        search(measure=tune.MeasureOptions(cluster="tcp://127.0.0.1:9"))
    assert time.monotonic() - start < 20


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ArgumentError, match=r"pip install 'minitvm\[dist\]'"):
        search(measurer=tune.DaskMeasurer(2))


@pytest.mark.parametrize("where", [None, 2.5, True])
def test_a_cluster_is_an_address_or_a_count(where: Any) -> None:
    with pytest.raises(ArgumentError, match="neither an address nor a number"):
        tune.DaskMeasurer(where)


def test_a_search_without_devices_ends(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last device is lost for good while a program waits for it."""
    monkeypatch.setattr(cluster, "TICK_SECONDS", 0.1)
    monkeypatch.setattr(cluster, "DEVICE_SECONDS", 0.3)
    with tune.DaskMeasurer(pool) as m, m.of(failing.doubled(), ONE, options=SHORT) as there:
        assert there.reference_cost > 0
        monkeypatch.setattr(m, "resource", "device.lost")
        with pytest.raises(MeasureError, match="no device has been available"):
            list(there.measure([failing.doubled]))
