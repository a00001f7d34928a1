"""What a widget offers to be operated with, as data: controls, frames, panels of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Slider:
    """A number between low and high."""

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 1


@dataclass(frozen=True, slots=True)
class Button:
    """Something to do. tip: why one would, or why one cannot now."""

    name: str
    label: str
    enabled: bool = True
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Select:
    """One of several texts."""

    name: str
    label: str
    options: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Toggle:
    """On or off."""

    name: str
    label: str
    value: bool


@dataclass(frozen=True, slots=True)
class TextInput:
    """A text, sent when Enter is pressed or the field is left; `columns` wide."""

    name: str
    label: str
    value: str
    columns: int = 12


Control: TypeAlias = Slider | Button | Select | Toggle | TextInput


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of an animation: key -> kind of what looks different, and what happens.

    at   the key that, pointed at, shows this moment
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
    """All that stands around the picture of a widget.

    frames       played in the browser, without the kernel
    trail        the kind that stays on what an earlier frame marked, other than as "now"; "": none
    first        the number of the frame shown first
    columns      frames in a row, where they are points of a grid: arrow up and down change the row
    links        key -> the keys that light up with it
    selectable   prefix of the keys that can be selected: click, arrow keys
    draggable    may selected things be dragged onto each other (mouse, Alt+arrows)?
    beside       panels stand beside each other where there is room, not below each other
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
    """A control as the browser gets it: its fields and what it is."""
    fields = {name: getattr(control, name) for name in type(control).__slots__}
    return {"type": type(control).__name__, **fields}


def frame_data(frame: Frame) -> dict[str, Any]:
    """A frame as the browser gets it."""
    data = {"marks": dict(frame.marks), "caption": frame.caption}
    return {**data, "at": frame.at} if frame.at else data
