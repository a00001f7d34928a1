"""Exercises: built from their solutions, checked in the notebook, graded the same way.

    edu.check("ex03.2", tile_for_cache)     # in a notebook: the points, after showing why
    edu.hint("ex03.2", 1)                   # a nudge; 2 and 3 say more

`python -m minitvm.edu` builds, checks, verifies, grades and exports. docs/instructor.md is for
those who teach; items/__init__.py shows how an exercise is written.
"""

from .accelerated import bytes_moved, on_machine, runs_on_accelerator
from .checkers import equal, formula
from .item import PASSED, Answer, AnswerError, Exercise, Item, Outcome, Part, failed, problem
from .items import EXERCISES
from .live import check, hint
from .schedules import (
    Fact,
    at_most,
    facts,
    misses,
    same_text,
    schedule_correct,
    schedule_of,
    speed,
    visit_order,
    visits,
)

__all__ = [
    "EXERCISES",
    "PASSED",
    "Answer",
    "AnswerError",
    "Exercise",
    "Fact",
    "Item",
    "Outcome",
    "Part",
    "at_most",
    "bytes_moved",
    "check",
    "equal",
    "facts",
    "failed",
    "formula",
    "hint",
    "misses",
    "on_machine",
    "problem",
    "runs_on_accelerator",
    "same_text",
    "schedule_correct",
    "schedule_of",
    "speed",
    "visit_order",
    "visits",
]
