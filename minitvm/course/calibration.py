"""Compare the reader's guesses with the answers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import median

from .folded import coded
from .guesses import stored
from .question import Answer, Question, factor_off, factor_text, questions_of

NONE_YET = "No guesses yet. Guess above, then run this cell again."
HEAD = ("prediction", "your guess", "the answer", "")


@dataclass(frozen=True, slots=True)
class Row:
    """A question with the reader's guess at it and the answer."""

    question: Question
    guess: Answer
    answer: Answer

    @property
    def right(self) -> bool:
        """Whether the guess counts as right."""
        return self.question.is_right(self.answer, self.guess)

    @property
    def off(self) -> float | None:
        """The factor between the guess and the answer; None for choices."""
        return factor_off(self.answer, self.guess)

    def cells(self) -> tuple[str, str, str, str]:
        """Return the row as text."""
        distance_text = "" if self.off is None else f"{factor_text(self.off)} off"
        verdict = "right" if self.right else distance_text
        return self.question.prompt, self._text(self.guess), self._text(self.answer), verdict

    def _text(self, answer: Answer) -> str:
        return "a curve" if isinstance(answer, tuple) else self.question.text(answer)


@dataclass(frozen=True, slots=True, repr=False)
class Calibration:
    """How well the reader's guesses at the questions of a notebook fit the answers."""

    rows: tuple[Row, ...]
    asked: int

    def sentence(self) -> str:
        """Return the guesses in one sentence."""
        if not self.rows:
            return NONE_YET
        count, right = len(self.rows), sum(row.right for row in self.rows)
        text = f"You guessed {count} of {self.asked}, and {right} of {count} were right"
        factors = [row.off for row in self.rows if row.off is not None]
        if factors:
            text += f"; in the median, numbers were {factor_text(median(factors))} off"
        return f"{text}."

    def __repr__(self) -> str:
        table = [HEAD, *(row.cells() for row in self.rows)] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        pairs = (zip(cells, widths, strict=True) for cells in table)
        lines = ["  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in pairs]
        return "\n".join([*lines, self.sentence()])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{cell}</th>" for cell in HEAD)
        rows = [f"<tr>{heads}</tr>", *(_html_row(row.cells()) for row in self.rows)]
        table = f"<table>{''.join(rows)}</table>" if self.rows else ""
        return f"{table}<p>{escape(self.sentence())}</p>"


def _html_row(cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<td>{coded(cell)}</td>" for cell in cells) + "</tr>"


def calibration(notebook: str) -> Calibration:
    """Return a table of the reader's guesses and the answers: calibration("03")."""
    guesses, questions = stored(), questions_of(notebook)
    rows: list[Row] = []
    for key, question in questions.items():
        latest = guesses.get(f"{notebook}.{key}")
        if latest is None or not question.accepts(latest.guess):
            continue
        answer = question.answer if latest.answer is None else latest.answer
        if answer is not None and question.accepts(answer):
            rows.append(Row(question, latest.guess, answer))
    return Calibration(tuple(rows), len(questions))
