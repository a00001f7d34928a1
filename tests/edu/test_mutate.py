"""`verify --mutate` changes solutions by machine; what is still right needs a reason."""

from collections import Counter

import pytest

from minitvm.edu import mutate
from minitvm.edu.grader import Graded
from minitvm.edu.item import Outcome, failed
from minitvm.edu.mutate import changes, equivalents, mutants
from minitvm.edu.score import Mark, PartMark

from .course import CHECKS, EXERCISES, ROOT

CELL = '''
def answer(n, window):
    """Return 0 or more."""
    ### BEGIN SOLUTION
    {line}
    ### END SOLUTION
'''


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return n > window", ["n >= window", "n <= window", "n > window + 1"]),
        ("return n <= window", ["n < window", "n > window", "n <= window + 1"]),
        ("return n == window", ["n != window"]),
        ("return 7", ["8", "6"]),
        ("return 0.5", ["0.75", "0.25"]),
        ("return True", ["False"]),
        ("return min(n, window)", ["max(n, window)"]),
        ("return max(n)", ['__import__("statistics").fmean(n)', "min(n)"]),
        ("return np.mean(n)", ["np.min(n)"]),
    ],
)
def test_comparisons_numbers_and_extremes_are_changed(line: str, changed: list[str]) -> None:
    found = [text for text, _ in changes(CELL.format(line=line))]
    assert Counter(found) == Counter(f"return {text}" for text in changed)


def test_only_the_solution_is_changed() -> None:
    for line, cell in changes(CELL.format(line="return 7")):
        assert cell == CELL.format(line=line).rstrip("\n")


def test_every_reason_names_a_mutant() -> None:
    made = {(m.item.id, m.line) for e in EXERCISES for m in mutants(ROOT, e)}
    stated = {(item, line) for item, lines in equivalents(ROOT).items() for line in lines}
    assert stated - made == set()


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grader that accepts every mutant in which a number is 1."""

    def graded(tasks, jobs):
        for n, task in enumerate(tasks):
            good = "total = 1.0" in task.submission.data.decode()
            outcome = Outcome("passed", 1.0) if good else failed("wrong-value")
            (item,) = task.exercise.items
            part = PartMark("property", "", 1.0, outcome)
            mark = Mark(item.id, "", float(good), 1.0, "correct", (part,))
            yield n, Graded("", "", "", task.exercise.id, (mark,))

    monkeypatch.setattr(mutate, "grade_all", graded)


@pytest.mark.usefixtures("lenient")
def test_a_survivor_without_a_reason_is_a_failure(monkeypatch, capsys) -> None:
    monkeypatch.setattr(mutate, "equivalents", lambda root: {})
    assert mutate.mutate(ROOT, CHECKS, "ex15.1") == 1
    assert "SURVIVES  ex15.1: total = 1.0\n" in capsys.readouterr().out


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize(("lines", "code"), [(["total = 1.0"], 0), (["total = 1.0", "old"], 1)])
def test_a_reason_must_belong_to_a_survivor(monkeypatch, capsys, lines, code: int) -> None:
    reasons = {"ex15.1": dict.fromkeys(lines, "why")}
    monkeypatch.setattr(mutate, "equivalents", lambda root: reasons)
    assert mutate.mutate(ROOT, CHECKS, "ex15.1") == code
    assert ("NO SURVIVOR  ex15.1: old\n" in capsys.readouterr().out) == bool(code)
