"""A worker answers, or says how it failed, and lives on; it leaves no process behind."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from minitvm.workers import ClosedError, Failure, Message, Worker, process
from minitvm.workers.zygote import FORKS

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
WAYS = [True, False] if FORKS else [False]


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    return {p.pid for p in psutil.Process().children(recursive=True)}


@pytest.fixture(params=WAYS, ids=lambda forks: "fork" if forks else "spawn")
def start(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Worker]]:
    """Start workers that find their modules as this process would, in both ways."""
    monkeypatch.syspath_prepend(str(HERE))
    others = children()  # of other tests, such as idle compilers
    started: list[Worker] = []

    def starting(module: str = "echo", **given: object) -> Worker:
        started.append(Worker(module, forks=request.param, **given))  # type: ignore[arg-type]
        return started[-1]

    yield starting
    for worker in started:
        worker.close()
    assert children() <= others


@pytest.fixture
def echo(start: Callable[..., Worker]) -> Worker:
    return start()


def failure(worker: Worker, value: object, seconds: float = 60) -> Failure:
    found = worker.ask(value, seconds=seconds)
    assert isinstance(found, Failure), found
    return found


def value(worker: Worker, request: object) -> object:
    found = worker.ask(request, seconds=60)
    assert isinstance(found, Message), found
    return found.value


def exists(pid: int) -> bool:
    """Whether a process runs; one whose main thread has ended may have other threads."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1
    except psutil.Error:
        return False


def gone(pid: int) -> bool:
    """Wait until a process that is not our child has ended."""
    end = time.monotonic() + 60
    while exists(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not exists(pid)


def test_a_value_and_bytes_come_back(echo: Worker) -> None:
    blobs = (b"", b"\x00\xff" * 100_000, b"x")
    assert echo.ask({"n": [1, 2.5, None, "ü"]}, blobs, seconds=60) == Message(
        {"n": [1, 2.5, None, "ü"]}, blobs
    )
    assert value(echo, {"ended": 3}) == {"ended": 3}


def test_a_crash_names_the_signal_and_the_last_lines(echo: Worker) -> None:
    found = failure(echo, ["die", "assertion failed"])
    assert (found.kind, found.detail) == ("crashed", signal.SIGABRT)
    assert found.stderr == ("assertion failed",)
    assert str(found) == "the process was ended by signal 6 (SIGABRT)"


def test_an_exit_gives_its_code(echo: Worker) -> None:
    assert str(failure(echo, ["exit", 3])) == "the process ended with exit code 3"


def test_an_exception_shows_its_traceback(echo: Worker) -> None:
    found = failure(echo, ["raise", "no such thing"])
    assert found.stderr[-1] == "ValueError: no such thing"


@pytest.mark.parametrize("what", ["sleep", "block"])
def test_time_is_limited(echo: Worker, what: str) -> None:
    assert str(failure(echo, [what, 60.0], seconds=0.1)) == "no answer within 0.1 s"


def test_cpu_time_is_limited(echo: Worker) -> None:
    assert isinstance(echo.ask(["sleep", 0.5], seconds=60, cpu_seconds=0.2), Message)
    found = echo.ask("spin", seconds=60, cpu_seconds=0.2)
    assert str(found) == "no answer within 0.2 s"
    assert value(echo, "next") == "next"


def test_time_is_counted_for_each_request(echo: Worker) -> None:
    for _ in range(3):
        assert isinstance(echo.ask(["sleep", 0.3], seconds=0.8), Message)
    time.sleep(1)
    assert value(echo, "pid") == value(echo, "pid")


def test_garbage_ends_the_process_and_not_the_caller(echo: Worker) -> None:
    found = failure(echo, "garbage")
    assert str(found) == "the process sent bytes that are not a reply"
    assert value(echo, "next") == "next"


def test_a_failure_is_followed_by_answers(echo: Worker) -> None:
    failures = ([["exit", 1], 60], [["die", ""], 60], [["sleep", 60.0], 0.1], [["raise", ""], 60])
    for request, seconds in failures:
        assert failure(echo, request, seconds).stderr != ("of an earlier failure",)
        assert value(echo, "next") == "next"


def test_a_process_that_was_killed_while_idle_is_replaced(echo: Worker) -> None:
    pid = value(echo, "pid")
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert value(echo, "next") == "next"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls differ")
def test_a_process_that_is_just_dying_is_replaced(echo: Worker) -> None:
    pid = value(echo, "pid")
    assert isinstance(pid, int)
    assert isinstance(echo.ask(["lose the main thread", 60], seconds=60), Message)
    end = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end
    assert value(echo, "next") == "next"
    assert value(echo, "pid") != pid


def test_what_a_process_started_ends_with_the_worker(echo: Worker) -> None:
    pid = value(echo, "leave a process")
    assert isinstance(pid, int)
    assert exists(pid)
    echo.close()
    assert gone(pid)


@pytest.mark.parametrize("start", WAYS[: len(WAYS) - 1], ids=["fork"] * FORKS, indirect=True)
def test_what_a_forked_process_started_ends_with_it(start: Callable[..., Worker]) -> None:
    worker = start()
    pid = value(worker, "leave a process")
    assert isinstance(pid, int)
    assert failure(worker, ["die", ""]).kind == "crashed"
    assert gone(pid)


def test_temporary_files_are_deleted(echo: Worker) -> None:
    found = value(echo, "folder")
    assert isinstance(found, list)
    assert Path(found[1]).is_dir()
    assert Path(found[1]) != Path(found[0])
    echo.close()
    assert not Path(found[1]).exists()


def test_a_retired_worker_does_not_start_again(echo: Worker) -> None:
    strike = threading.Timer(0.3, echo.retire)
    assert value(echo, "next") == "next"
    strike.start()
    assert isinstance(echo.ask(["sleep", 600.0], seconds=600), Failure)
    strike.join()
    with pytest.raises(ClosedError, match="retired"):
        echo.ask("next", seconds=60)


def test_folders_of_processes_that_were_killed_are_removed(
    start: Callable[..., Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [f"minitvm-{dead.pid}-a", f"minitvm-{os.getppid()}-b", "minitvm-my-notes"]
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process.remove_leftovers.cache_clear()
    start()
    names = {path.name for path in tmp_path.iterdir()}
    own = names - set(left)
    assert len(own) == 1
    assert own.pop().startswith(f"minitvm-{os.getpid()}-")
    assert names >= set(left[1:])
    assert left[0] not in names


def test_a_killed_worker_starts_again(echo: Worker) -> None:
    strike = threading.Timer(0.3, echo.kill)
    assert value(echo, "next") == "next"
    strike.start()
    assert isinstance(echo.ask(["sleep", 600.0], seconds=600), Failure)
    strike.join()
    assert value(echo, "next") == "next"


@pytest.fixture
def apart() -> Iterator[Worker]:
    """A worker whose module is found without our sys.path."""
    worker = Worker("tests.workers.echo", apart=True)
    yield worker
    worker.close()


def test_a_process_apart_shares_little(apart: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    apart.close()
    assert value(apart, ["environment", "SECRET"]) is None
    folder = value(apart, ["environment", "HOME"])
    assert isinstance(folder, str)
    assert value(apart, "folder") == [folder, folder]
    apart.close()
    assert not Path(folder).exists()


def test_a_process_apart_stands_still_between_requests(apart: Worker) -> None:
    value(apart, "keep counting")
    process = psutil.Process(int(str(value(apart, "pid"))))
    used = process.cpu_times()
    time.sleep(0.3)
    assert process.cpu_times() == used
    assert process.status() == psutil.STATUS_STOPPED
    first = value(apart, "count")
    assert any(value(apart, "count") != first for _ in range(1000))  # it goes on during requests


def test_a_closed_worker_starts_again(echo: Worker) -> None:
    pid = value(echo, "pid")
    echo.close()
    assert gone(pid)
    assert value(echo, "next") == "next"


def test_a_module_that_is_not_there_is_a_failure(start: Callable[..., Worker]) -> None:
    worker = start("minitvm.no_such_module")
    for _ in range(2):
        found = failure(worker, "")
        assert found.kind == "exited"
        assert "No module named" in found.stderr[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may refuse the limit")
def test_memory_is_limited(start: Callable[..., Worker]) -> None:
    worker = start(memory=8 << 30)
    assert failure(worker, ["allocate", 9 << 30]).stderr[-1] == "MemoryError"


def test_a_process_is_renewed(start: Callable[..., Worker]) -> None:
    worker = start(renew=2)
    pids = [value(worker, "pid") for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


@pytest.mark.parametrize("end", [["exit", 0], ["die", ""], None])
def test_later_processes_are_prepared(echo: Worker, end: object) -> None:
    assert value(echo, "recall") == []
    assert echo.prepare(["remember", 1]) is None
    assert value(echo, "recall") == [1]
    if end is None:
        echo.close()
    else:
        failure(echo, end)
    assert value(echo, "recall") == [1]


def test_a_failure_to_prepare_is_returned(echo: Worker) -> None:
    assert str(echo.prepare(["exit", 4])) == "the process ended with exit code 4"
    assert str(failure(echo, "next")) == "the process ended with exit code 4"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot pin processes")
def test_a_worker_stays_on_its_processors(start: Callable[..., Worker]) -> None:
    last = max(os.sched_getaffinity(0))
    assert value(start(cpus=[last]), "processors") == [last]


def test_ctrl_c_ends_the_worker_and_is_raised_at_once(echo: Worker) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pid = value(echo, "pid")
    assert isinstance(pid, int)
    strike = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    strike.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            echo.ask(["sleep", 600.0], seconds=600)
    finally:
        strike.join()
        signal.signal(signal.SIGINT, before)
    assert gone(pid)
    assert value(echo, "next") == "next"


PARENT = """
import os, psutil, sys, threading
sys.path.insert(0, sys.argv[1])
from minitvm.workers import Worker
def start():
    worker = Worker("echo", forks=sys.argv[4] == "True")
    worker.ask("", seconds=60)
    print(*(p.pid for p in psutil.Process().children(recursive=True)), flush=True)
    worker.ask(["block" if sys.argv[3] == "busy" else "", 600.0], seconds=600)
    threading.Event().wait()
if sys.argv[2] == "main":
    start()
else:
    threading.Thread(target=start).start()
"""


@pytest.mark.parametrize("forks", WAYS)
@pytest.mark.parametrize("state", ["busy", "idle"])
@pytest.mark.parametrize("thread", ["main", "other"])
def test_all_processes_die_with_their_parent(thread: str, state: str, forks: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(HERE), thread, state, str(forks)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 1 + forks
    assert all(exists(pid) for pid in pids)
    time.sleep(0.2)  # the last request arrives
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert all(gone(pid) for pid in pids)
