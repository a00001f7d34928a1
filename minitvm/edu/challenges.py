"""Show the value of an answer to a challenge, beside those of the stub and of good answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from minitvm import viz
from minitvm.base import ArgumentError

from .apart import for_reference
from .course import Folder, challenge_of, checks_folder
from .item import Challenge, Exercise
from .live import call_in_process
from .puzzles import show
from .score import Mark, PartMark, mark, random_for


def challenge(name: str, answer: Callable[..., Any], *, checks: Folder | None = None) -> None:
    """Show the value of `answer` to a challenge ("04.challenge"), on the instance of notebooks.

    A leaderboard counts another instance, in a process behind the wall. A wrong answer scores 0.

    checks   the folder with the checks, if it is not near the notebook
    Raises ArgumentError for an unknown challenge.
    """
    question = challenge_of(name, checks_folder(checks))
    if not callable(answer):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"edu.challenge({name!r}, {type(answer).__name__})"
        raise ArgumentError(what, "not a function", f"edu.challenge({name!r}, {question.answer})")
    result = mark(question.item, lambda *arguments: call_in_process(answer, arguments))
    value = value_in(result)
    if value is None:
        show(result, None)
        return
    others = known_values(question)
    rating = question.rating(value, others["stub"], others["reference"])
    row = f"{value:,.10g} {question.unit}: score {rating:.0f} (0 is the stub, 100 the reference)"
    shown = PartMark("property", row, 0.0, result.parts[0].outcome)
    scores = {"yours": value, **others, "best known": question.best_known}
    show(replace(result, parts=(shown,)), viz.ScoreBars(scores, question.unit))


def value_in(result: Mark) -> float | None:
    """Return the value in the mark of a challenge; None if the answer was wrong."""
    outcome = result.parts[0].outcome
    return outcome.value if outcome.status == "passed" else None


def known_values(question: Challenge, seed: int | None = None) -> dict[str, float]:
    """Return the values of the stub and of the reference on the instance of a seed."""
    with for_reference():
        return {
            name: question.value_of(answer, random_for(question.id, 0, seed))
            for name, answer in (("stub", question.stub), ("reference", question.reference))
        }


def challenge_table(exercises: Iterable[Exercise]) -> str:
    """Return a Markdown table of all challenges, with the values of our answers in notebooks."""
    lines = [
        "| challenge | what is counted | minutes | stub (0) | reference (100) | best known |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for c in (e.challenge for e in exercises if e.challenge is not None):
        known = known_values(c)
        values = (known["stub"], known["reference"], c.best_known)
        cells = (f"{c.id[:2]} {c.title}", c.unit, c.minutes, *(f"{v:,.10g}" for v in values))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)
