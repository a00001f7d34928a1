"""A worker answers, or says how it failed; whatever happens, it leaves no process behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minitvm.workers import Failure, Message, Worker

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker that finds its module as this process would."""
    monkeypatch.syspath_prepend(str(HERE))
    worker = Worker("echo")
    yield worker
    worker.close()


def failure(worker: Worker, value: object, seconds: float = 60) -> Failure:
    found = worker.ask(value, seconds=seconds)
    assert isinstance(found, Failure)
    assert not worker.alive
    return found


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
    assert echo.ask("again", seconds=60) == Message("again")


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


def test_time_is_limited(echo: Worker) -> None:
    assert str(failure(echo, ["sleep", 60.0], seconds=0.1)) == "no answer within 0.1 s"


def test_a_module_that_is_not_there_is_a_failure() -> None:
    found = failure(Worker("minitvm.no_such_module"), "")
    assert found.kind == "exited"
    assert "No module named" in found.stderr[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may refuse the limit")
def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    worker = Worker("echo", memory=8 << 30)
    found = failure(worker, ["allocate", 9 << 30])
    assert found.stderr[-1] == "MemoryError"


def test_ctrl_c_ends_the_worker_and_is_raised_at_once(echo: Worker) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pid = echo.ask("pid", seconds=60)
    assert isinstance(pid, Message)
    strike = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    strike.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            echo.ask(["sleep", 600.0], seconds=600)
    finally:
        strike.join()
        signal.signal(signal.SIGINT, before)
    assert not echo.alive
    assert not exists(pid.value)


PARENT = """
import os, sys, threading
sys.path.insert(0, sys.argv[1])
from minitvm.workers import Worker
def start():
    worker = Worker("echo")
    print(worker.ask("pid", seconds=60).value, flush=True)
    worker.ask(["sleep", 600.0], seconds=600)
if sys.argv[2] == "main":
    start()
else:
    threading.Thread(target=start).start()
"""


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_worker_dies_with_its_parent(thread: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(HERE), thread], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert exists(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)
