"""Provide check() and hint() for notebooks; they run the grader's checks with the public seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from minitvm import viz
from minitvm.base import ArgumentError, front_end

from .course import Folder, checks_folder, item_of
from .data import Writer, operations
from .feedback import as_html, as_text
from .item import AnswerError, called, expanded
from .sandbox import USUAL_LIMITS
from .score import mark
from .student import answer_error, decoded


class Points(float):
    """A number of points that a notebook does not print, since the feedback above shows it.

    In a batch run it is printed: nbgrader reads the number from the output of the cell.
    """

    def _ipython_display_(self) -> None:
        if front_end() != "notebook":
            raise NotImplementedError  # IPython then prints the number


def check(
    item: str,
    answer: Callable[..., Any],
    *,
    show: bool = True,
    checks: Folder | None = None,
) -> float:
    """Show feedback on `answer` to `item` ("ex03.2") and return its points.

    The checks are those of grading, with the public seed and in this process. These points are
    for practice: grading calls the answers again, in another process.

    show     False: return the points without feedback
    checks   the folder with the checks, if it is not near the notebook

    Raises ArgumentError for an unknown item.
    """
    question = item_of(item, checks_folder(checks))
    if not question.points:
        why = "it has no points"
        raise ArgumentError(f"edu.check({item!r})", why, f"edu.puzzle({item!r}, ...)")
    if not callable(answer):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"edu.check({item!r}, {type(answer).__name__})"
        raise ArgumentError(what, "not a function", f"edu.check({item!r}, {question.answer})")
    result = mark(question, lambda *arguments: call_in_process(answer, arguments))
    if show:
        viz.show_in_notebook(
            {"text/plain": as_text(result), "text/html": as_html(result)}, raw=True
        )
    return Points(result.points)


def call_in_process(
    answer: Callable[..., Any],
    arguments: tuple[Any, ...],
    seconds: float = USUAL_LIMITS.seconds,
    timer: Callable[[], float] = time.monotonic,
) -> Any:
    """Call `answer` in this process; return its result, written and read back as in grading.

    seconds   the time limit of grading for one call; AnswerError if it took longer
    """
    name, start = getattr(answer, "__name__", "the answer"), timer()
    try:
        value = called(answer, arguments)
    except AnswerError:
        raise  # a time limit ended the call
    except Exception as e:  # the student sees it as feedback
        raise answer_error(name, type(e).__name__, str(e)) from None
    if (took := timer() - start) > seconds:
        what = f"it ended after {took:.0f} s; grading stops after {seconds:g} s"
        raise AnswerError("timeout", what)
    writer = Writer(operations(expanded(arguments)))
    try:
        body = writer.write(value)
    except Exception as e:
        raise AnswerError("wrong-type", f"what it returned: {e}") from None
    return decoded(name, {"rows": writer.rows, "value": body}, writer.blobs, arguments)


def hint(item: str, level: int = 1, *, checks: Folder | None = None) -> None:
    """Print hint number `level` of an item: 1 is a small hint, 3 is nearly the answer."""
    hints = item_of(item, checks_folder(checks)).hints
    if not isinstance(level, int) or not 1 <= level <= len(hints):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"edu.hint({item!r}, {level!r})", f"levels are 1 to {len(hints)}")
    more = f'\n(more: edu.hint("{item}", {level + 1}))' if level < len(hints) else ""
    print(f"{item}, hint {level} of {len(hints)}: {hints[level - 1]}{more}")
