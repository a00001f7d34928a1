"""Questions: what a prediction asks, and when a guess counts as right.

A file predictions/03.toml has one table for each question of notebook 03:

    [outer-turns]                 # course.predict("03.outer-turns")
    kind = "number"               # or "choice", "curve"
    prompt = "iterations of the outer loop"
    answer = 3                    # not for a measured answer: the block sets p.answer
    why = "Two blocks of `4` hold only 8 of 10 elements."

kind      number: a field; choice: buttons; curve: a plot with a handle for each x
prompt    a short label of what is asked
unit      follows a number; for a curve, the label of the vertical axis
options   of a choice: the answers to choose from
x         of a curve: the labels along the horizontal axis
low, high, log    of a curve: the range of the vertical axis, and whether it is logarithmic
answer    a number, one of the options, or a list of numbers, one for each x
factor    a number is right if it is at most this factor away from the answer
within    a number is right if it differs from the answer by at most this much
why       one or two sentences, shown with the answer; `names` in backticks are code
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any, cast

from minitvm.base import ArgumentError

Answer = float | str | tuple[float, ...]
KINDS = ("number", "choice", "curve")
CHECKOUT = Path(__file__).parents[2] / "notebooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a notebook; the module describes the fields."""

    kind: str = ""  # "": a question that could not be read; only "Show me" is offered
    prompt: str = ""
    unit: str = ""
    options: tuple[str, ...] = ()
    x: tuple[str, ...] = ()
    low: float = 0
    high: float = 1
    log: bool = False
    answer: Answer | None = None
    factor: float = 1
    within: float = 0
    why: str = ""

    def accepts(self, answer: Answer) -> bool:
        """Return whether `answer` is a possible answer: a number, one of the options, a curve."""
        if self.kind == "curve":
            return isinstance(answer, tuple) and len(answer) == len(self.x)
        return answer in self.options if self.kind == "choice" else isinstance(answer, float)

    def bounds(self, answer: Answer) -> list[tuple[float, float]]:
        """Return the lowest and the highest right number for each number of `answer`."""
        numbers = answer if isinstance(answer, tuple) else (answer,)
        return [self._around(n) for n in numbers if not isinstance(n, str)]

    def _around(self, number: float) -> tuple[float, float]:
        limits = sorted((number / self.factor, number * self.factor))
        slack = max(self.within, 1e-9 * abs(number))
        return limits[0] - slack, limits[1] + slack

    def is_right(self, answer: Answer, guess: Answer) -> bool:
        """Return whether `guess` counts as right."""
        if isinstance(answer, str) or isinstance(guess, str):
            return answer == guess
        guesses = guess if isinstance(guess, tuple) else (guess,)
        bounds = self.bounds(answer)
        pairs = zip(bounds, guesses, strict=False)
        return len(bounds) == len(guesses) and all(low <= g <= high for (low, high), g in pairs)

    def text(self, answer: Answer | None) -> str:
        """Return an answer or a guess as text, with its unit: 3 iterations; "" for a curve."""
        if answer is None or isinstance(answer, str):
            return answer or ""
        if isinstance(answer, tuple):
            return ""
        return f"{number_text(answer)} {self.unit}".strip()


def number_text(number: float) -> str:
    """Return a number as text: whole numbers in full, others with three digits."""
    if number == round(number):
        return f"{number:,.0f}"
    digits = f"{number:.3g}"
    return f"{float(digits):,.0f}" if abs(float(digits)) >= 1000 else digits


def factor_text(factor: float) -> str:
    """Return a factor as text, with more digits where it is close to 1."""
    return f"a factor of {factor:.3g}" if factor < 1.1 else f"a factor of {factor:.2g}"


def factor_off(answer: Answer, guess: Answer) -> float | None:
    """Return the factor between two positive numbers, at least 1; of curves the median."""
    if isinstance(answer, str) or isinstance(guess, str):
        return None
    answers = answer if isinstance(answer, tuple) else (answer,)
    guesses = guess if isinstance(guess, tuple) else (guess,)
    if len(answers) != len(guesses) or min(answers + guesses) <= 0:
        return None
    return median(max(a / g, g / a) for a, g in zip(answers, guesses, strict=True))


def as_answer(value: Any) -> Answer | None:
    """Return a value of a block, a toml file or a browser as an answer; None if it is none."""
    if value is None or isinstance(value, str):
        return value
    items: Any = value.tolist() if hasattr(value, "tolist") else value  # numpy's
    try:
        is_curve = isinstance(items, Sequence)
        return tuple(map(float, cast("Sequence[Any]", items))) if is_curve else float(items)
    except (TypeError, ValueError):
        return None


def question_of(name: str) -> Question:
    """Return the question "03.outer-turns"; if it cannot be read, one that only shows."""
    notebook, _, key = name.partition(".")
    return questions_of(notebook).get(key, Question())


def questions_of(notebook: str) -> dict[str, Question]:
    """Return the questions of a notebook that can be read, in order."""
    for file in places(notebook):
        try:
            tables = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return {key: read(table) for key, table in tables.items() if not faults_of(table)}
    return {}


def places(notebook: str) -> list[Path]:
    """Return the files in which the questions of a notebook may be, the nearest first."""
    working_folder = Path.cwd()
    folders = [*(working_folder, *working_folder.parents), working_folder / "notebooks", CHECKOUT]
    return [folder / "predictions" / f"{notebook}.toml" for folder in folders]


def check_questions(text: str) -> dict[str, Question]:
    """Return the questions of a toml file; raise ArgumentError if one of them is invalid."""
    tables = tomllib.loads(text)
    for key, table in tables.items():
        if fault := faults_of(table):
            raise ArgumentError(f"question [{key}]", fault, "see minitvm/course/question.py")
    return {key: read(table) for key, table in tables.items()}


def read(table: Mapping[str, Any]) -> Question:
    """Return the question that a valid table of a toml file describes."""
    lists = {key: tuple(map(str, table[key])) for key in ("options", "x") if key in table}
    entries: dict[str, Any] = {**table, **lists, "answer": as_answer(table.get("answer"))}
    return Question(**entries)


def faults_of(table: Any) -> str:
    """Return what is wrong with the table of a question, or ""."""
    if not isinstance(table, dict):
        return "not a table"
    entries = cast("dict[str, Any]", table)
    types = {f.name: str(f.type) for f in fields(Question)}
    for key, value in entries.items():
        if key not in types:
            return f"unknown key {key!r}"
        if not _fits(types[key], value):
            return f"{key} = {value!r}"
    if entries.get("kind") not in KINDS:
        return f"kind is none of {', '.join(KINDS)}"
    if not entries.get("prompt"):
        return "no prompt"
    return _answer_fault(read(entries), "answer" in entries) or _axis_fault(read(entries))


def _fits(kind: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "str":
            return isinstance(value, str)
        case "float":
            return number
        case "bool":
            return isinstance(value, bool)
        case "tuple[str, ...]":
            return isinstance(value, list)
        case _:  # an answer
            return number or isinstance(value, str | list)


def _answer_fault(q: Question, has_answer: bool) -> str:
    if q.kind == "choice" and len(set(q.options)) < 2:
        return "a choice needs two different options"
    if not has_answer or (q.answer is not None and q.accepts(q.answer)):
        return ""
    expected = {
        "number": "a number",
        "choice": "one of the options",
        "curve": "a number for each x",
    }
    return f"the answer is not {expected[q.kind]}"


def _axis_fault(q: Question) -> str:
    if q.factor < 1 or q.within < 0:
        return "factor is at least 1, within at least 0"
    if q.kind != "curve":
        return ""
    if len(q.x) < 2:
        return "a curve needs two labels in x"
    if q.low >= q.high or (q.log and q.low <= 0):
        return "a curve needs low < high, and low > 0 if log = true"
    if isinstance(q.answer, tuple) and not all(q.low <= a <= q.high for a in q.answer):
        return "an answer lies outside of low and high"
    return ""
