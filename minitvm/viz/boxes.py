"""Boxes arrange a picture: rows, columns, tables and text. Only plot.py computes other positions.

    picture(column(
        spread(text("title", bold=True), text("status", "soft", anchor="end"), 800),
        row(framed(text("a"), "serial", key="a"), framed(text("b"), "reduce", key="b")),
        legend({"serial": "a loop", "blue line": "the best so far"}, 800),
    ), "title for screen readers")

A box knows its size and draws itself anywhere. `None` in a row or a column is left out, so a part
that is only sometimes there reads `text(note) if note else None`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from . import scene
from .chart import BOLD
from .controls import CodeLine
from .kinds import ink

MARGIN, SIZE = 10, 12  # pixels around a picture; usual size of text
Anchor: TypeAlias = Literal["start", "middle", "end"]
SHARES: Mapping[str, float] = {"start": 0.0, "middle": 0.5, "end": 1.0}


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a picture: its size in pixels, and how to draw it with its corner at (x, y)."""

    width: float
    height: float
    draw: Callable[[float, float], Iterator[scene.Shape]]


def picture(box: Box, title: str, about: str = "") -> scene.Scene:
    """Return the scene of a box with a margin around it."""
    size = box.width + 2 * MARGIN, box.height + 2 * MARGIN
    return scene.Scene(*size, tuple(box.draw(MARGIN, MARGIN)), title, about)


# --- arranging -----------------------------------------------------------------------------------


def over(*parts: tuple[Box, float, float]) -> Box:
    """Draw boxes over each other, each at its (x, y)."""

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        for box, dx, dy in parts:
            yield from box.draw(x + dx, y + dy)

    width = max((dx + box.width for box, dx, _ in parts), default=0.0)
    return Box(width, max((dy + box.height for box, _, dy in parts), default=0.0), draw)


def column(*parts: Box | None, gap: float = 8) -> Box:
    """Put boxes below each other."""
    y, positioned = 0.0, list[tuple[Box, float, float]]()
    for box in filter(None, parts):
        positioned.append((box, 0.0, y))
        y += box.height + gap
    return over(*positioned)


def row(*parts: Box | None, gap: float = 8, down: float = 0) -> Box:
    """Put boxes beside each other; `down` is 0 for top, 0.5 for centred, 1 for bottom."""
    boxes = [box for box in parts if box]
    x, positioned = 0.0, list[tuple[Box, float, float]]()
    tall = max((b.height for b in boxes), default=0.0)
    for box in boxes:
        positioned.append((box, x, (tall - box.height) * down))
        x += box.width + gap
    return over(*positioned)


def flow(boxes: Iterable[Box], width: float, gap: float = 18, between: float = 7) -> Box:
    """Put boxes beside each other like words, in as many rows as `width` requires."""
    rows, used = [list[Box]()], 0.0
    for box in boxes:
        if rows[-1] and used + box.width > width:
            rows.append([])
            used = 0.0
        rows[-1].append(box)
        used += box.width + gap
    return column(*(row(*r, gap=gap) for r in rows), gap=between)


def aligned(lines: Sequence[Sequence[Box]], across: Sequence[float], gap: float = 16) -> list[Box]:
    """Return the lines of a table: a column is as wide as its widest box.

    across   for each column, where boxes stand in it: 0 for left, 0.5 for centred, 1 for right
    """
    widths = [max(box.width for box in boxes) for boxes in zip(*lines, strict=True)]
    return [
        row(*(sized(b, w, across=a) for b, w, a in zip(line, widths, across, strict=True)), gap=gap)
        for line in lines
    ]


def spread(left: Box, right: Box, width: float) -> Box:
    """Put two boxes at both ends of a line."""
    return row(left, sized(right, width - left.width, across=1), gap=0)


def sized(
    box: Box, width: float = 0, height: float = 0, *, across: float = 0, down: float = 0
) -> Box:
    """Return a box that is at least `width` by `height`; `across`, `down` place what is inside."""
    wide, tall = max(width, box.width), max(height, box.height)
    dx, dy = (wide - box.width) * across, (tall - box.height) * down
    return Box(wide, tall, lambda x, y: box.draw(x + dx, y + dy))


def padded(box: Box, around: float) -> Box:
    """Return a box with empty space around it."""
    size = box.width + 2 * around, box.height + 2 * around
    return Box(*size, lambda x, y: box.draw(x + around, y + around))


def indented(box: Box, left: float) -> Box:
    """Return a box with empty space on its left."""
    return Box(left + box.width, box.height, lambda x, y: box.draw(x + left, y))


def framed(
    box: Box,
    kind: str,
    key: str = "",
    tip: str = "",
    *,
    inset: float = 4,
    radius: float = 4,
    width: float = 0,
) -> Box:
    """Return a box on a rectangle of `kind` that is at least `width` wide."""
    content = padded(sized(box, width - 2 * inset), inset)

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        ground = scene.Rect(x, y, content.width, content.height, kind, radius=radius)
        yield scene.Group((ground, *content.draw(x, y)), key, tip)

    return replace(content, draw=draw)


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow between two framed boxes, found by their keys, with text above its end."""

    start: str
    end: str
    text: str = ""
    tip: str = ""


def connected(box: Box, edges: Iterable[Edge], bend: float = 0) -> Box:
    """Draw arrows from the right of framed boxes to the left of others, below the boxes.

    An arrow to a box that is not level leaves `bend` pixels after its start.
    """
    edges = tuple(edges)

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        shapes = tuple(box.draw(x, y))
        frames = {
            s.key: s.shapes[0] for s in scene.walk_shapes(shapes) if isinstance(s, scene.Group)
        }
        for edge in edges:
            a, b = frames[edge.start], frames[edge.end]
            if isinstance(a, scene.Rect) and isinstance(b, scene.Rect):
                yield from _arrow(edge, a, b, bend)
        yield from shapes

    return replace(box, draw=draw)


def _arrow(edge: Edge, a: scene.Rect, b: scene.Rect, bend: float) -> Iterator[scene.Shape]:
    left, right = (a.x + a.width, a.y + a.height / 2), (b.x, b.y + b.height / 2)
    turn = left[0] + bend
    corners = ((turn, left[1]), (turn, right[1])) if left[1] != right[1] else ()
    yield scene.Line((left, *corners, right), "arrow", arrow=True)
    if edge.text:
        words = scene.clipped(edge.text, right[0] - turn - 6, SIZE)
        middle = (turn + right[0]) / 2, right[1] - 5
        yield scene.Text(*middle, words, "soft", SIZE, "middle", tip=edge.tip)


# --- text ----------------------------------------------------------------------------------------


def text(
    words: str,
    kind: str = "text",
    size: float = SIZE,
    *,
    bold: bool = False,
    mono: bool = False,
    width: float = 0,
    anchor: Anchor = "start",
    tip: str = "",
) -> Box:
    """Return a line of text, cut to `width` pixels if given; the whole text is then its tip.

    anchor   the point of the box at which the text is held, whatever font a browser has. The box
             is as wide as the widest usual font needs; except with "start", at least `width`.
    """
    bolder = BOLD if bold and not mono else 1
    shown = scene.clipped(words, width / bolder, size, mono) if width else words
    wide = scene.text_width(shown, size, mono) * bolder
    wide = wide if anchor == "start" else max(width, wide)
    tip = tip or (words.strip() if shown != words else "")

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        at = x + wide * SHARES[anchor], y + round(size * 0.95)
        yield scene.Text(*at, shown, kind, size, anchor, bold=bold, mono=mono, tip=tip)

    return Box(wide, round(size * 1.25), draw)


def paragraph(
    words: str, width: float, kind: str = "text", size: float = SIZE, *, bold: bool = False
) -> Box | None:
    """Return text in lines of at most `width` pixels; None for no text."""
    lines = scene.wrapped(words, width / (BOLD if bold else 1), size)
    return column(*(text(line, kind, size, bold=bold) for line in lines), gap=1) if lines else None


MAX_PARTS = 4  # most lines for a long line of code
GROUNDS = {"removed": "pale_red", "added": "pale_green"}


def code(lines: Iterable[CodeLine], width: float) -> Box:
    """Return lines of code; long ones are folded, removed and added ones have a ground."""
    return column(*(_code_line(line, width) for line in lines), gap=1)


def _code_line(line: CodeLine, width: float) -> Box:
    parts = scene.folded_code(line.text, width - 8, MAX_PARTS) or [""]
    tip = line.text.strip() if parts[-1].endswith("…") else ""
    ground = GROUNDS.get(line.note)
    kind = ink(ground) if ground else "soft" if line.note == "later" else "text"
    words = column(*(text(part, kind, mono=True, tip=tip) for part in parts), gap=1)
    box = indented(words, 4)
    return framed(box, ground, inset=0, radius=0, width=width) if ground else box


# --- shapes --------------------------------------------------------------------------------------


def drawn(shapes: Iterable[scene.Shape], width: float, height: float) -> Box:
    """Return a box of shapes that were placed by hand, within (0, 0) .. (width, height)."""
    shapes = tuple(shapes)
    return Box(width, height, lambda x, y: (scene.shifted(s, x, y) for s in shapes))


def block(kind: str, width: float, height: float) -> Box:
    """Return a rectangle; without a width, none is drawn."""

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        if width:
            yield scene.Rect(x, y, width, height, kind)

    return Box(width, height, draw)


def cells(
    places: Iterable[tuple[int, int, str, str]], width: float, height: float, gap: float = 0
) -> Box:
    """Return a grid of cells, each given by its row, column, key and tip, `gap` pixels apart."""
    places = tuple(places)

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        for n, m, key, tip in places:
            at = x + m * width, y + n * height
            yield scene.Rect(*at, width - gap, height - gap, "cell", key, tip)

    columns = 1 + max((m for _, m, _, _ in places), default=-1)
    return Box(columns * width, (1 + max((n for n, *_ in places), default=-1)) * height, draw)


# --- samples and legends -------------------------------------------------------------------------


CORNERS: Mapping[str, tuple[tuple[float, float], ...]] = {  # of points, in units of the radius
    "triangle": ((0, -1.3), (-1, 1), (1, 1)),
    "rhombus": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "wedge": ((0, 1.3), (-1, -1), (1, -1)),
}
FORMS = {  # the width and height of a sample
    "box": (18, 15),
    "bar": (6, 15),
    "square": (8, 8),
    "dash": (18, 4),
    "ring": (12, 12),
    "line": (26, 0),
    "arrow": (26, 0),
    **dict.fromkeys((*CORNERS, "disc", "dot"), (9, 9)),
}


def icon(kind: str, form: str = "box", letters: str = "", key: str = "") -> Box:
    """Return a sample of a kind, of a form in FORMS; a box may contain letters."""
    width, height = FORMS[form]
    width = max(width, scene.text_width(letters, SIZE) + 6 if letters else 0)

    def draw(x: float, y: float) -> Iterator[scene.Shape]:
        if form in ("disc", "dot", "ring"):
            yield scene.Circle(x + width / 2, y + height / 2, width / 2, kind, key)
        elif form in CORNERS:
            yield outline(form, x + width / 2, y + height / 2, width / 3, kind, key)
        elif form in ("line", "arrow"):
            yield scene.Line(((x, y), (x + width, y)), kind, key, arrow=form == "arrow")
        else:
            yield scene.Rect(x, y, width, height, kind, key)
        if letters:
            yield scene.Text(x + width / 2, y + 12, letters, ink(kind), SIZE, "middle")

    return sized(Box(width, height, draw), 0, 15, down=0.5)


def outline(
    form: str, x: float, y: float, radius: float, kind: str, key: str = "", tip: str = ""
) -> scene.Polygon:
    """Draw a point of a form in CORNERS, with its centre at (x, y)."""
    corners = tuple((x + radius * a, y + radius * b) for a, b in CORNERS[form])
    return scene.Polygon(corners, kind, key, tip)


def legend(entries: Mapping[str, str], width: float) -> Box:
    """Return a legend of {"kind form letters": text}; form is box (default), dot, line, ..."""
    samples = (icon(*look.split()) for look in entries)
    return flow(
        (row(s, text(words), gap=6) for s, words in zip(samples, entries.values(), strict=True)),
        width,
    )
