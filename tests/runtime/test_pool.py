"""Parallel loops of compiled code: every index once, on as many threads as allowed."""

import ctypes
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from minitvm.base import ArgumentError
from minitvm.runtime import pool
from minitvm.runtime.jit import NativeCode, compile_ir
from minitvm.runtime.pool import num_threads, parallel_launch_address, set_num_threads

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

COUNT = """
; for i in range(begin, end): counts[i] += 1
define void @count(ptr %counts, i64 %begin, i64 %end) {
start:
  br label %loop
loop:
  %i = phi i64 [ %begin, %start ], [ %next, %loop ]
  %at = getelementptr i64, ptr %counts, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %leave
leave:
  ret void
}
"""


@pytest.fixture(scope="module")
def count() -> NativeCode:
    return compile_ir(COUNT)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = num_threads()
    set_num_threads(2)
    pool._pool().seconds.clear()  # a loop of another test may have been at the same address
    yield
    set_num_threads(before)


def launch(body: int, closure: int | None, extent: int) -> None:
    LAUNCH(parallel_launch_address())(body, closure, extent)


class PythonBody:
    """A loop body written in Python; its address is good for as long as this object lives."""

    def __init__(self, function: Callable[[int, int], None]) -> None:
        self.callback = BODY(lambda closure, begin, end: function(begin, end))
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value or 0


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("extent", [0, 1, 2, 16, 1000])
def test_every_index_runs_exactly_once(count: NativeCode, threads: int, extent: int) -> None:
    set_num_threads(threads)
    counts = (ctypes.c_int64 * 1001)()
    for _ in range(20):
        launch(count.address("count"), ctypes.addressof(counts), extent)
    assert list(counts) == [20] * extent + [0] * (1001 - extent)


def test_two_threads_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2)
    met: list[bool] = []

    def meet(begin: int, end: int) -> None:
        meeting.wait(timeout=30)  # passes only if two chunks are under way at once
        met.append(True)

    body = PythonBody(meet)
    launch(body.address, None, 2)
    assert met == [True, True]


def test_workers_join_each_long_loop() -> None:
    meeting = threading.Barrier(2)

    def meet(begin: int, end: int) -> None:
        time.sleep(2 * pool.SHORT)
        meeting.wait(timeout=30)

    body = PythonBody(meet)
    for _ in range(50):
        launch(body.address, None, 2)
    assert not meeting.broken


def test_a_short_loop_wakes_workers_only_if_another_one_follows(
    count: NativeCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, invited = pool._pool(), list[int]()
    deadline = time.monotonic() + 30
    while any(word == pool.WAITING for word in ours.team[16::8]):  # workers in native code
        assert time.monotonic() < deadline
        time.sleep(0.01)
    monkeypatch.setattr(ours, "invite", lambda job, helpers: invited.append(job.extent))
    counts, body = (ctypes.c_int64 * 64)(), count.address("count")

    def launched() -> list[int]:
        invited.clear()
        launch(body, ctypes.addressof(counts), 64)
        return [*invited]

    assert launched() == [64]  # its time is not known yet
    ours.seconds[body, 64], ours.ended = pool.SHORT / 2, 0.0
    assert launched() == []
    ours.ended = math.inf
    assert launched() == [0]  # an invitation to the next loop
    ours.seconds[body, 64] = 2 * pool.SHORT
    assert launched() == [64]
    assert list(counts) == [4] * 64


MANY = """
define void @many(ptr %launch, ptr %counts, i64 %times) {
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  call void %launch(ptr @count, ptr %counts, i64 64)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %leave
leave:
  ret void
}
"""


def test_loops_in_a_row_are_launched_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, by_python = pool._pool(), list[int]()
    run = ours.run

    def counted(body: int, closure: int | None, extent: int, state: int) -> None:
        by_python.append(extent)
        run(body, closure, extent, state)

    monkeypatch.setattr(ours, "run", counted)
    code = compile_ir(COUNT + MANY)
    many = LAUNCH(code.address("many"))
    counts = (ctypes.c_int64 * 64)()
    rounds = 0
    while rounds == 0 or (len(by_python) == 1000 * rounds and rounds < 50):  # a busy machine
        many(parallel_launch_address(), ctypes.addressof(counts), 1000)
        rounds += 1
    assert list(counts) == [1000 * rounds] * 64
    assert len(by_python) < 1000 * rounds


def test_one_thread_means_the_caller_alone() -> None:
    set_num_threads(1)
    seen: list[int] = []
    body = PythonBody(lambda begin, end: seen.append(threading.get_ident()))
    launch(body.address, None, 8)
    assert seen == [threading.get_ident()]


def test_a_loop_inside_a_loop_runs_serially() -> None:
    chunks: list[tuple[int, int]] = []
    inner = PythonBody(lambda begin, end: chunks.append((begin, end)))

    def each(begin: int, end: int) -> None:
        for _ in range(begin, end):
            launch(inner.address, None, 100)

    outer = PythonBody(each)
    launch(outer.address, None, 4)
    assert chunks == [(0, 100)] * 4


def test_callers_on_several_threads_do_not_disturb_each_other(count: NativeCode) -> None:
    all_counts = [(ctypes.c_int64 * 64)() for _ in range(4)]

    def caller(counts: ctypes.Array[ctypes.c_int64]) -> None:
        for _ in range(200):
            launch(count.address("count"), ctypes.addressof(counts), 64)

    callers = [threading.Thread(target=caller, args=(counts,)) for counts in all_counts]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert all(list(counts) == [200] * 64 for counts in all_counts)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be moved here")
def test_workers_may_use_every_cpu_their_caller_may(count: NativeCode) -> None:
    counts = (ctypes.c_int64 * 64)()
    launch(count.address("count"), ctypes.addressof(counts), 64)
    workers = [t for t in threading.enumerate() if t.name.startswith("minitvm-worker")]
    assert workers
    assert all(os.sched_getaffinity(t.native_id or 0) == os.sched_getaffinity(0) for t in workers)


def launch_and_stay(body: int, closure: int, extent: int) -> None:
    """Launch a loop, then run on until an interrupt is noticed, but not for ever."""
    launch(body, closure, extent)
    for _ in range(1000):
        pass


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where this process was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_neither_cuts_a_loop_short_nor_gets_lost() -> None:
    text = (
        COUNT
        + """
declare void @PyErr_SetInterrupt()  ; what Ctrl-C does; may be called without Python's lock
define void @strike_and_count(ptr %counts, i64 %begin, i64 %end) {
  call void @PyErr_SetInterrupt()
  call void @count(ptr %counts, i64 %begin, i64 %end)
  ret void
}"""
    )
    address = ctypes.cast(ctypes.pythonapi.PyErr_SetInterrupt, ctypes.c_void_p).value or 0
    machine = compile_ir(text, symbols={"PyErr_SetInterrupt": address})
    counts = (ctypes.c_int64 * 100)()
    with pytest.raises(KeyboardInterrupt):
        launch_and_stay(machine.address("strike_and_count"), ctypes.addressof(counts), 100)
    assert list(counts) == [1] * 100


def test_a_pool_needs_a_thread() -> None:
    with pytest.raises(ArgumentError, match="not an int of at least 1"):
        set_num_threads(0)


def fresh_python(code: str, **environment: str) -> str:
    """What a new interpreter prints when it runs `code`."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.strip()


def test_the_environment_sets_the_number_of_threads() -> None:
    code = "from minitvm.runtime.pool import num_threads; print(num_threads())"
    assert fresh_python(code, MINITVM_NUM_THREADS="3") == "3"


USE = f"""
import ctypes, os
from minitvm.runtime import pool
from minitvm.runtime.jit import compile_ir
from minitvm.runtime.pool import parallel_launch_address, set_num_threads
set_num_threads(2)
machine = compile_ir('''{COUNT}''')
launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
counts = (ctypes.c_int64 * 64)()
def run():
    for _ in range(100):
        launch(parallel_launch_address())(machine.address("count"), ctypes.addressof(counts), 64)
run()
"""


def test_workers_do_not_keep_the_interpreter_from_ending() -> None:
    assert fresh_python(USE + "print(sum(counts))") == "6400"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_gets_workers_of_its_own() -> None:
    fork = """
child = os.fork()
if child == 0:
    run()
    print(sum(counts), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert fresh_python(USE + fork) == "12800"
