"""Try the answer to a puzzle, and show the outcome beside a picture and a cost.

Puzzles run in the notebook's kernel. A call that does not end is stopped, and compiled programs run
in a process of their own, so that neither a hang nor a crash ends the notebook.
"""

from __future__ import annotations

import ast
import base64
import inspect
import signal
import textwrap
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from minitvm import te, tensor, viz
from minitvm.base import ArgumentError, TVMError

from .checkers import describe, differs
from .course import Folder, checks_folder, puzzle_of
from .feedback import as_html, as_text
from .item import AnswerError, Outcome, Picture, Puzzle, expanded
from .live import call_in_process
from .schedules import tensors_of
from .score import Mark, PartMark, mark, random_for

State: TypeAlias = Literal["your turn", "not yet", "solved"]
Value: TypeAlias = tuple[Any, Sequence[Any]]  # what a function returned; tensors or arguments
SECONDS = 5  # time limit of one call
EXAMPLE = 99  # the number of the random generator of the example: no part has it
CALLS = 3  # the last calls of the parts that are looked at for one that fails


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of trying a puzzle: feedback, and the picture of what the student's line does.

    picture   while it is the student's turn, the picture that the reference makes, if it does not
              give away a number that is asked for
    """

    state: State
    mark: Mark
    picture: Picture | None


@dataclass(frozen=True, slots=True)
class Instance:
    """What an answer and the reference return for the same arguments, and what both cost."""

    arguments: tuple[Any, ...]
    value: Value | None
    best: Value | None
    cost: float | None
    least: float | None

    @property
    def is_same(self) -> bool:
        """Whether the cost, or without a cost the value, is that of the reference."""
        if self.cost is not None or self.value is None or self.best is None:
            return self.value is not None and self.cost == self.least
        return not differs(self.value[0], self.best[0])


def puzzle(name: str, answer: Callable[..., Any], *, checks: Folder | None = None) -> None:
    """Show whether `answer` solves a puzzle of a notebook ("04.columns"), and what it does.

    Puzzles are for practice: nothing is graded, and nothing raises an error. While a `...` is left,
    the picture shows what to reach; it is left out if it would give away a number.

    checks   the folder with the checks, if it is not near the notebook
    """
    try:
        attempt = tried(puzzle_of(name, checks_folder(checks)), answer)
    except TVMError as e:
        print(e)
        return
    show(attempt.mark, attempt.picture)


def show(feedback: Mark, picture: Picture | None) -> None:
    """Show a box of feedback in the notebook, and a picture below it."""
    text, box = as_text(feedback), as_html(feedback)
    viz.show_in_notebook({"text/plain": text, "text/html": box}, raw=True)
    if picture is not None:
        image = base64.b64encode(picture.png()).decode("ascii")
        bundle = {"text/plain": picture.ascii(), "image/svg+xml": picture.svg(), "image/png": image}
        viz.show_in_notebook(bundle, raw=True)


def tried(puzzle: Puzzle, answer: Callable[..., Any]) -> Attempt:
    """Check an answer to a puzzle, and draw what it does. Raises no error of the answer."""
    if not callable(answer):  # pyright: ignore[reportUnnecessaryIsInstance]
        what = f"edu.puzzle({puzzle.id!r}, {type(answer).__name__})"
        raise ArgumentError(what, "not a function", f"edu.puzzle({puzzle.id!r}, {puzzle.answer})")
    whole, calls = completed(puzzle, answer), list[tuple[Any, ...]]()

    def noted(*arguments: Any) -> Any:
        calls.append(arguments)
        return call_with_limit(whole, arguments)

    result = mark(puzzle.item, noted)
    state = state_of(result, answer)
    if state == "your turn":
        example = instance_of(puzzle, puzzle.reference, example_of(puzzle))
        if example.best is not None and is_numeric(example.best[0]):
            example = replace(example, value=None, least=None)
        picture = picture_of(puzzle, example.value)
        rows = goal_rows(puzzle, example, picture)
        return Attempt(state, replace(result, verdict="not started", parts=rows), picture)
    drawn = telling_instance(puzzle, answer, calls if state == "not yet" else [])
    picture = picture_of(puzzle, drawn.value)
    rows = (*result.parts, *cost_rows(puzzle, state, drawn, picture))
    return Attempt(state, replace(result, parts=rows), picture)


def state_of(result: Mark, answer: Callable[..., Any]) -> State:
    """Return the state of a puzzle; an answer that still has a `...` is wrong or not started."""
    if result.verdict in ("correct", "fast enough"):
        return "solved"
    return "your turn" if result.verdict == "not started" or unfinished(answer) else "not yet"


def unfinished(answer: Callable[..., Any]) -> bool:
    """Return whether the source of a function has a `...` other than in an index."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    except (OSError, TypeError, SyntaxError):  # made by exec, or a lambda inside of a call
        return False
    indices = {id(n) for s in ast.walk(tree) if isinstance(s, ast.Subscript) for n in ast.walk(s)}
    left = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value is Ellipsis)
    return any(id(n) not in indices for n in left)


# --- calls ---------------------------------------------------------------------------------------


def completed(puzzle: Puzzle, answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of all arguments that returns what the parts check.

    The answer to a puzzle about a schedule changes `s`; the function creates `s` and returns it.
    """
    return on_schedule(answer) if puzzle.of == "schedule" else answer


def on_schedule(answer: Callable[..., Any]) -> Callable[..., te.Schedule]:
    """Return a function of tensors that creates a schedule and lets `answer` change it.

    answer   takes `s` and any of the tensors by their names: def one_miss_a_line(s, B)
    """

    def whole(*values: Any) -> te.Schedule:
        tensors = [x for x in values if isinstance(x, tensor.Tensor)]
        outputs = [t for t in tensors_of(tensors) if not isinstance(t.op, tensor.PlaceholderOp)]
        s = te.create_schedule([t.op for t in outputs])
        arguments = {t.op.name: t for t in tensors} | {"s": s}
        parameters = list(inspect.signature(answer).parameters)
        if unknown := [name for name in parameters if name not in arguments]:
            known = ", ".join(arguments)
            raise ArgumentError(f"{answer.__name__}({unknown[0]})", "unknown", f"one of {known}")
        answer(*(arguments[name] for name in parameters))
        return s

    whole.__name__ = answer.__name__
    return whole


def call_with_limit(answer: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call an answer in this process as grading does; AnswerError after SECONDS."""
    with time_limit(SECONDS):
        return call_in_process(answer, tuple(arguments))


@contextmanager
def time_limit(seconds: int) -> Generator[None]:
    """Raise AnswerError in the `with` statement after `seconds`, where the system has timers.

    Without SIGALRM (Windows), or outside of the main thread, there is no limit.
    """
    main = threading.current_thread() is threading.main_thread()
    if not hasattr(signal, "setitimer") or not main:
        yield
        return

    def ring(*_: object) -> None:
        raise AnswerError("timeout", f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, if the answer catches the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- what is shown -------------------------------------------------------------------------------


def example_of(puzzle: Puzzle) -> tuple[Any, ...]:
    """Return the arguments that a puzzle shows."""
    return puzzle.example(random_for(puzzle.id, EXAMPLE, None))


def telling_instance(
    puzzle: Puzzle, answer: Callable[..., Any], calls: Sequence[tuple[Any, ...]]
) -> Instance:
    """Return the example, or if the answer is right there, one of the last calls where it is not.

    If no call tells the answer from the reference, the example is returned.
    """
    last_calls = reversed(calls[-CALLS:])
    instances = (instance_of(puzzle, answer, a) for a in (example_of(puzzle), *last_calls))
    example = next(instances)
    if not example.is_same:
        return example
    return next((instance for instance in instances if not instance.is_same), example)


def instance_of(puzzle: Puzzle, answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Instance:
    """Call an answer and the reference with the same arguments."""
    value, best = (value_of(puzzle, f, arguments) for f in (answer, puzzle.reference))
    return Instance(arguments, value, best, cost_of(puzzle, value), cost_of(puzzle, best))


def value_of(
    puzzle: Puzzle, answer: Callable[..., Any], arguments: tuple[Any, ...]
) -> Value | None:
    """Call an answer; return None if it fails, which the parts have reported."""
    with suppress(Exception):
        value = call_with_limit(completed(puzzle, answer), arguments)
        schedule = puzzle.of == "schedule"
        return value, tensors_of(arguments) if schedule else expanded(arguments)
    return None


def cost_of(puzzle: Puzzle, value: Value | None) -> float | None:
    """Return the cost of a value; None if the puzzle has no cost or the value cannot be run."""
    with suppress(Exception):
        return None if puzzle.cost is None or value is None else float(puzzle.cost(*value))
    return None


def is_numeric(value: Any) -> bool:
    """Return whether a value is a number or a list of numbers, which a picture would give away."""
    if isinstance(value, list | tuple):
        parts = cast("Sequence[Any]", value)
        return len(parts) > 0 and all(map(is_numeric, parts))
    dtype = getattr(value, "dtype", None)
    return dtype.kind in "biufc" if isinstance(dtype, np.dtype) else isinstance(value, Real)


def goal_rows(puzzle: Puzzle, example: Instance, picture: Picture | None) -> tuple[PartMark, ...]:
    """Return rows of feedback that say what to reach, and what to do."""
    goal = ""
    if example.least is not None:
        shown = ", as in the picture" if picture else ""
        goal = f"to reach: {viz.number_text(example.least)} {puzzle.unit}{shown}"
    turn = "replace the ... in your function, and run the cell again"
    return tuple(_row(text) for text in (goal, turn) if text)


def cost_rows(
    puzzle: Puzzle, state: State, drawn: Instance, picture: Picture | None
) -> tuple[PartMark, ...]:
    """Return rows of feedback that compare the cost with the least, and say what is drawn.

    A wrong answer whose cost is the least gets no row about it, because the cost is not its fault.
    """
    cost, least, rows = drawn.cost, drawn.least, list[str]()
    if cost is not None and least is not None:
        is_wrong_number = puzzle.of == "value" and cost != least
        if state == "solved" or cost > least or is_wrong_number:
            goal = "to reach" if state != "solved" else "best known" * (not puzzle.has_one_answer)
            reached, best = number_texts(cost, least)
            rows.append(f"{reached} {puzzle.unit}" + f"; {goal}: {best}" * bool(goal))
    if state == "not yet" and picture is not None:
        arguments = ", ".join(map(describe, drawn.arguments))
        rows.append(f"the picture shows what your function does for the arguments ({arguments})")
    return tuple(map(_row, rows))


def number_texts(cost: float, least: float) -> tuple[str, str]:
    """Return both numbers in words, with enough digits to tell them apart."""
    cost_text, least_text = viz.number_text(cost), viz.number_text(least)
    if cost != least and cost_text == least_text:
        return f"{cost:,.10g}", f"{least:,.10g}"
    return cost_text, least_text


def _row(title: str) -> PartMark:
    return PartMark("property", title, 0.0, Outcome("skipped", 0.0))


def picture_of(puzzle: Puzzle, value: Value | None) -> Picture | None:
    """Draw a value; None if the puzzle has no picture or the value cannot be drawn."""
    with suppress(Exception):
        return None if puzzle.picture is None or value is None else puzzle.picture(*value)
    return None
