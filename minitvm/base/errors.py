"""Every error minitvm raises on purpose. A message says what, why, and what to try."""

import difflib
import inspect
import linecache
from collections.abc import Iterable


class TVMError(Exception):
    """Base class: catch this to catch anything minitvm refuses to do.

    str() gives  "what: why", then a line "  try: ..." where a way out is known.
    A note names the line of the user's that led to it. All parts travel in `args`, so errors
    survive pickling across process pools.
    """

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)
        line = users_line()
        if line:
            self.add_note(line)

    def __str__(self) -> str:
        what, why, fix = self.args
        return what + (f": {why}" if why else "") + (f"\n  try: {fix}" if fix else "")


def users_line() -> str:
    """Where outside this package we were called: "at lab.py line 4: s[C].split(i, 3)"."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "minitvm":
        frame = frame.f_back
    if frame is None:
        return ""
    file, number = frame.f_code.co_filename, frame.f_lineno
    place = "notebook cell" if "ipykernel" in file else file.replace("\\", "/").rsplit("/", 1)[-1]
    code = linecache.getline(file, number, frame.f_globals).strip()
    return f"at {place} line {number}" + (f": {code}" if code else "")


class ExprError(TVMError, TypeError):
    """A formula that has no meaning: mixed-up types, a condition used as a Python bool, ..."""


class ScheduleError(TVMError):
    """A schedule step that is not legal. The schedule it was applied to is unchanged."""


class LoweringError(TVMError):
    """A schedule that cannot be turned into loops, or arguments that do not fit it."""


class VerifyError(TVMError):
    """Loop IR that breaks a law: an unbound variable, an access out of bounds, ..."""


class BuildError(TVMError):
    """Loops that a target cannot run, or code its compiler refuses."""


class ArgumentError(TVMError, ValueError):
    """A value handed to a public function or to a compiled kernel does not fit."""


class MeasureError(TVMError):
    """A kernel could not be timed."""


class NameMissingError(TVMError, AttributeError):
    """A module or object has no attribute of this name."""


def name_missing(owner: str, name: str, known: Iterable[str]) -> NameMissingError:
    """The error for `owner.name`, with the most similar of the `known` names as a way out."""
    public = [n for n in known if not n.startswith("_")]
    near = [] if name.startswith("_") else difflib.get_close_matches(name, public, 1)
    return NameMissingError(f"{owner} has no {name!r}", "", f"{owner}.{near[0]}" if near else "")
