"""The controls, frames and panels around a picture, as data; a control checks its new values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minitvm.base import ArgumentError, check_flag


@dataclass(frozen=True, slots=True)
class Slider:
    """A slider for a number from `low` to `high`."""

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 1

    def accept(self, value: Any) -> float:
        """Return `value` as an int or float; raise ArgumentError unless it is in low .. high."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high:
            span = f"not a number from {self.low:g} to {self.high:g}"
            raise ArgumentError(f"{self.name} {value!r}", span, f"{self.low:g}")
        return int(value) if isinstance(self.step, int) else float(value)


@dataclass(frozen=True, slots=True)
class Button:
    """A button that starts an action; `tip` says what it does, or why it is disabled."""

    name: str
    label: str
    enabled: bool = True
    tip: str = ""

    def accept(self, value: Any) -> None:
        """Return None for any value, because a button has no value."""


@dataclass(frozen=True, slots=True)
class Select:
    """A choice of one of several strings."""

    name: str
    label: str
    options: tuple[str, ...]
    value: str

    def accept(self, value: Any) -> str:
        """Return `value` if it is one of the options; otherwise raise ArgumentError."""
        if value not in self.options:
            why = f"no such {self.name}"
            raise ArgumentError(f"{self.name} {value!r}", why, f"one of {', '.join(self.options)}")
        return str(value)


@dataclass(frozen=True, slots=True)
class Toggle:
    """A check box."""

    name: str
    label: str
    value: bool

    def accept(self, value: Any) -> bool:
        """Return `value` if it is True or False; otherwise raise ArgumentError."""
        return check_flag(self.name, value)


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text field, `columns` wide; it sends its text on Enter and when it loses focus."""

    name: str
    label: str
    value: str
    columns: int = 12

    def accept(self, value: Any) -> str:
        """Return `value` as a string."""
        return str(value)


Control: TypeAlias = Slider | Button | Select | Toggle | TextInput


@dataclass(frozen=True, slots=True)
class Frame:
    """One step of an animation: a caption, and `marks`, which maps keys of shapes to kinds.

    at   the key of a shape or line; pointing at it shows the frame
    """

    marks: Mapping[str, str]
    caption: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of a panel; `note` is "", "now", "later" (not reached), "added" or "removed"."""

    text: str
    key: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A block of monospaced text beside the picture."""

    title: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The controls, frames, links and panels around the picture of a widget.

    frames       the frames that the browser plays, without the kernel
    trail        the kind in which to show shapes that an earlier frame marked, except as "now";
                 "" to show them without a mark
    first        the index of the frame shown first
    columns      frames per row if the frames form a grid: the up and down arrows change the row
    links        key -> the keys that light up when the mouse points at it
    selectable   the prefix of the keys that a click or the arrow keys can select
    draggable    whether selected shapes can be dragged onto each other (mouse, Alt+arrows)
    beside       whether panels stand side by side if they fit, instead of below each other
    """

    controls: tuple[Control, ...] = ()
    frames: tuple[Frame, ...] = ()
    trail: str = ""
    first: int = 0
    columns: int = 0
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    panels: tuple[Panel, ...] = ()
    selectable: str = ""
    draggable: bool = False
    beside: bool = False


def as_data(control: Control) -> dict[str, Any]:
    """Return the dictionary of a control's type and fields that is sent to the browser."""
    fields = {name: getattr(control, name) for name in type(control).__slots__}
    return {"type": type(control).__name__, **fields}


def frames_data(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    """Return the dictionaries of frames that are sent to the browser.

    A frame has its `marks` or, if these are fewer, the `changes` since the frame before: key ->
    kind, or None for a key that has no mark any more.
    """
    data = list[dict[str, Any]]()
    before: Mapping[str, str] = {}
    for frame in frames:
        changes = {k: frame.marks.get(k) for k in {**before, **frame.marks}}
        changes = {k: kind for k, kind in changes.items() if before.get(k) != kind}
        is_short = len(changes) < len(frame.marks)
        marks = {"changes": changes} if is_short else {"marks": dict(frame.marks)}
        data.append({**marks, "caption": frame.caption, **({"at": frame.at} if frame.at else {})})
        before = frame.marks
    return data


# --- keys ----------------------------------------------------------------------------------------


def index_in(key: Any, prefix: str, count: int) -> int | None:
    """Return the number in a key such as "dot:2", if it is below `count`; None for other keys."""
    kind, _, n = str(key).partition(":")
    return int(n) if kind == prefix and n.isdecimal() and int(n) < count else None


def both_ways(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Link each pair of keys in both directions."""
    pairs = list(pairs)
    return {a: (b,) for a, b in pairs} | {b: (a,) for a, b in pairs}


def numbered(lines: Iterable[str], prefix: str = "line") -> tuple[CodeLine, ...]:
    """Return lines of code with the keys "line:0", "line:1", ..., or with another prefix."""
    return tuple(CodeLine(text, f"{prefix}:{n}") for n, text in enumerate(lines))
