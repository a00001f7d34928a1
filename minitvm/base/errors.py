"""The errors that minitvm raises on purpose. Each message says what is wrong, why, and a fix."""

import difflib
import inspect
import linecache
import traceback
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

LIBRARIES = ("minitvm", "IPython", "ipykernel")  # packages whose frames a notebook does not show
MORE = "%tb shows the full traceback"


class TVMError(Exception):
    """Base class of all errors that minitvm raises on purpose.

    str() gives "what: why", followed by a line "  try: fix" if a fix is known. A note quotes the
    line of the user's code that caused the error. `args` is (what, why, fix), so that errors can be
    pickled. A notebook shows the user's lines and the message first; %tb shows the full traceback.
    """

    _shown = False  # whether a notebook has shown the short form

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)
        line = users_line()
        if line:
            self.add_note(line)

    def __str__(self) -> str:
        what, why, fix = self.args
        return what + (f": {why}" if why else "") + (f"\n  try: {fix}" if fix else "")

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints: the short form, and all lines when it asks again.

        %tb asks for an error that has been shown.
        """
        if self._shown:
            return "".join(traceback.format_exception(self)).splitlines()
        self._shown = True
        frames = traceback.walk_tb(self.__traceback__)
        lines = [f"at {_place(f, n)}" for f, n in frames if _package(f) not in LIBRARIES]
        notes = [note for note in getattr(self, "__notes__", ()) if note not in lines]
        return [*lines, f"{type(self).__name__}: {self}", *notes, MORE]


Reason: TypeAlias = tuple[str] | tuple[str, str]  # (why, fix); (why,) where no fix is known


def raise_first(error: type[TVMError], what: str, reasons: Iterable[Reason]) -> None:
    """Raise error(what, why, fix) for the first reason (why, fix); do nothing without reasons."""
    for reason in reasons:
        raise error(what, *reason)


def users_line() -> str:
    """Describe the line of the user's code that called minitvm; return "" if there is none.

    The result is, for example, "at lab.py line 4: s[C].split(i, 3)".
    """
    frame = inspect.currentframe()
    while frame is not None and _package(frame) == "minitvm":
        frame = frame.f_back
    return "" if frame is None else f"at {_place(frame, frame.f_lineno)}"


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").split(".")[0]


def _place(frame: FrameType, number: int) -> str:
    """Return the place of a line and its text: "lab.py line 4: s[C].split(i, 3)"."""
    file = frame.f_code.co_filename
    source = "notebook cell" if "ipykernel" in file else file.replace("\\", "/").rsplit("/", 1)[-1]
    code = linecache.getline(file, number, frame.f_globals).strip()
    return f"{source} line {number}" + (f": {code}" if code else "")


class ExprError(TVMError, TypeError):
    """Raised for an invalid formula: mismatched types, an expression used as a Python bool, ..."""


class ScheduleError(TVMError):
    """Raised for an illegal schedule step; the schedule stays unchanged."""


class LoweringError(TVMError):
    """Raised if a schedule cannot be lowered to loops, or does not match the given arguments."""


class VerifyError(TVMError):
    """Raised for invalid loop IR: an unbound variable, an access out of bounds, ..."""


class BuildError(TVMError):
    """Raised if a target cannot run the loops, or its compiler rejects the generated code."""


class ArgumentError(TVMError, ValueError):
    """Raised if an argument of a public function or of a compiled kernel is invalid."""


class MeasureError(TVMError):
    """Raised if a kernel could not be timed."""


class GraphError(TVMError, ValueError):
    """Raised for an invalid network: shapes that do not fit, an unsupported operator, ..."""


class NameMissingError(TVMError, AttributeError):
    """Raised if a module or object has no attribute of the requested name."""


def name_missing(owner: str, name: str, known: Iterable[str]) -> NameMissingError:
    """Return the error for a missing `owner.name`. It suggests the most similar known name."""
    public = [n for n in known if not n.startswith("_")]
    similar = [] if name.startswith("_") else difflib.get_close_matches(name, public, 1)
    what = f"{owner} has no {name!r}"
    return NameMissingError(what, "", f"{owner}.{similar[0]}" if similar else "")


@contextmanager
def importing(
    package: str, what: str, fix: str, error: type[TVMError] = ArgumentError
) -> Generator[None]:
    """Raise `error` about `what` if the body, an import of an optional package, fails."""
    try:
        yield
    except ImportError as e:
        raise error(what, f"the package {package} cannot be imported: {e}", fix) from e
