"""Points: weights, the gate, several seeds, parts without a verdict."""

import pytest

from minitvm.base import ScheduleError
from minitvm.edu import PASSED, AnswerError, Item, Outcome, Part, failed
from minitvm.edu.feedback import as_html, as_markdown, as_text
from minitvm.edu.score import Mark, mark, random_for, unmarked


def part(kind: str, weight: float, outcome) -> Part:
    """A part with a known outcome, or whose check is a function of the random generator."""
    check = outcome if callable(outcome) else lambda answer, rng: outcome
    return Part(kind, f"a {kind}", weight, check)


def item(*parts: Part) -> Item:
    return Item("ex99.1", "a question", 10, "f", parts, ("a", "b", "c"), "notebook 99, section 1")


WRONG = failed("wrong-value", expected="1", got="2", where="[0]", why="off by one", score=0.5)
BUSY = Outcome("inconclusive", 0.0, got="the machine is busy")


def marked(*parts: Part, seeds=(None,)) -> Mark:
    return mark(item(*parts), lambda *args: None, seeds)


@pytest.mark.parametrize(
    ("outcomes", "points", "verdict"),
    [
        ((PASSED, PASSED, PASSED), 10, "fast enough"),
        ((PASSED, WRONG, PASSED), 8, "keep going"),
        ((WRONG, PASSED, PASSED), 2, "keep going"),
        ((PASSED, PASSED, WRONG), 9, "keep going"),
        ((PASSED, PASSED, BUSY), 8, "correct"),
        ((PASSED, WRONG, BUSY), 6, "keep going"),
    ],
)
def test_points_are_shares_of_all_parts_and_busy_ones_are_not_paid(
    outcomes, points, verdict
) -> None:
    kinds = (("correctness", 0.4), ("property", 0.4), ("speed", 0.2))
    found = marked(*(part(*kind, o) for kind, o in zip(kinds, outcomes, strict=True)))
    assert (found.points, found.verdict) == (points, verdict)


def test_nothing_is_looked_at_after_a_wrong_result() -> None:
    def never(answer, rng):
        raise AssertionError

    found = marked(part("correctness", 1, WRONG), part("property", 1, never))
    assert found.parts[1].outcome.status == "skipped"


def test_the_worst_seed_counts() -> None:
    first = random_for("ex99.1", 0, 7).integers(10**9)

    def unlucky(answer, rng):
        return WRONG if rng.integers(10**9) == first else PASSED

    assert marked(part("correctness", 1, unlucky)).points == 10
    assert marked(part("correctness", 1, unlucky), seeds=(None, 7)).points == 5


def test_public_randomness_is_the_same_for_everybody_and_secret_ones_differ() -> None:
    draws = [random_for("ex03.1", 0, seed).integers(10**9) for seed in (None, None, 1, 2)]
    assert draws[0] == draws[1]
    assert len({*draws}) == 3


@pytest.mark.parametrize(
    ("error", "message", "status"),
    [
        (AnswerError("not-started", "see notebook 99"), "not-started", "not started"),
        (AnswerError("timeout", "no end"), "timeout", "failed"),
        (ScheduleError("split", "no such axis"), "refused", "failed"),
        (IndexError("list index"), "unusable", "failed"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_errors_of_an_answer_are_outcomes(error, message, status) -> None:
    def check(answer, rng):
        raise error

    outcome = marked(part("correctness", 1, check)).parts[0].outcome
    assert (outcome.message, outcome.status, outcome.score) == (message, status, 0)


def test_marks_survive_being_written_down() -> None:
    found = marked(part("correctness", 1, PASSED), part("property", 1, WRONG))
    assert Mark.from_json(found.to_json()) == found


def test_an_item_without_an_answer_has_no_points_for_any_part() -> None:
    found = unmarked(item(part("property", 1, PASSED)), failed("timeout", got="no end"))
    assert (found.points, found.messages, found.verdict) == (0, ("timeout",), "keep going")


def test_feedback_as_text_says_what_where_and_why() -> None:
    found = marked(part("correctness", 1, PASSED), part("property", 1, WRONG))
    assert as_text(found) == (
        "ex99.1 a question: keep going (7.5 of 10 points)\n"
        "  ok  a correctness\n"
        "  no  a property\n"
        "      expected: 1\n"
        "      got: 2\n"
        "      first difference: [0]\n"
        "      why: off by one\n"
        '  hint: read notebook 99, section 1, or ask edu.hint("ex99.1", 1)'
    )


def test_what_it_was_called_for_is_no_difference() -> None:
    wrong = failed("refused", expected="a program", got="none", case="lower(2, 2)")
    lines = as_text(marked(part("correctness", 1, wrong))).split("\n")
    assert lines[2:5] == ["      expected: a program", "      got: none", "      for: lower(2, 2)"]


def test_feedback_of_what_is_right_is_short() -> None:
    assert as_text(marked(part("correctness", 1, PASSED))) == (
        "ex99.1 a question: correct (10 of 10 points)\n  ok  a correctness"
    )


@pytest.mark.parametrize("form", [as_markdown, as_html])
def test_every_form_of_feedback_says_the_same_and_is_no_markup(form) -> None:
    bad = failed("wrong-value", expected="1", got="<script>`x`", where="[0]")
    text = form(marked(part("correctness", 1, bad)))
    assert "keep going (0 of 10 points)" in text
    assert "first difference" in text
    assert "<script>" not in text or form is as_markdown
    assert "`x`" not in text or form is as_html
