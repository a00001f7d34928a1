"""In a notebook: a check shows a box that is also text, and ends with the points."""

import pytest

from minitvm import edu, te, viz
from minitvm.base import ArgumentError
from minitvm.edu import live
from minitvm.edu.__main__ import main
from minitvm.edu.item import AnswerError
from minitvm.edu.live import call_in_process


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list:
    """What is displayed: for each check a box of HTML and the same as text."""
    found: list = []
    monkeypatch.setattr(viz, "show_in_notebook", lambda data, raw: found.append(data))
    return found


def matmul(A, B):
    k = te.reduce_axis((0, A.shape[1]), name="k")
    shape = (A.shape[0], B.shape[1])
    return te.compute(shape, lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_a_right_answer_gets_its_points_and_a_box(shown: list) -> None:
    assert edu.check("ex00.1", matmul) == 1.0
    (box,) = shown
    assert box["text/plain"].startswith("ex00.1 a matrix product: correct (1 of 1 points)")
    assert "correct (1 of 1 points)" in box["text/html"]


def test_a_notebook_prints_no_number_below_the_box(shown: list, monkeypatch) -> None:
    monkeypatch.setattr(live, "front_end", lambda: "notebook")
    assert edu.check("ex00.1", matmul)._ipython_display_() is None


def test_a_batch_run_prints_the_points_for_nbgrader(shown: list, monkeypatch) -> None:
    monkeypatch.setattr(live, "front_end", lambda: "batch")
    points = edu.check("ex00.1", matmul)
    assert repr(points) == "1.0"
    with pytest.raises(NotImplementedError):
        points._ipython_display_()


def test_a_stub_is_not_started(shown: list) -> None:
    def stub(A, B):
        raise NotImplementedError("ex00.1: see notebook 00")

    assert edu.check("ex00.1", stub) == 0.0
    assert "not started" in shown[0]["text/plain"]


def test_an_answer_that_raises_gets_its_error_as_feedback(shown: list) -> None:
    assert edu.check("ex00.1", lambda A, B: A.no_such_thing) == 0.0
    assert "AttributeError" in shown[0]["text/plain"]


def test_an_answer_that_grading_would_stop_is_no_answer() -> None:
    clock = iter([0.0, 11.0])
    with pytest.raises(AnswerError, match="it ended after 11 s; grading stops after 10 s"):
        call_in_process(lambda: 0, (), timer=lambda: next(clock))


def test_two_checks_of_the_same_answer_show_the_same(shown: list) -> None:
    edu.check("ex00.1", lambda A, B: A)
    edu.check("ex00.1", lambda A, B: A)
    assert shown[0] == shown[1]


def test_points_can_be_asked_for_in_silence(shown: list) -> None:
    assert edu.check("ex00.1", matmul, show=False) == 1.0
    assert shown == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: edu.check("ex99.1", matmul), "there is no such exercise"),
        (lambda: edu.check("ex00.9", matmul), "one of ex00.1, ex00.2"),
        (lambda: edu.check("ex00.1", 3), "not a function"),
        (lambda: edu.check(None, matmul), "there is no such exercise"),
        (lambda: edu.hint("ex00.1", 4), "levels are 1 to 3"),
        (lambda: edu.hint("ex00.1", "1"), "levels are 1 to 3"),
    ],
)
def test_nonsense_is_refused_with_what_would_work(call, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_hints_come_one_by_one(capsys) -> None:
    edu.hint("ex00.1")
    assert capsys.readouterr().out.startswith("ex00.1, hint 1 of 3: Two things are needed")
    assert main(["hint", "ex00.1", "3"]) == 0
    assert "hint 3 of 3" in capsys.readouterr().out


def test_the_command_line_refuses_in_one_line(capsys) -> None:
    assert main(["hint", "ex77.1"]) == 1
    assert capsys.readouterr().err.startswith("error: exercise 'ex77'")


def lonely(n):
    return te.placeholder((n,), name="A"), ELSEWHERE  # noqa: F821


def test_a_problem_knows_its_own_names_only() -> None:
    with pytest.raises(NameError, match="ELSEWHERE"):
        edu.problem(lonely, 3)
    with pytest.raises(ArgumentError, match="at the top level of a file"):
        edu.problem(lambda n: n, 3)
