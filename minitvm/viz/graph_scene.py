"""Draw a part of a network: a box for each call, a line for each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from minitvm import graph

from .boxes import Box
from .chart import BOLD
from .graph_rows import Drawn, Slot, label
from .kinds import ink
from .scene import Group, Line, Polygon, Rect, Shape, Text, clipped
from .svg import arrow_head

LINE, SIZE = 15, 12  # pixels: from line to line in a box, and the size of the text
GAP, BETWEEN = 10, 22  # pixels between boxes in a row, and between rows
WIDEST, PASSING = 190, 12  # pixels: the widest box, and the width of a slot with only a line
EDGE = 4  # pixels around the text of a box

Point = tuple[float, float]


def height_of(slot: Slot) -> float:
    """Return the height of a slot in pixels; 0 if it contains only a line."""
    return 0 if slot.passing else LINE * len(slot.lines) + 2 * EDGE


def part(net: Drawn, first: int, height: float) -> range:
    """Return the range of rows from `first` on that fit in `height` pixels, at least one row.

    If all rows from `first` on fit, earlier rows are added while they fit.
    """
    last, used = first, 0.0
    tall = [max(map(height_of, row), default=0) + BETWEEN for row in net.rows]
    while last < len(tall) and (last == first or used + tall[last] <= height):
        used += tall[last]
        last += 1
    while last == len(tall) and first > 0 and used + tall[first - 1] <= height:
        first -= 1
        used += tall[first]
    return range(first, last)


def network(
    net: Drawn, rows: range, width: float, marks: Mapping[graph.Node, str], side: str,
    outputs: Set[graph.Node], cut: Set[tuple[graph.Node, graph.Node]] = frozenset(),
) -> Box:  # fmt: skip
    """Draw some rows of a network.

    marks     a node that changed -> the kind of its box
    side      the prefix of the keys: net.nodes[3] has the key "before:3" if side is "before"
    cut       (source, reader) of the lines that are dashed and red
    """
    number = {node: n for n, node in enumerate(net.nodes)}
    tall = [max(map(height_of, net.rows[n]), default=0) for n in rows]

    def draw(left: float, top: float) -> Iterator[Shape]:
        ends: dict[Slot, tuple[Point, Point]] = {}
        boxes: list[Shape] = []
        y = top + BETWEEN
        for n, high in zip(rows, tall, strict=True):
            for slot, x, wide in _across(net.rows[n], left, width):
                middle, box = x + wide / 2, height_of(slot)
                ends[slot] = ((middle, y), (middle, y + (high if slot.passing else box)))
                if not slot.passing:
                    kind = marks.get(slot.node, "memory" if slot.node.is_leaf else "pale_sky")
                    key = f"{side}:{number[slot.node]}"
                    boxes.append(_box(slot, x, y, wide, kind, key, slot.node in outputs))
            y += high + BETWEEN
        yield from _lines(net, ends, cut)
        yield from boxes

    return Box(width, BETWEEN + sum(tall) + BETWEEN * len(tall), draw)


def _across(row: Iterable[Slot], left: float, width: float) -> list[tuple[Slot, float, float]]:
    """Return the slots of a row with their left edges and widths, centred."""
    slots = list(row)
    boxes = sum(not slot.passing for slot in slots)
    free = width - (len(slots) - 1) * GAP - (len(slots) - boxes) * PASSING
    wide = min(WIDEST, free / max(1, boxes))
    sizes = [PASSING if slot.passing else wide for slot in slots]
    x = left + (width - sum(sizes) - (len(slots) - 1) * GAP) / 2
    positioned: list[tuple[Slot, float, float]] = []
    for slot, size in zip(slots, sizes, strict=True):
        positioned.append((slot, x, size))
        x += size + GAP
    return positioned


def _box(
    slot: Slot, x: float, y: float, wide: float, kind: str, key: str, is_output: bool
) -> Group:
    """Draw the box of an input or a call; the box of a kernel contains a box for each operator."""
    node, lines = slot.node, slot.lines
    sign = {"pale_green": "+ ", "pale_red": "- "}.get(kind, "")
    tall = LINE * len(lines) + 2 * EDGE
    several = len(graph.operators_of(node)) > 1
    heads = len(lines) - 1 - bool(slot.note)  # lines that name an operator or an input
    shapes: list[Shape] = [Rect(x, y, wide, tall, kind, radius=0 if several else 4)]
    for n, text in enumerate(lines):
        is_inner = several and n < heads
        if is_inner:
            area = x + EDGE, y + EDGE + n * LINE + 1, wide - 2 * EDGE, LINE - 2
            shapes.append(Rect(*area, "paper", radius=3))
        bold = n < heads and not is_inner
        free = wide - 2 * EDGE if not bold else (wide - 2 * EDGE) / BOLD
        shown = clipped((sign if n == 0 else "") + text, free, SIZE)
        look = "text" if is_inner else ink(kind)
        at = y + EDGE + n * LINE + 12
        shapes.append(Text(x + wide / 2, at, shown, look, SIZE, "middle", bold=bold))
    if is_output:
        shapes.append(Line(((x, y + tall + 3), (x + wide, y + tall + 3)), "line"))
    traffic_text = f"{graph.bytes_moved(node) / 1e3:,.1f} kB moved" if not node.is_leaf else ""
    tip = "\n".join(filter(None, [node.name, label(node), traffic_text, "output" * is_output]))
    return Group(tuple(shapes), key, tip)


def _lines(
    net: Drawn, ends: Mapping[Slot, tuple[Point, Point]], cut: Set[tuple[graph.Node, graph.Node]]
) -> list[Shape]:
    """Draw a line for each tensor; short dashed lines lead to rows that are not shown."""
    lines: list[Shape] = []
    heads: list[Shape] = []  # drawn last, because lines would cover them
    for a, b in net.lines:
        if a in ends and b in ends:
            way = ends[a][1], ends[b][0]
            lines.append(Line(way, "removed" if (a.node, b.node) in cut else "arrow"))
            if not b.passing:
                heads.append(Polygon(arrow_head(way), "start"))
        elif b in ends:
            x, y = ends[b][0]
            lines.append(Line(((x, y - BETWEEN + 3), (x, y)), "dashed"))
        elif a in ends:
            x, y = ends[a][1]
            lines.append(Line(((x, y), (x, y + BETWEEN - 3)), "dashed"))
    lines += [Line(way, "arrow") for slot, way in ends.items() if slot.passing]
    return [*lines, *heads]
