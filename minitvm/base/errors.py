"""Every error minitvm raises on purpose. A message says what, why, and what to try."""

import difflib
import inspect
import linecache
from collections.abc import Iterable
from typing import TypeAlias


class TVMError(Exception):
    """Base class: catch this to catch anything minitvm refuses to do.

    str() gives "what: why", then a line "  try: ..." if a fix is known. A note names the line of
    the user's code that led to it. All parts are in `args`, so errors can be pickled.
    """

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)
        line = users_line()
        if line:
            self.add_note(line)

    def __str__(self) -> str:
        what, why, fix = self.args
        return what + (f": {why}" if why else "") + (f"\n  try: {fix}" if fix else "")


Reason: TypeAlias = tuple[str] | tuple[str, str]  # (why, fix); (why,) where no fix is known


def raise_first(error: type[TVMError], what: str, reasons: Iterable[Reason]) -> None:
    """Raise `error` with the first of the reasons to refuse `what`; return if there are none."""
    for reason in reasons:
        raise error(what, *reason)


def users_line() -> str:
    """Return the caller's line outside this package: "at lab.py line 4: s[C].split(i, 3)"."""
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
    """A formula without a meaning: types that do not fit, a condition used as a Python bool."""


class ScheduleError(TVMError):
    """An illegal schedule step. The schedule it was applied to is unchanged."""


class LoweringError(TVMError):
    """A schedule that cannot be lowered to loops, or arguments that do not match it."""


class VerifyError(TVMError):
    """Loop IR that breaks a law: an unbound variable, an access out of bounds, ..."""


class BuildError(TVMError):
    """Loops that a target cannot run, or code that its compiler rejects."""


class ArgumentError(TVMError, ValueError):
    """A value passed to a public function or a compiled kernel does not fit."""


class MeasureError(TVMError):
    """A kernel could not be timed."""


class NameMissingError(TVMError, AttributeError):
    """A module or object has no attribute of this name."""


def name_missing(owner: str, name: str, known: Iterable[str]) -> NameMissingError:
    """Return the error for a missing `owner.name`; it suggests the most similar known name."""
    public = [n for n in known if not n.startswith("_")]
    near = [] if name.startswith("_") else difflib.get_close_matches(name, public, 1)
    return NameMissingError(f"{owner} has no {name!r}", "", f"{owner}.{near[0]}" if near else "")
