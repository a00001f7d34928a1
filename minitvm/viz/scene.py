"""A picture is data: a scene of shapes. The functions `svg` and `png` draw it alike.

Coordinates are pixels, x to the right, y downwards. Every shape may carry

    kind   how it looks: a name from KINDS
    key    the name by which widgets, links and frames find the shape; data-key in the SVG
    tip    the text shown when the mouse rests on the shape
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import TypeAlias

from minitvm.base import ArgumentError

from .kinds import KINDS, ink

SMALLEST = 12  # pixels: smaller text is hard to read


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle with its upper left corner at (x, y); `radius` rounds its corners."""

    x: float
    y: float
    width: float
    height: float
    kind: str = ""
    key: str = ""
    tip: str = ""
    radius: float = 0


@dataclass(frozen=True, slots=True)
class Circle:
    """A disc with its centre at (x, y)."""

    x: float
    y: float
    radius: float
    kind: str = ""
    key: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """An open line through points, perhaps with an arrow head at its end."""

    points: tuple[tuple[float, float], ...]
    kind: str = "line"
    key: str = ""
    tip: str = ""
    arrow: bool = False


@dataclass(frozen=True, slots=True)
class Polygon:
    """A closed, filled outline."""

    points: tuple[tuple[float, float], ...]
    kind: str = ""
    key: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; (x, y) is the start, middle or end of its base line, as `anchor` says.

    size   in pixels, at least 12
    mono   whether the font has a fixed width, as for code
    turn   degrees clockwise, 0 or -90
    """

    x: float
    y: float
    text: str
    kind: str = "text"
    size: float = 13
    anchor: str = "start"
    bold: bool = False
    mono: bool = False
    turn: int = 0
    key: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Shapes with a common key: they are marked, selected and dragged together."""

    shapes: tuple[Shape, ...]
    key: str = ""
    tip: str = ""


Shape: TypeAlias = Rect | Circle | Line | Polygon | Text | Group


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture; screen readers read out its `title` and `description`."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    title: str
    description: str = ""

    def __post_init__(self) -> None:
        """Raise ArgumentError for a kind that is not in KINDS, or for text too small to read."""
        for s in walk_shapes(self.shapes):
            if not isinstance(s, Group) and s.kind not in KINDS:
                known = ", ".join(k for k in KINDS if k)
                raise ArgumentError(f"kind {s.kind!r}", "no such kind of shape", f"one of {known}")
            if isinstance(s, Text) and s.size < SMALLEST:
                why = f"text must be at least {SMALLEST} pixels high"
                raise ArgumentError(f"text {s.text!r} of size {s.size}", why, f"size={SMALLEST}")


def walk_shapes(shapes: Iterable[Shape]) -> Iterator[Shape]:
    """Yield every shape in drawing order, a group before its contents."""
    for s in shapes:
        yield s
        if isinstance(s, Group):
            yield from walk_shapes(s.shapes)


def kinds_in(scene: Scene) -> set[str]:
    """Return the kinds of all shapes of a scene."""
    return {s.kind for s in walk_shapes(scene.shapes) if not isinstance(s, Group)}


def keys_of(scene: Scene) -> list[str]:
    """Return all keys of a scene in drawing order, once each."""
    return list(dict.fromkeys(s.key for s in walk_shapes(scene.shapes) if s.key))


def marked(scene: Scene, marks: Mapping[str, str]) -> Scene:
    """Return the scene as a frame shows it: a shape with a key in `marks` gets kind marks[key].

    Shapes that stay hidden are left out.
    """
    return replace(scene, shapes=tuple(_marked(scene.shapes, marks, "")))


def _marked(every: Iterable[Shape], marks: Mapping[str, str], around: str) -> Iterator[Shape]:
    for s in every:
        kind = marks.get(s.key, around) if s.key else around
        match s:
            case Group(inside):
                if shapes := tuple(_marked(inside, marks, kind)):
                    yield replace(s, shapes=shapes)
                continue
            case Text():
                kind = ink(kind) if kind and s.kind == "hidden" else s.kind
            case Line():
                kind = marks.get(s.key, s.kind) if s.key else s.kind
            case _:
                kind = kind or s.kind
        if kind != "hidden":
            yield replace(s, kind=kind)


def shifted(shape: Shape, dx: float, dy: float) -> Shape:
    """Return the shape moved by (dx, dy)."""
    match shape:
        case Group(shapes):
            return replace(shape, shapes=tuple(shifted(s, dx, dy) for s in shapes))
        case Line(points) | Polygon(points):
            return replace(shape, points=tuple((x + dx, y + dy) for x, y in points))
        case _:
            return replace(shape, x=shape.x + dx, y=shape.y + dy)


def text_width(text: str, size: float = 13, mono: bool = False) -> float:
    """Return the width of text in pixels: exact for `mono`, otherwise an upper estimate."""
    return len(text) * size * (0.602 if mono else 0.58)


def clipped(text: str, width: float, size: float = 13, mono: bool = False) -> str:
    """Return the text, shortened to fit `width` pixels and ending in … if it is too wide."""
    room = int(width / text_width("m", size, mono))
    return text if len(text) <= room else text[: max(0, room - 1)] + "…"


def wrapped(text: str, width: float, size: float = 13) -> list[str]:
    """Return the text in lines of at most `width` pixels, broken between words."""
    room = max(1, int(width / text_width("m", size)))
    return [part for line in text.splitlines() for part in wrap(line, room)]


def folded_code(text: str, width: float, most: int, size: float = 12) -> list[str]:
    """Fold a line of code into at most `most` lines of `width` pixels, indenting all but the first.

    Lines are broken between words where possible; … stands for text that does not fit.
    """
    room = max(4, int(width / text_width("m", size, mono=True)))
    mark = re.match(r"[-+]?\s*", text)
    mark_end = mark.end() if mark else 0
    indent = " " * min(mark_end + 4, room // 2)
    return wrap(
        text,
        room,
        subsequent_indent=indent,
        max_lines=most,
        placeholder="…",
        break_on_hyphens=False,
    )


def hatch_lines(
    x: float, y: float, width: float, height: float, hatch: str, gap: float = 7
) -> list[tuple[float, float, float, float]]:
    """Return the strokes (x1, y1, x2, y2) of a hatch in a rectangle, `gap` pixels apart."""
    if not hatch:
        return []
    if hatch == "x":
        return [
            line for direction in "/\\" for line in hatch_lines(x, y, width, height, direction, gap)
        ]
    if hatch == "-":
        rows = range(1, int((height - 1) / gap) + 1)
        return [(x, y + r * gap, x + width, y + r * gap) for r in rows]
    if hatch == "|":
        columns = range(1, int((width - 1) / gap) + 1)
        return [(x + c * gap, y, x + c * gap, y + height) for c in columns]
    strokes: list[tuple[float, float, float, float]] = []
    for n in range(1, int((width + height) / gap) + 1):
        d = n * gap  # the stroke runs from (d, 0) down to the left, to (0, d)
        x1, y1 = min(d, width), max(0.0, d - width)
        x2, y2 = max(0.0, d - height), min(d, height)
        if hatch == "\\":
            x1, x2 = width - x1, width - x2
        strokes.append((x + x1, y + y1, x + x2, y + y2))
    return strokes
