"""A student's process: what it may do, what is told of its cells, and that it always ends."""

import time
from pathlib import Path

import psutil
import pytest
import tqdm

from minitvm.edu.item import AnswerError, problem
from minitvm.edu.student import Student

from .limits import QUICK, REFUSED, landlock


def refused(student: Student, name: str, *arguments) -> tuple[str, str]:
    """(message id, reason) of a call that gives no answer."""
    with pytest.raises(AnswerError) as caught:
        student.call(name, arguments)
    return caught.value.args[0], caught.value.args[1]


def test_cells_run_in_order_and_later_ones_run_after_a_failure(started) -> None:
    student = started("x = 1", "x += 1\n1 / 0", "def f():\n    return x")
    assert student.call("f", ()) == 2
    (report,) = student.failed
    assert (report.number, report.error) == (2, "ZeroDivisionError")
    assert report.trace == "cell 2, line 2: 1 / 0"


def test_magics_and_shell_commands_do_nothing(started) -> None:
    student = started("%matplotlib inline\n!ls\nx = 3\nget_ipython().run_line_magic('a', 'b')", F)
    assert student.failed == []
    assert student.call("f", ()) == 3


F = "def f():\n    return x"


def test_a_cell_that_hangs_is_left_out_and_the_others_still_count(started) -> None:
    student = started("x = 5", "while True:\n    pass", F)
    assert [(r.number, r.error) for r in student.failed] == [(2, "time is up")]
    assert student.call("f", ()) == 5


def test_a_notebook_that_kills_every_process_is_given_up(started) -> None:
    student = started(*["import os\nos._exit(3)"] * 5, F)
    assert {r.message for r in student.failed} == {"it ended with exit code 3"}
    assert refused(student, "f")[0] == "crash"


def test_an_answer_can_be_called_again_after_one_that_hangs(started) -> None:
    student = started("def f(n):\n    while n:\n        pass\n    return n")
    assert refused(student, "f", 1) == ("timeout", "f: no end after 3 s")
    assert student.call("f", (0,)) == 0


@pytest.mark.parametrize(
    ("body", "message", "words"),
    [
        ("raise NotImplementedError('ex00.1: see there')", "not-started", ""),
        ("return 1 / 0", "raises", "f raised ZeroDivisionError: division by zero"),
        ("return {1}", "wrong-type", "a set cannot be handed in"),
        ("exit(1)", "raises", "f raised"),
        ("import os\n    os.kill(os.getpid(), 9)", "raises", "no other processes"),
        ("import os\n    os.abort()", "crash", "f ended the process: it was ended by signal"),
        ("raise type('Odd', (Exception,), {'__str__': None})", "raises", "f raised Odd"),
    ],
)
def test_why_there_is_no_answer(started, body: str, message: str, words: str) -> None:
    found, reason = refused(started(f"def f():\n    {body}"), "f")
    assert found == message
    assert words in reason


def test_a_function_that_is_not_there_is_not_started(started) -> None:
    assert refused(started("g = 3"), "f") == ("not-started", "there is no function called f")


def pair(n):
    return te.placeholder((n,), name="A"), n  # noqa: F821


def test_problems_are_built_in_the_process_and_spread_out(started) -> None:
    student = started("def f(A, n, more):\n    return [A.shape[0], n, more]")
    assert student.call("f", (problem(pair, 7), "x")) == [7, 7, "x"]


@pytest.mark.parametrize(
    "action",
    [
        "open('../stolen', 'w')",
        "__import__('os').open('../stolen', 66)",
        "__import__('pathlib').Path('..', 'stolen').mkdir()",
        "__import__('os').remove(__import__('sys').executable)",
        "__import__('os').rename('.', '../other')",
        "__import__('os').system('true')",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').create_connection(('127.0.0.1', 9))",
        "__import__('minitvm.edu.course')",
    ],
)
def test_what_is_forbidden_raises(started, action: str) -> None:
    (report,) = started(action).failed
    assert report.error in REFUSED


def test_checks_are_hidden_wherever_they_lie() -> None:
    """Here in a folder that Python's own files are in, which are readable otherwise."""
    folder = Path(tqdm.__file__).parent
    student = Student([(1, f"open({str(folder / '__init__.py')!r})")], QUICK, [folder])
    student.close()
    assert [r.error in REFUSED for r in student.failed] == [True]


def test_its_own_folder_is_there_to_write_to_and_gone_afterwards(started) -> None:
    student = started(
        "open('notes.txt', 'w').write('hello')",
        "import os\ndef f():\n    return [open('notes.txt').read(), os.getcwd()]",
    )
    text, folder = student.call("f", ())
    assert text == "hello"
    assert Path(folder).exists()
    student.close()
    assert not Path(folder).exists()


@pytest.mark.skipif(landlock() < 1, reason="this kernel has no Landlock")
def test_the_kernel_refuses_what_python_does_not_see(started, tmp_path: Path) -> None:
    path = tmp_path / "stolen"
    student = started(
        f"import ctypes\ndef f():\n    return ctypes.CDLL(None).creat({bytes(path)!r}, 0o600)"
    )
    assert student.call("f", ()) == -1
    assert not path.exists()


def test_no_process_stays_behind(started) -> None:
    before = {*psutil.Process().children(recursive=True)}
    student = started("x = 1")
    processes = {*psutil.Process().children(recursive=True)} - before
    assert processes
    student.close()
    deadline = time.monotonic() + 20
    while any(p.is_running() for p in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [p for p in processes if p.is_running()]


def test_what_cells_print_is_cut_off_not_kept(started) -> None:
    student = started("for _ in range(1000):\n    print('x' * 100_000)", "x = 1", F)
    assert student.failed == []
    assert student.call("f", ()) == 1
