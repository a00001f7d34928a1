"""The reader's guesses: a file of JSON lines beside the notebook, one for each guess."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from minitvm import viz

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
    name = os.environ.get("MINITVM_GUESSES", "")
    return None if name == "off" or not viz.is_live() else Path(name or NAME)


def store(guess: Guess) -> None:
    """Append a guess to the file; a folder that cannot be written is no error."""
    if file := guesses_file():
        time = datetime.now().astimezone().isoformat(timespec="seconds")
        row = {"id": guess.id, "guess": guess.guess, "answer": guess.answer, "time": time}
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(handle, line)  # one write: lines of two notebooks do not mix
            finally:
                os.close(handle)
        except OSError:
            return


def stored() -> dict[str, Guess]:
    """Return the latest guess at each question; lines that cannot be read are skipped."""
    file = guesses_file()
    try:
        text = file.read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        return {}
    guesses = filter(None, map(_read, text.splitlines()))
    return {guess.id: guess for guess in guesses}


def _read(line: str) -> Guess | None:
    try:
        row: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict):
        return None
    entries = cast("dict[str, Any]", row)
    guess = as_answer(entries.get("guess"))
    if guess is None or not isinstance(entries.get("id"), str):
        return None
    return Guess(entries["id"], guess, as_answer(entries.get("answer")))
