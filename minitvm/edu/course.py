"""Find the checks of a course and load them: one file for each exercise, in one folder.

The folder is exercises/checks, outside the package, because checks are course content. A file of
checks is loaded by its path, so that sys.path does not change and no other module is imported by
accident. docs/instructor.md shows how to write such a file.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from minitvm.base import ArgumentError

from .item import Challenge, Exercise, Item, Puzzle
from .sandbox import ROOT

Folder: TypeAlias = str | os.PathLike[str]
VARIABLE = "MINITVM_CHECKS"
FILES = "ex[0-9][0-9].py"
NAME = re.compile(r"(ex[0-9][0-9])(_\w+)?", re.ASCII)


def checks_folder(wish: Folder | None = None, near: Path | None = None) -> Path:
    """Return the folder with the checks; raise ArgumentError if it does not exist.

    The folder is `wish` or, without it, $MINITVM_CHECKS. If neither is set, the folder is searched
    near `near` (by default the working directory, which in Jupyter is the folder of the notebook),
    and then in the checkout of this package.
    """
    if setting := wish or os.environ.get(VARIABLE):
        places = [Path(setting).resolve()]
    else:
        start = (near or Path.cwd()).resolve()
        subfolder = Path("exercises", "checks")
        places = [start / "checks", start / subfolder, start.parent / subfolder, ROOT / subfolder]
    for folder in places:
        if any(folder.glob(FILES)):
            return folder
    places_text = ", ".join(map(str, dict.fromkeys(places)))
    fix = (
        "copy the folder exercises/checks of the course next to your notebook, or set"
        f" {VARIABLE} to its path"
    )
    raise ArgumentError("the checks of the exercises", f"no file {FILES} in {places_text}", fix)


def exercises_in(folder: Path) -> tuple[Exercise, ...]:
    """Load every exercise in `folder`, in the order of their names."""
    return tuple(_loaded(path) for path in sorted(folder.glob(FILES)))


def exercise_named(name: str, folder: Path) -> Exercise:
    """Load the exercise with the id or stem `name`: "ex03" or "ex03_split_tile_reorder".

    Raises ArgumentError if it does not exist. Names come from notebooks of students, so the name is
    matched against the pattern NAME before any file is opened.
    """
    parts = NAME.fullmatch(str(name))
    if parts and (folder / f"{parts[1]}.py").is_file():
        exercise = _loaded(folder / f"{parts[1]}.py")
        if name in (exercise.id, exercise.stem):
            return exercise
    known = ", ".join(path.stem for path in sorted(folder.glob(FILES)))
    raise ArgumentError(f"exercise {name!r}", "there is no such exercise", f"one of {known}")


def item_of(name: str, folder: Path) -> Item:
    """Load the item "ex03.2", or the puzzle "03.rows" or "03.challenge" as an item without points.

    Raises ArgumentError if it does not exist.
    """
    exercise = exercise_with(name, folder)
    items = exercise.items if str(name).startswith("ex") else exercise.ungraded
    for item in items:
        if item.id == name:
            return item
    known = ", ".join(i.id for i in items) or "none"
    raise ArgumentError(f"item {name!r}", "there is no such item", f"one of {known}")


def puzzle_of(name: str, folder: Path) -> Puzzle:
    """Load the puzzle with the id `name`: "04.columns"; raise ArgumentError without it."""
    puzzles = exercise_with(name, folder).puzzles
    for puzzle in puzzles:
        if puzzle.id == name:
            return puzzle
    known = ", ".join(p.id for p in puzzles) or "none in this notebook"
    raise ArgumentError(f"puzzle {name!r}", "there is no such puzzle", f"one of {known}")


def challenge_of(name: str, folder: Path) -> Challenge:
    """Load the challenge with the id `name`: "04.challenge"; raise ArgumentError without it."""
    challenge = exercise_with(name, folder).challenge
    if challenge is None or challenge.id != name:
        known = challenge.id if challenge else "another notebook's"
        raise ArgumentError(f"challenge {name!r}", "there is no such challenge", known)
    return challenge


def exercise_with(name: str, folder: Path) -> Exercise:
    """Load the exercise that has the item "ex03.2" or the puzzle "03.rows"."""
    head = str(name).partition(".")[0]
    return exercise_named(f"ex{head}" if head.isdigit() else head, folder)


def check_files(exercise: str, folder: Path) -> list[Path]:
    """Return the check files of an exercise, such as ex06.py and its data ex06_times.json."""
    return sorted(path for path in folder.glob(f"{exercise}*") if path.is_file())


def checks_module(path: Path) -> ModuleType:
    """Load the file at `path` as a new module, without changing sys.path."""
    name = f"checks_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def _loaded(path: Path) -> Exercise:
    exercise = getattr(checks_module(path), "EXERCISE", None)
    if not isinstance(exercise, Exercise) or exercise.id != path.stem:
        fix = f'EXERCISE = Exercise("{path.stem}", ...)'
        raise ArgumentError(str(path), f"it defines no EXERCISE called {path.stem}", fix)
    return exercise
