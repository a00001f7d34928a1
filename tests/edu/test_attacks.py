"""Tricks that once worked: each of them is played here as a student would."""

import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.accesses import record
from minitvm.base import ExprError
from minitvm.edu import Fact, at_most, facts, misses, problem, schedule_correct, speed, visit_order
from minitvm.edu.bench import Ratio
from minitvm.edu.course import item_of
from minitvm.edu.data import Reader, Writer, operations
from minitvm.edu.grader import JOB, Submission, Task, grade
from minitvm.edu.item import AnswerError, Part, failed
from minitvm.edu.live import call_in_process
from minitvm.edu.notebook import stored
from minitvm.edu.score import MAX_TEXT, mark
from minitvm.edu.skeleton import code, skeleton
from minitvm.workers import Worker

from .course import CHECKS, EX00
from .limits import REFUSED, landlock


def double(n):
    A = te.placeholder((n,), name="A")
    return A, te.compute((n,), lambda i: A[i] * 2.0, name="B")


def sizes(rng):
    return (problem(double, 32),)


def plain(A, B):
    return te.create_schedule(B.op)


def nothing_stored(A, B):
    """A legal schedule of the formula that computes next to nothing."""
    s = te.create_schedule(B.op)
    s[B].set_store_predicate(s[B].op.axis[0] < 1)
    return s


def another_formula(A, B):
    """A schedule of a formula that is cheaper than the one that was asked for."""
    return te.create_schedule(te.compute(B.shape, lambda i: 0.0, name="B").op)


def one_store(A, B):
    """A loop program of one store."""
    return tvm.lower(nothing_stored(A, B), [A, B], until="nest")


def message(part: Part, answer) -> str:
    """The message id that a part gives."""
    rng = np.random.default_rng(0)
    try:
        return part.check(lambda *args: call_in_process(answer, args), rng).message
    except AnswerError as e:
        return e.args[0]


# --- answers that change from part to part -------------------------------------------------------


def in_order(A, B):
    return [(i,) for i in range(B.shape[0])]


PARTS = {
    "correctness": schedule_correct(sizes),
    "misses": at_most(misses(), plain, sizes),
    "loops": facts(sizes, (Fact("all", "anything", lambda s: True),), of="loops"),
    "schedule": facts(sizes, (Fact("all", "anything", lambda s: True),)),
    "order": visit_order(in_order, sizes),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_schedule_that_leaves_work_out_is_wrong_in_every_part(kind: str) -> None:
    assert message(PARTS[kind], plain) == ""
    assert message(PARTS[kind], nothing_stored) == "wrong-value"


@pytest.mark.parametrize("kind", PARTS)
def test_a_schedule_of_another_formula_is_wrong_in_every_part(kind: str) -> None:
    assert message(PARTS[kind], another_formula) == "wrong-type"


@pytest.mark.parametrize("kind", ["misses", "loops", "order"])
def test_a_loop_program_that_does_nothing_has_no_few_misses(kind: str) -> None:
    assert message(PARTS[kind], one_store) in ("wrong-type", "wrong-value")


def test_what_is_timed_must_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_both(reference, yours, score) -> Ratio:
        reference()
        yours()
        return Ratio(0.1, True)

    monkeypatch.setattr("minitvm.edu.schedules.time_ratio", run_both)
    assert message(speed(plain, sizes), plain) == ""
    assert message(speed(plain, sizes), nothing_stored) == "wrong-value"


def test_a_schedule_comes_back_only_for_the_operations_that_were_given() -> None:
    """Whatever a student's process sends: what is built may call C functions."""
    A, B = double(4)
    writer = Writer(operations([A]))  # B is a formula of the student's own
    own = writer.write(B.op)
    with pytest.raises(ExprError, match="another formula"):
        Reader(writer.rows, [], operations([A])).read(["schedule", "[]", [own]])
    with pytest.raises(ExprError, match="another formula cannot be handed in"):
        Writer(operations([A])).write(te.create_schedule(B.op))


def test_recording_a_schedule_counts_what_it_stores() -> None:
    """Why the parts run what they count: legal schedules may leave work out."""
    A, B = double(32)
    assert record(nothing_stored(A, B), [A, B]).write.sum() == 1


# --- reports -------------------------------------------------------------------------------------


def test_long_texts_are_cut_before_they_reach_a_report() -> None:
    item = item_of("ex00.1", CHECKS)
    huge = "x" * 10**6
    part = Part("correctness", "huge", 1.0, lambda *args: failed("m", got=huge, where=huge))
    asked = type(item)(item.id, item.title, 1, "f", (part,), item.hints, item.section)
    outcome = mark(asked, lambda *args: None).parts[0].outcome
    assert len(outcome.got) <= MAX_TEXT + 10
    assert len(outcome.where) <= MAX_TEXT + 10


# --- the student's process -----------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere what a program may read is unknown")
def test_other_peoples_notebooks_are_not_read(started, tmp_path: Path) -> None:
    other = tmp_path / "bob" / "ex00_start_here.ipynb"
    other.parent.mkdir()
    other.write_text("the answer")
    (report,) = started(f"open({str(other)!r}).read()").failed
    assert report.error in REFUSED


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_the_seed_is_not_found_in_other_processes(started) -> None:
    read = "import os\nopen(f'/proc/{os.getppid()}/%s', 'rb').read()"
    reports = started(read % "cmdline", read % "environ").failed
    assert [r.error in REFUSED for r in reports] == [True] * 2


@pytest.mark.skipif(landlock() < 1, reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    "name", ["exercises/checks/ex00.py", "minitvm/edu/course.py", "solutions/ex00_start_here.ipynb"]
)
def test_the_kernel_hides_references_from_c_as_well(started, name: str) -> None:
    path = Path(tvm.__file__).parent.parent / name
    student = started(
        f"import ctypes\ndef f():\n    return ctypes.CDLL(None).open({bytes(path)!r}, 0)"
    )
    assert path.exists()
    assert student.call("f", ()) == -1


@pytest.mark.skipif(landlock() < 1, reason="this kernel has no Landlock")
def test_the_kernel_starts_no_programs(started) -> None:
    student = started(
        "import ctypes\ndef f():\n    return ctypes.CDLL(None).system(b'exit 7') >> 8"
    )
    assert student.call("f", ()) == 127  # system() could start no shell


@pytest.mark.skipif(landlock() < 6, reason="signals came with version 6 of Landlock")
def test_the_kernel_keeps_signals_inside(started) -> None:
    student = started(
        "import ctypes, os\ndef f():\n    return ctypes.CDLL(None).kill(os.getppid(), 0)"
    )
    assert student.call("f", ()) == -1


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_process_that_is_confined_has_one_thread(started) -> None:
    """The kernel confines a thread and those that it starts, not those started before."""
    student = started("import os\ndef f():\n    return len(os.listdir('/proc/self/task'))")
    assert student.call("f", ()) == 1


COUNTER = """import os, threading
n = 0
def run():
    global n
    while True:
        n += 1
threading.Thread(target=run, daemon=True).start()
def f():
    return n, os.getpid()"""


def test_threads_of_a_notebook_stand_still_while_the_grader_measures(started) -> None:
    student = started(COUNTER)
    first, _ = student.call("f", ())
    used = {p: p.cpu_times() for p in psutil.Process().children(recursive=True)}
    assert used
    time.sleep(0.5)
    assert {p: p.cpu_times() for p in used} == used
    deadline = time.monotonic() + 20
    while student.call("f", ())[0] == first and time.monotonic() < deadline:
        pass
    assert student.call("f", ())[0] > first


def test_what_a_process_says_of_its_errors_is_cut(started) -> None:
    student = started(
        "import sys\nframe = sys._getframe()\n"
        "while 'described' not in frame.f_globals:\n    frame = frame.f_back\n"
        "frame.f_globals['described'] = lambda e: {'error': 'E' * 10**6, 'message': 'M' * 10**6, "
        "'trace': 'T' * 10**6}",
        "1 / 0",
        "def f():\n    return 1 / 0",
    )
    assert all(len(r.error + r.message + r.trace) < 10_000 for r in student.failed)
    with pytest.raises(AnswerError) as caught:
        student.call("f", ())
    assert len(caught.value.args[1]) < 10_000


DAEMON = """import ctypes, os
libc = ctypes.CDLL(None)
if libc.fork() == 0:
    libc.setsid()
    open("pid", "w").write(str(os.getpid()))
    while True:
        pass
while not os.path.exists("pid") or not open("pid").read():
    pass
def matmul(A, B):
    raise ValueError("the other process is " + open("pid").read())"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere orphans cannot be found")
@pytest.mark.parametrize(
    "forks", ["libc.fork() == 0", "libc.fork() == 0 and (libc.fork() == 0 or os._exit(0))"]
)
def test_without_a_wall_a_process_that_left_its_group_is_ended_with_the_notebook(
    forks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINITVM_WALL", "fence")  # a wall allows no other process
    cells = {**skeleton(EX00), "cells": [code("daemon", DAEMON.replace("libc.fork() == 0", forks))]}
    worker = Worker(JOB)
    try:
        found = grade(Task(Submission(Path("ex00.ipynb"), stored(cells).encode()), CHECKS), worker)
        pid = int(found.marks[0].parts[0].outcome.got.split("process is ")[1].split()[0])
        deadline = time.monotonic() + 20
        while alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(pid)
    finally:
        worker.close()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
