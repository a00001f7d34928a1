"""Test the grader, exercise by exercise: `python -m minitvm.edu verify`.

docs/instructor.md lists the checks M1 to M10.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from .build import faults, structure_faults
from .course import exercise_named, exercises_in
from .grader import Graded, grade_all
from .item import Exercise
from .notebook import sha256
from .score import Mark
from .transfer import MAX_SHARE, shares
from .trials import Trial, expected, mutant_files, trial_faults, trials
from .ungraded import challenge_faults, puzzle_faults

MIN_WRONG = 3  # wrong answers that every item must have


def verify(root: Path, checks: Path, name: str = "", jobs: int = 2) -> int:
    """Run all checks on one exercise or on all, print a table, and return the exit code."""
    start = time.monotonic()
    course = exercises_in(checks)
    exercises = (exercise_named(name, checks),) if name else course
    problems = {e.id: still_faults(root, e) for e in exercises}
    if not name:
        problems[exercises[0].id] += faults(root, course)
    todo = [
        t for e in exercises if not problems[e.id] for t in trials(root, e, lost=e is course[0])
    ]
    for e in exercises:
        problems[e.id] += [f"M9 {f}" for f in ungraded_faults(root, e, checks)]
    for trial, wrong in run(todo, checks, jobs):
        problems[trial.exercise.id] += [f"{trial.check} {trial.name}: {w}" for w in wrong]
    for e in exercises:
        count = sum(t.exercise.id == e.id for t in todo)
        status = "FAILED" if problems[e.id] else "ok"
        print(f"{e.id}  {status}  {count} notebooks, {e.points:g} points")
        shares_text = ", ".join(
            f"{i.partition('.')[2]} {x:.0%}" for i, x in shares(root, e).items()
        )
        print(f"      statements that the notebook has: {shares_text}")
        for line in "\n".join(problems[e.id]).splitlines():
            print(f"      {line}")
    print(f"{len(todo)} notebooks graded in {time.monotonic() - start:.0f} s")
    return any(problems.values())


def verify_ungraded(root: Path, checks: Path, name: str = "") -> int:
    """Check only puzzles and challenges (M9), which takes seconds; return the exit code."""
    exercises = (exercise_named(name, checks),) if name else exercises_in(checks)
    has_faults = False
    for e in exercises:
        faults = ungraded_faults(root, e, checks)
        has_faults |= bool(faults)
        challenges = f"{int(e.challenge is not None)} challenge"
        print(f"{e.id}  {'FAILED' if faults else 'ok'}  {len(e.puzzles)} puzzles, {challenges}")
        for line in faults:
            print(f"      {line}")
    return int(has_faults)


def ungraded_faults(root: Path, exercise: Exercise, checks: Path) -> list[str]:
    """Return the faults of puzzles and of the challenge (M9)."""
    return [*puzzle_faults(root, exercise), *challenge_faults(root, exercise, checks)]


def still_faults(root: Path, exercise: Exercise) -> list[str]:
    """Return the faults to see without grading: M6, M9, M10, and too few wrong answers (M3)."""
    missing = [f for f in faults(root, [exercise]) if "no such exercise" not in f]
    if missing:
        return [f"M6 {f}" for f in missing]
    problems = [f"M6 {f}" for f in structure_faults(root, exercise)]
    wrong = Counter(item for path in mutant_files(root, exercise) for item in expected(path))
    return (
        problems
        + [
            f"M3 {item.id}: {wrong[item.id]} wrong answers in solutions/wrong,"
            f" at least {MIN_WRONG} are needed"
            for item in exercise.items
            if wrong[item.id] < MIN_WRONG
        ]
        + [
            f"M10 {item}: the notebook has {share:.0%} of the solution's statements, at most"
            f" {MAX_SHARE:.0%} are allowed"
            for item, share in shares(root, exercise).items()
            if share >= MAX_SHARE
        ]
        + [
            f"M9 {challenge.id}: no wrong answer in solutions/wrong"
            for challenge in [exercise.challenge]
            if challenge is not None and not wrong[challenge.id]
        ]
    )


def run(todo: Sequence[Trial], checks: Path, jobs: int) -> list[tuple[Trial, list[str]]]:
    """Grade all trials and return each with its faults; run timed trials last, one by one."""
    pairs: list[tuple[Trial, list[str]]] = []
    marks: dict[str, tuple[Mark, ...]] = {}
    with tqdm(total=len(todo), unit="notebook", disable=len(todo) < 2) as bar:
        for timed, workers in ((False, jobs), (True, 1)):
            group = [t for t in todo if bool(t.timed) == timed]
            for n, got in grade_all([t.task(checks) for t in group], workers):
                wrong = [*trial_faults(group[n], got), *_same(group[n], got, marks)]
                pairs.append((group[n], wrong))
                bar.update()
    return pairs


def _same(trial: Trial, got: Graded, marks: dict[str, tuple[Mark, ...]]) -> list[str]:
    """Return faults of checks M5 (the hash is the notebook's) and M8 (equal files, equal marks)."""
    problems = [] if got.sha256 == sha256(trial.data) else ["M5 another file was graded"]
    counted_marks = tuple(without_time(m) for m in got.marks)
    if marks.setdefault(got.sha256, counted_marks) != counted_marks and trial.check in ("M2", "M8"):
        problems.append("M8 two runs give different marks")
    return problems


def without_time(m: Mark) -> Mark:
    """Return the mark with only its deterministic parts, so that two runs can be compared."""
    parts = tuple(p for p in m.parts if p.kind != "speed")
    return Mark(m.item, m.title, 0.0, m.worth, "correct", parts, m.section)
