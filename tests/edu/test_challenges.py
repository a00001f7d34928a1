"""Challenges: an open value, 0 for wrong answers, the same in two runs, other instances hidden."""

import pytest

from minitvm import edu, te, viz
from minitvm.base import ArgumentError
from minitvm.edu.challenges import known_values, value_in
from minitvm.edu.course import challenge_of
from minitvm.edu.item import Challenge
from minitvm.edu.live import call_in_process
from minitvm.edu.score import mark

from .course import CHECKS

PRODUCT = challenge_of("04.challenge", CHECKS)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is displayed, as text."""
    texts: list[str] = []
    monkeypatch.setattr(viz, "show_in_notebook", lambda data, raw: texts.append(data["text/plain"]))
    return texts


def as_written(A, B, C):
    return te.create_schedule(C.op)


def marked(challenge: Challenge, answer):
    return mark(challenge.item, lambda *arguments: call_in_process(answer, arguments))


def test_an_answer_is_shown_beside_others(shown: list[str]) -> None:
    edu.challenge("04.challenge", as_written)
    assert "213,472 cache misses: score 0 (0 is the stub, 100 the reference)" in shown[0]
    assert "best known" in shown[1]


def test_wrong_results_have_no_value(shown: list[str]) -> None:
    def half(A, B, C):
        s = te.create_schedule(C.op)
        s[C].set_store_predicate(C.op.axis[0] < 8)
        return s

    edu.challenge("04.challenge", half)
    assert "not yet" in shown[0]
    assert value_in(marked(PRODUCT, half)) is None


def test_two_runs_must_agree() -> None:
    calls: list[int] = []

    def moody(A, B, C):
        s = te.create_schedule(C.op)
        calls.append(0)
        if len(calls) % 2:
            s[C].reorder(*C.op.reduce_axis, *C.op.axis)
        return s

    assert marked(PRODUCT, moody).messages == ("not-deterministic",)


def test_another_seed_is_another_instance() -> None:
    assert known_values(PRODUCT) != known_values(PRODUCT, 481516)


def test_the_rating_is_0_at_the_stub_and_100_at_the_reference() -> None:
    assert PRODUCT.rating(10, stub=10, reference=5) == 0
    assert PRODUCT.rating(5, stub=10, reference=5) == 100
    assert PRODUCT.rating(20, stub=10, reference=5) == 0
    assert PRODUCT.rating(12, stub=3, reference=6) == pytest.approx(200)  # more is better


def test_the_same_ratio_is_worth_the_same_everywhere() -> None:
    ratings = [PRODUCT.rating(value, stub=80, reference=20) for value in (80, 40, 20, 10)]
    assert ratings == pytest.approx([0, 50, 100, 150])


def test_nonsense_is_refused_with_what_would_work() -> None:
    with pytest.raises(ArgumentError, match=r"04\.challenge"):
        edu.challenge("04.other", as_written)
    with pytest.raises(ArgumentError, match="not a function"):
        edu.challenge("04.challenge", 3)
