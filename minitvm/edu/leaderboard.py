"""Rank handed-in answers to challenges: `python -m minitvm.edu leaderboard FOLDER`.

Each notebook runs behind the wall, as in grading, on an instance drawn from the instructor's seed.
A wrong answer scores 0; what the machine could not run is inconclusive, and has no rank.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from tqdm import tqdm

from . import files, report
from .challenges import known_values, value_in
from .command import exercise_id, refuse_unsafe, secret_seed, settled, submissions, version
from .course import exercise_named
from .feedback import escaped
from .grader import Graded, Submission, Task, grade_all
from .item import Challenge
from .sandbox import Limits
from .score import Seeds, shortened

Status: TypeAlias = Literal["right", "wrong", "inconclusive"]
COLUMNS = ("challenge", "rank", "student", "value", "unit", "score", "status", "why", "sha256")


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer to a challenge.

    value   what the challenge counts; None unless the answer is right
    key     changes with the notebook, the checks, the grader, the seed and the limits; "" if the
            next run must try again
    """

    challenge: str
    student: str
    sha256: str
    status: Status
    value: float | None
    why: str
    key: str


@dataclass(frozen=True, slots=True)
class Board:
    """The entries of one challenge, from best to worst, and the values of our own answers."""

    challenge: Challenge
    stub: float
    reference: float
    entries: tuple[Entry, ...]

    def rank(self, entry: Entry) -> int | None:
        """Return 1 plus the number of better answers, so that ties share a rank; None if wrong."""
        if entry.value is None:
            return None
        sign = 1 if self.challenge.lower_is_better else -1
        values = [e.value for e in self.entries if e.value is not None]
        return 1 + sum(sign * value < sign * entry.value for value in values)

    def score(self, entry: Entry) -> float | None:
        """Return the rating of an entry: 0 if it is wrong, None if it is inconclusive."""
        if entry.value is None:
            return 0.0 if entry.status == "wrong" else None
        return round(self.challenge.rating(entry.value, self.stub, self.reference), 1)


def leaderboard(
    folder: Path, out: Path, checks: Path, seed: str, limits: Limits, jobs: int, *, strict: bool
) -> int:
    """Score the challenges in every notebook below `folder`; write `out` (Markdown) and a CSV file.

    The results are kept in a folder beside `out`: a later run scores only what is new. Raises
    ArgumentError as grade_folder does.
    """
    refuse_unsafe(folder, checks, strict=strict)
    secret = secret_seed(seed)
    kept = out.with_suffix(".results")
    kept.mkdir(parents=True, exist_ok=True)
    with files.sole_writer(kept):
        entries: list[Entry] = []
        todo: list[tuple[Task, Challenge, str]] = []
        for s in submissions(folder, checks):
            entry_task = task_of(s, checks, (secret,), limits)
            if entry_task is None:
                print(f"{s.student}: no challenge in {s.path.name}", file=sys.stderr)
                continue
            before = read(kept, s.student, entry_task[1].id)
            if before is not None and before.key == entry_task[2]:
                entries.append(before)
            else:
                todo.append(entry_task)
        try:
            results = settled([task for task, _, _ in todo], jobs, grade_all)
            for n, graded in tqdm(results, total=len(todo), unit="notebook", disable=not todo):
                entry = entry_of(graded, *todo[n][1:])
                files.write(place(kept, entry.student, entry.challenge), json.dumps(asdict(entry)))
                entries.append(entry)
        finally:  # whatever happened: the tables list what was scored
            boards = boards_of(entries, checks, secret)
            files.write(out, markdown(boards))
            files.write(out.with_suffix(".csv"), csv_text(boards))
    print(f"{len(entries)} answers: {out}")
    return 0


def task_of(
    s: Submission, checks: Path, seeds: Seeds, limits: Limits
) -> tuple[Task, Challenge, str] | None:
    """Return the task that scores only the challenge of a notebook, the challenge, and the key."""
    name = exercise_id(s, checks, None)
    exercise = exercise_named(name, checks) if name else None
    if exercise is None or exercise.challenge is None:
        return None
    challenge_only = replace(exercise, items=(exercise.challenge.item,))
    task = Task(s, checks, challenge_only, seeds, limits)
    return task, exercise.challenge, version(s, checks, seeds, limits)


def entry_of(graded: Graded, challenge: Challenge, key: str) -> Entry:
    """Turn the mark of a notebook into an entry."""
    status, value, why = "wrong", None, graded.problem
    if graded.unsure:
        status, key = "inconclusive", ""
    for m in graded.marks:
        value, outcome = value_in(m), m.parts[0].outcome
        why = shortened(": ".join(x for x in (outcome.message, outcome.got) if x))
        status = "right" if value is not None else status
    return Entry(challenge.id, graded.student, graded.sha256, status, value, why, key)


# --- files ---------------------------------------------------------------------------------------


def place(kept: Path, student: str, challenge: str) -> Path:
    """Return the file of one entry; `student` is a label, so this is a safe path."""
    return kept / student / f"{challenge}.json"


def read(kept: Path, student: str, challenge: str) -> Entry | None:
    """Return the entry of an earlier run, or None if its file is missing or damaged."""
    try:
        return Entry(**json.loads(place(kept, student, challenge).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


# --- tables --------------------------------------------------------------------------------------


def boards_of(entries: Sequence[Entry], checks: Path, seed: int) -> list[Board]:
    """Sort entries into a board for each challenge, with the values of our answers for the seed."""
    boards: list[Board] = []
    for name in sorted({e.challenge for e in entries}):
        exercise = exercise_named(f"ex{name.partition('.')[0]}", checks)
        assert exercise.challenge is not None
        known = known_values(exercise.challenge, seed)
        sign = 1 if exercise.challenge.lower_is_better else -1
        own_entries = [e for e in entries if e.challenge == name]
        order = sorted(
            own_entries,
            key=lambda e: (
                e.value is None,
                e.status == "inconclusive",
                sign * (e.value or 0.0),
                e.student,
            ),
        )
        boards.append(Board(exercise.challenge, known["stub"], known["reference"], tuple(order)))
    return boards


def markdown(boards: Sequence[Board]) -> str:
    """Return the leaderboard as Markdown: a table for each challenge."""
    blocks = ["# Leaderboard"]
    for b in boards:
        unit = b.challenge.unit
        known = (
            f"The stub has {b.stub:,.10g} {unit} (score 0), our answer {b.reference:,.10g} (100)."
        )
        lines = [f"| rank | student | {unit} | score | |", "|---:|---|---:|---:|---|"]
        for e in b.entries:
            rank, score = b.rank(e), b.score(e)
            value = "" if e.value is None else f"{e.value:,.10g}"
            note = "" if e.status == "right" else f"{e.status}: {e.why}".rstrip(": ")
            cells = (rank or "", e.student, value, "" if score is None else f"{score:g}", note)
            lines.append("| " + " | ".join(escaped(str(c)[:200]) for c in cells) + " |")
        title = f"## {b.challenge.id} {escaped(b.challenge.title)}"
        blocks += [title, known, "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


def csv_text(boards: Sequence[Board]) -> str:
    """Return the leaderboard as CSV, one row for each answer."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for b in boards:
        for e in b.entries:
            cells = (b.rank(e), e.student, e.value, b.challenge.unit, b.score(e), e.status, e.why)
            row = (e.challenge, *cells, e.sha256)
            writer.writerow(["" if c is None else report.safe(c) for c in row])
    return out.getvalue()
