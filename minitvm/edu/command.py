"""The commands of `python -m minitvm.edu`."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from minitvm.base import ArgumentError

from . import files, report
from .build import built, exercise_file, faults, solution_file, structure_faults, write
from .cluster import GradeAll, cluster_grader
from .course import exercise_named, exercises_in
from .feedback import RIGHT, as_text
from .grader import MAX_BYTES, Graded, Submission, Task, grade_all, printable
from .item import Exercise
from .notebook import exercise_of, parsed, stored
from .sandbox import PACKAGE, ROOT, Limits, about_tier, tier
from .score import Seeds
from .skeleton import skeleton

SEED_ROUNDS = 200_000  # rounds of hashing, for about 0.1 s
ATTEMPTS = 3  # times that a run grades a notebook that the machine was too busy to measure


def project() -> Path:
    """Return the working directory if it has exercises or solutions, else this checkout."""
    folder = Path.cwd()
    return folder if (folder / "exercises").is_dir() or (folder / "solutions").is_dir() else ROOT


def build(root: Path, checks: Path, *, check: bool, force: bool) -> int:
    """Build all exercises, or with `check` only list outdated ones; return the exit code."""
    exercises = exercises_in(checks)
    if check:
        findings = faults(root, exercises)
        findings += [f for e in exercises if not findings for f in structure_faults(root, e)]
        print("\n".join(findings) or f"{len(exercises)} exercises are up to date")
        return bool(findings)
    kept_count = 0
    for exercise in exercises:
        outcome = write(root, exercise, built(root, exercise), force=force)
        kept_count += outcome == "kept"
        why = ": it has been worked on (--force overwrites it)" if outcome == "kept" else ""
        print(f"{exercise_file(root, exercise).name}: {outcome}{why}")
    return bool(kept_count)


def draft(root: Path, checks: Path, name: str) -> int:
    """Draft the solution notebook of an exercise; raise ArgumentError if the file exists."""
    exercise = exercise_named(name, checks)
    path = solution_file(root, exercise)
    if path.exists():
        raise ArgumentError(str(path), "it exists already", "edit it, or delete it first")
    files.write(path, stored(skeleton(exercise)))
    print(f"wrote {path}")
    return 0


def check(root: Path, checks: Path, name: str, limits: Limits) -> int:
    """Check an exercise, "ex03" or a notebook, with the public seed; return 0 if all is correct."""
    path = Path(name)
    if path.suffix != ".ipynb":
        path = exercise_file(root, exercise_named(name, checks))
    graded = graded_once(Task(submission_at(path), checks, limits=limits))
    print(as_text(report.report(graded)))
    return not graded.marks or any(m.verdict not in RIGHT for m in graded.marks)


def submission_at(path: Path, student: str = "") -> Submission:
    """Read the notebook at `path`. Raises ArgumentError if that fails."""
    try:
        return Submission(path, path.read_bytes(), student)
    except OSError as e:
        raise ArgumentError(str(path), e.strerror or "cannot be read") from None


def graded_once(task: Task) -> Graded:
    """Grade one notebook with a worker that is started for it alone."""
    ((_, graded),) = grade_all([task])
    return graded


# --- grading a folder ----------------------------------------------------------------------------


def submissions(folder: Path, checks: Path, known: Exercise | None = None) -> list[Submission]:
    """Read every notebook below `folder`; name the student after the subfolder, or else the file.

    With folder hw1: hw1/ann/ex03_split.ipynb -> "ann"; hw1/ex03_split.ipynb -> "ex03_split"; a
    second notebook of one exercise, hw1/ann/ex03_split_new.ipynb -> "ann (ex03_split_new)".
    Names that are no safe paths are replaced by a label(), so that no two students share one.
    """
    if not folder.is_dir():
        raise ArgumentError(str(folder), "there is no such folder")
    paths = sorted(files.notebooks(folder))
    if not paths:
        raise ArgumentError(str(folder), "there are no notebooks in it")
    submission_of: dict[tuple[str, str], Submission] = {}
    for path, problem in paths:
        relative = path.relative_to(folder)
        name = files.label(relative.parent.as_posix() if relative.parent.name else path.stem)
        s = Submission(path, b"", name, problem) if problem else handed_in(path, name)
        exercise = exercise_id(s, checks, known)
        for more in (files.label(path.stem), files.quoted(relative.as_posix())):
            if (s.student, exercise) in submission_of:
                s = replace(s, student=f"{name} ({more})")
        submission_of[s.student, exercise] = s
    return in_turn(folder, submission_of.values())


def in_turn(folder: Path, handed: Iterable[Submission]) -> list[Submission]:
    """Sort submissions: one notebook of each student, then the second ones, and so on.

    A student is an entry of `folder` here. One who hands in hundreds of slow notebooks then does
    not keep the others waiting for their first results.
    """
    seen: Counter[str] = Counter()
    turns: list[tuple[int, Submission]] = []
    for s in handed:
        student = s.path.relative_to(folder).parts[0]
        turns.append((seen[student], s))
        seen[student] += 1
    return [s for _, s in sorted(turns, key=lambda turn: turn[0])]


def handed_in(path: Path, student: str) -> Submission:
    """Read the notebook at `path`; if that fails, return a Submission with the problem."""
    if path.is_symlink():  # it may lead to another student's notebook, or to a solution
        return Submission(path, b"", student, "a link; hand in the file itself")
    if not path.is_file():
        return Submission(path, b"", student, "not a file")
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            why = f"{size} bytes, at most {MAX_BYTES}: clear outputs"
            return Submission(path, b"", student, why)
        return submission_at(path, student)
    except (OSError, ArgumentError) as e:
        return Submission(path, b"", student, printable(str(e)))


def secret_seed(seed: str) -> int:
    """Return the seed of the hidden tests, from `seed` or else from $MINITVM_GRADE_SEED.

    Feedback shows hidden cases, and a student can try seeds until one draws the same. So there are
    2**128 seeds, and computing one from its words takes long.
    """
    words = seed or os.environ.get("MINITVM_GRADE_SEED", "")
    if not words:
        print("no --seed: hidden tests can be guessed", file=sys.stderr)
    digest = hashlib.pbkdf2_hmac("sha256", words.encode(), b"minitvm", SEED_ROUNDS, 16)
    return int.from_bytes(digest)


def grade_folder(
    folder: Path, out: Path, checks: Path, seed: str, limits: Limits, jobs: int, exercise: str = "",
    *, where: str | int | None = None, strict: bool = False,
) -> int:  # fmt: skip
    """Grade every notebook below `folder`, reusing results in `out`; write reports into `out`.

    where    the Dask cluster that grades, as for cluster_grader(); None to grade in processes here
    strict   whether to grade behind namespaces only
    Raises ArgumentError if the checks are inside `folder`, where students may have changed them,
    and without namespaces if `strict`.
    """
    refuse_unsafe(folder, checks, strict=strict, here=where is None)
    seeds: Seeds = (None, secret_seed(seed))
    known = exercise_named(exercise, checks) if exercise else None
    out.mkdir(parents=True, exist_ok=True)
    with files.sole_writer(out):
        rows: list[dict[str, Any]] = []
        todo: list[tuple[Task, str]] = []
        for s in submissions(folder, checks, known):
            key = version(s, checks, seeds, limits)
            before = report.read(report.folder_of(out, s.student, exercise_id(s, checks, known)))
            if before and before["key"] == key:
                rows.append(before)
            else:
                todo.append((Task(s, checks, known, seeds, limits), key))
        if rows:
            print(f"{len(rows)} graded before, {len(todo)} to grade")
        grader: AbstractContextManager[GradeAll] = nullcontext(grade_all)
        if where is not None and todo:
            grader, jobs = cluster_grader(where, checks, strict=strict), len(todo)
        with grader as grade:
            try:
                results = settled([task for task, _ in todo], jobs, grade)
                for n, graded in tqdm(results, total=len(todo), unit="notebook", disable=not todo):
                    tqdm.write(as_text(replace(report.report(graded), notes=(), marks=())))
                    rows.append(reported(out, graded, todo[n][1]))
            finally:
                finish(out, rows)  # whatever happened: the tables list what was graded
    return 0


def refuse_unsafe(folder: Path, checks: Path, *, strict: bool, here: bool = True) -> None:
    """Print which wall this machine has; raise ArgumentError where grading would not be safe.

    here   whether notebooks run on this machine
    """
    if here:
        print(about_tier(), file=sys.stderr)
    if here and strict and tier() != "namespaces":
        fix = "install bubblewrap, or grade in a container: docs/instructor.md"
        raise ArgumentError("--strict", f"this machine has only: {tier()}", fix)
    if checks.is_relative_to(folder.resolve()):
        why = "they are among the notebooks to grade, where students may have changed them"
        raise ArgumentError(f"checks in {checks}", why, "--checks FOLDER, with a copy of your own")


def settled(tasks: Sequence[Task], jobs: int, grade: GradeAll) -> Iterator[tuple[int, Graded]]:
    """Grade tasks, and those that the machine left open again at the end of the run, one by one.

    Yields (index of the task, result), each once; a result may be open even then.
    """
    pending = range(len(tasks))
    for attempt in range(ATTEMPTS):
        unsettled: list[int] = []
        for k, graded in grade([tasks[n] for n in pending], 1 if attempt else jobs):
            if graded.unsure and attempt + 1 < ATTEMPTS:
                unsettled.append(pending[k])
            else:
                yield pending[k], graded
        pending = unsettled


def reported(out: Path, graded: Graded, key: str) -> dict[str, Any]:
    """Write the report on one notebook; return its row of the tables, even if that fails."""
    before = report.read(report.folder_of(out, graded.student, graded.exercise))
    try:
        return report.write(out, graded, key, before)
    except (OSError, ValueError) as e:  # a full disk, a name that this file system refuses
        why = f"its report could not be written ({printable(str(e))}): run it again"
        return report.row_of(replace(graded, problem=why, again=True), key, before)


def exercise_id(s: Submission, checks: Path, known: Exercise | None) -> str:
    """Return the id of the exercise of a submission; "" if the exercise is not known."""
    if known is not None:
        return known.id
    try:
        return exercise_named(exercise_of(parsed(s.data, s.path.name), s.path), checks).id
    except ArgumentError:
        return ""


def version(s: Submission, checks: Path, seeds: Seeds, limits: Limits) -> str:
    """Return a key that changes if the notebook, checks, grader, seeds or limits change.

    It is a hash, because results.json contains it, and must not contain the secret seed.
    """
    code = hashlib.sha256(f"{s.sha256} {seeds} {limits}".encode())
    for path in (*sorted(PACKAGE.rglob("*.py")), *sorted(checks.glob("ex*.*"))):
        code.update(path.read_bytes())
    return code.hexdigest()


def finish(out: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write grades.csv, junit.xml and summary.md; on GitHub, add the summary to the run's page."""
    ordered = sorted(rows, key=lambda r: (r["student"], r["exercise"]))
    contents = (report.csv_text(ordered), report.junit(ordered), report.summary(ordered))
    problem: OSError | None = None
    for name, text in zip(files.TABLES, contents, strict=True):
        try:
            files.write(out / name, text)
        except OSError as e:
            problem = e
    if problem:
        raise problem
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(page, "a", encoding="utf-8") as file:
            file.write(contents[-1])
    print(f"{len(ordered)} notebooks: {out / 'grades.csv'}")
    if unsure := sum(not row["key"] for row in ordered):
        names = ", ".join(row["student"] for row in ordered if not row["key"])
        print(f"{unsure} of them not measured, and not paid for it: {names}")
        print("run it again when the machine is less busy")
