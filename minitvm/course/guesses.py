"""The reader's guesses: a file of JSON lines beside the notebook, one for each guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitvm import viz

from .journal import append, journal, rows
from .question import Answer, as_answer

NAME = "guesses.jsonl"


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess at the question `id`, and the answer that the reader saw then."""

    id: str
    guess: Answer
    answer: Answer | None = None


def guesses_file() -> Path | None:
    """Return the file of the guesses; None if none are kept, as in a batch run."""
    return journal("MINITVM_GUESSES", NAME) if viz.is_live() else None


def store(guess: Guess) -> None:
    """Append a guess to the file; a folder that cannot be written is no error."""
    append(guesses_file(), {"id": guess.id, "guess": guess.guess, "answer": guess.answer})


def stored() -> dict[str, Guess]:
    """Return the latest guess at each question; lines that cannot be read are skipped."""
    guesses = filter(None, map(_read, rows(guesses_file())))
    return {guess.id: guess for guess in guesses}


def _read(entries: Mapping[str, Any]) -> Guess | None:
    guess = as_answer(entries.get("guess"))
    if guess is None or not isinstance(entries.get("id"), str):
        return None
    return Guess(entries["id"], guess, as_answer(entries.get("answer")))
