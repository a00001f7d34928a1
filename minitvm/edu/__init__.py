# pyright: reportUnusedImport=false

"""Exercises: built from their solutions, checked in the notebook, graded the same way.

    edu.check("ex03.2", tile_for_cache)     # in a notebook: the points, after showing why
    edu.hint("ex03.2", 1)                   # a nudge; 2 and 3 say more

`python -m minitvm.edu` builds, checks, verifies, grades and exports. docs/instructor.md is for
those who teach. The exercises are course content: their checks lie in exercises/checks and import
what they need from this door.
"""

from .accelerated import bytes_moved, on_machine, runs_on_accelerator
from .checkers import (
    MAX_COMPUTED,
    computed_elements,
    equal,
    formula,
    wrong_element,
    wrong_type,
)
from .item import (
    PASSED,
    Answer,
    AnswerError,
    Exercise,
    Item,
    Outcome,
    Part,
    Rng,
    failed,
    problem,
    required,
)
from .live import check, hint
from .schedules import (
    Fact,
    at_most,
    facts,
    misses,
    results_of,
    same_text,
    schedule_correct,
    schedule_of,
    speed,
    visit_order,
    visits,
    wrong_results,
)
from .streams import flagged_tokens, numbered_listing, stream_fault
