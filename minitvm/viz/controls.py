"""The controls, frames and panels around a picture, as data; a control checks what it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from minitvm.base import ArgumentError, check_flag


@dataclass(frozen=True, slots=True)
class Slider:
    """A number between low and high."""

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 1

    def accept(self, value: Any) -> float:
        """Return `value` as a position of the slider; raise ArgumentError if it is not one."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not self.low <= value <= self.high:
            span = f"it goes from {self.low:g} to {self.high:g}"
            raise ArgumentError(f"{self.name} {value!r}", span, f"{self.low:g}")
        return int(value) if isinstance(self.step, int) else float(value)


@dataclass(frozen=True, slots=True)
class Button:
    """An action. tip: what it does, or why it is disabled."""

    name: str
    label: str
    enabled: bool = True
    tip: str = ""

    def accept(self, value: Any) -> None:
        """Ignore the value: a button has none."""


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
            raise ArgumentError(
                f"{self.name} {value!r}",
                f"no such {self.name}",
                f"one of {', '.join(self.options)}",
            )
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
    """One step of an animation: the kinds of marked keys, and a caption.

    at   pointing at this key shows the frame
    """

    marks: Mapping[str, str]
    caption: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of a panel. note: "", "now", "later" (not reached yet), "added" or "removed"."""

    text: str
    key: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """Text beside the picture, monospaced."""

    title: str
    lines: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything around the picture of a widget.

    frames       played in the browser, without the kernel
    trail        the kind that keys keep after an earlier frame marked them, except as "now";
                 "" for none
    first        the index of the frame shown first
    columns      frames per row if the frames form a grid: the up and down arrows change the row
    links        key -> the keys that light up with it
    selectable   the prefix of the keys that a click or the arrow keys can select
    draggable    whether selected things can be dragged onto each other (mouse, Alt+arrows)
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
    """Return the type and the fields of a control as the browser gets them."""
    fields = {name: getattr(control, name) for name in type(control).__slots__}
    return {"type": type(control).__name__, **fields}


def frame_data(frame: Frame) -> dict[str, Any]:
    """Return a frame as the browser gets it."""
    data = {"marks": dict(frame.marks), "caption": frame.caption}
    return {**data, "at": frame.at} if frame.at else data


# --- keys ----------------------------------------------------------------------------------------


def index_in(key: Any, prefix: str, count: int) -> int | None:
    """Return 2 for the key "dot:2" and the prefix "dot"; None for other keys and past `count`."""
    kind, _, n = str(key).partition(":")
    return int(n) if kind == prefix and n.isdecimal() and int(n) < count else None


def both_ways(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Link each pair of keys in both directions."""
    found = list(pairs)
    return {a: (b,) for a, b in found} | {b: (a,) for a, b in found}


def numbered(lines: Iterable[str], prefix: str = "line") -> tuple[CodeLine, ...]:
    """Return lines of code with the keys "line:0", "line:1", ..."""
    return tuple(CodeLine(text, f"{prefix}:{n}") for n, text in enumerate(lines))
