# pyright: reportUnusedImport=false

"""Build exercises from their solutions, and check answers in notebooks as grading does.

    edu.check("ex03.2", tile_for_cache)     # in a notebook: show feedback and return the points
    edu.hint("ex03.2", 1)                   # a small hint; levels 2 and 3 say more
    edu.puzzle("04.columns", f)             # a line of a notebook: right or not, a picture, a cost
    edu.challenge("04.challenge", f)        # an open question: your score beside others

`python -m minitvm.edu` builds, checks, verifies, grades and exports exercises. docs/instructor.md
is for teachers. The exercises are course content: their checks are files in exercises/checks, which
import what they need from this package.
"""

from .accelerated import bytes_moved, on_machine, runs_on_accelerator
from .apart import record
from .challenges import challenge
from .checkers import (
    MAX_COMPUTED,
    computed_elements,
    equal,
    formula,
    wrong_element,
    wrong_type,
)
from .data import Space
from .item import (
    PASSED,
    Answer,
    AnswerError,
    Challenge,
    Exercise,
    Item,
    Kept,
    Outcome,
    Part,
    Puzzle,
    Rng,
    failed,
    problem,
    required,
)
from .live import check, hint
from .pictures import NumberGrid, misses_picture, visits_picture
from .puzzles import on_schedule, puzzle
from .schedules import (
    Fact,
    at_most,
    facts,
    misses,
    results_of,
    right_schedule,
    same_text,
    schedule_correct,
    schedule_of,
    speed,
    visit_order,
    visits,
    wrong_results,
)
from .streams import flagged_tokens, numbered_listing, stream_fault
