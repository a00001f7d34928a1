"""Layers on the accelerator as pictures: two roofs, waiting, overlap, and Amdahl's law."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from minitvm import accel

from .chart import (
    BOLD,
    END,
    LINE,
    NAMED,
    Box,
    Labels,
    Point,
    Scale,
    around,
    axis_titles,
    bottom_axis,
    label_box,
    label_shapes,
    legend,
    seconds_text,
    side_axis,
    swatch,
    text_inside,
)
from .gantt_view import appearance
from .kinds import ink
from .layers_rows import Cpu, LayerRow, NetworkPart, Units, amdahl, named_baseline, ridge
from .scene import Circle, Group, Line, Polygon, Rect, Scene, Shape, Text, clipped, text_width

WIDTH, HEIGHT = 760, 484  # pixels of the roofline
LEFT, RIGHT, TOP, BOTTOM = 64, 68, 78, 58
BAR, STEP, NAME = 22, 30, 150  # pixels: height of a bar, from bar to bar, width of its name
CURVE = 48  # points of a slanted roof
ROOF = 9  # half the width of the roof of a layer
BESIDE = (0, 14, -14, 28, -28, 42)  # pixels from an arrow's head down to its name, best first

OVERLAPS: dict[Units, tuple[str, str, str]] = {  # kind, letters, name
    (accel.Unit.LOAD,): ("pale_sky", "L", "load"),
    (accel.Unit.COMPUTE,): ("pale_orange", "C", "compute"),
    (accel.Unit.STORE,): ("pale_green", "S", "store"),
    (accel.Unit.LOAD, accel.Unit.COMPUTE): ("sky", "LC", "load and compute"),
    (accel.Unit.COMPUTE, accel.Unit.STORE): ("orange", "CS", "compute and store"),
    (accel.Unit.LOAD, accel.Unit.STORE): ("green", "LS", "load and store"),
    (accel.Unit.LOAD, accel.Unit.COMPUTE, accel.Unit.STORE): ("pink", "LCS", "all three"),
    (): ("faint", "–", "none"),
}
PARTS = ("pale_sky", "pale_pink", "pale_green", "pale_yellow", "pale_red")


# --- two roofs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plane:
    """The two scales of the chart: x in operations per byte, y as a share of the peak, 0 to 1."""

    x: Scale
    y: Scale

    def at(self, intensity: float, share: float) -> Point:
        """Return the pixel of a point."""
        return self.x.at(intensity), self.y.at(share)

    def slope(self, corner: float) -> list[Point]:
        """Return points on the bandwidth roof, from the left edge to the ridge point `corner`."""
        low = self.x.low
        intensities = [low * (corner / low) ** (n / CURVE) for n in range(CURVE + 1)]
        return [self.at(i, i / corner) for i in intensities]


def layers_roofline(rows: Sequence[LayerRow], config: accel.Config) -> Scene:
    """Draw each layer as an arrow from the baseline's utilisation to the program's.

    Above the arrows are two kinds of roofs: a common roof for the bandwidth of DRAM and the peak,
    and for each layer, on a thin stem, the utilisation that its resets and ALU operations allow.
    The arrows have the keys layer:0, layer:1, ...
    """
    corner = ridge(config)
    found = [i for r in rows for i in (r.intensity, r.baseline_intensity)]
    low, high = min(corner / 2, *found) / 1.5, max(corner * 2, *found) * 1.6
    bottom = HEIGHT - BOTTOM
    plane = Plane(Scale(low, high, LEFT, WIDTH - RIGHT, True), Scale(0, 1, bottom, TOP))
    peak = 2 * config.macs_per_cycle * config.clock_hz / 1e9
    title = f"{config.name}: {peak:.4g} GOP/s, {config.port_bytes * config.clock_hz / 1e9:.3g} GB/s"
    shapes: list[Shape] = [Text(LEFT, 22, title, bold=True)]
    shapes += _roof(plane, corner)
    shapes += _axes(plane, peak)
    shapes += _key(named_baseline(rows))
    shapes += _layers(plane, rows, config)
    about = "\n".join(
        f"{r.name}: {r.utilisation(config, False):.0%} -> {r.utilisation(config):.0%}" for r in rows
    )
    return Scene(WIDTH, HEIGHT, tuple(shapes), f"layers under two roofs, {title}", about)


def _roof(plane: Plane, corner: float) -> Iterator[Shape]:
    """Draw the common roof of bandwidth and peak, and the areas below it."""
    edge = plane.slope(corner)
    end = plane.at(plane.x.high, 1.0)
    yield Polygon((*edge, (edge[-1][0], HEIGHT - BOTTOM), (edge[0][0], HEIGHT - BOTTOM)), "seen")
    right = end[0] - edge[-1][0]
    yield Rect(edge[-1][0], end[1], right, HEIGHT - BOTTOM - end[1], "done")
    yield Line((*edge, end), "line")
    yield Text(edge[-1][0] - 8, TOP - 8, "bandwidth of DRAM", "soft", 12, "end")
    yield Text(end[0], TOP - 8, "peak", "soft", 12, "end")


def _axes(plane: Plane, peak: float) -> Iterator[Shape]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    tenths = [n / 10 for n in range(0, 11, 2)]
    yield from bottom_axis(plane.x, bottom, plane.x.powers(2), lambda v: f"{v:g}")
    yield from side_axis(plane.y, LEFT, tenths, lambda v: f"{v:.0%}")
    yield from side_axis(plane.y, right, tenths, lambda v: f"{peak * v:.3g}", 1)
    yield Line(((LEFT, TOP), (LEFT, bottom), (right, bottom), (right, TOP)), "axis")
    sides = (18, "matrix unit used"), (WIDTH - 10, "GOP/s")
    yield from axis_titles(plane.x, plane.y, "operations for each byte moved", *sides)


def _key(against: str) -> Iterator[Shape]:
    """Draw the legend."""
    y = 42
    yield Circle(LEFT + 5, y - 4, 4, "pale_blue")
    yield Line(((LEFT + 9, y - 4), (LEFT + 31, y - 4)), "blue", arrow=True)
    yield Rect(LEFT + 31, y - 7, 6, 6, "blue")
    text = f"{clipped(against, 190, 12)} → as it runs"
    yield Text(LEFT + 44, y, text, "soft", 12)
    x = LEFT + 44 + text_width(text, 12) + 24
    yield Line(((x + ROOF, y + 2), (x + ROOF, y - 8)), "stem")
    yield Rect(x, y - 10, 2 * ROOF, 3, "red")
    yield Text(x + 2 * ROOF + 7, y, "what resets and ALU operations leave", "soft", 12)


@dataclass(frozen=True, slots=True)
class Arrow:
    """The arrow from a layer's baseline to its program; its roof is at the y coordinate `roof`."""

    start: Point
    end: Point
    roof: float

    def keep_clear(self, labels: Labels) -> None:
        """Make labels avoid the arrow, its stem and its roof."""
        x, y = self.end
        labels.avoid_line(self.start, self.end, END)
        labels.avoid((x - 1, self.roof, x + 1, y), LINE)
        labels.avoid((x - ROOF, self.roof - 3, x + ROOF, self.roof + 3), END)


def _layers(plane: Plane, rows: Sequence[LayerRow], config: accel.Config) -> Iterator[Shape]:
    """Draw the arrows with their roofs, and the names."""
    arrows = [
        Arrow(
            plane.at(r.baseline_intensity, r.utilisation(config, False)),
            plane.at(r.intensity, r.utilisation(config)),
            plane.at(r.intensity, r.roof)[1],
        )
        for r in rows
    ]
    for n, (r, a) in enumerate(zip(rows, arrows, strict=True)):
        before, after = (r.utilisation(config, hiding) for hiding in (False, True))
        tip = f"{r.name}: {before:.1%} -> {after:.1%}, at most {r.bound(config):.1%}"
        yield Group(tuple(_arrow(a)), f"layer:{n}", tip)
    labels = Labels((LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM))
    for x, y in plane.slope(ridge(config)):
        labels.avoid(around(x, y, 3), LINE)
    yield from _names(rows, arrows, labels)


def _arrow(a: Arrow) -> Iterator[Shape]:
    """Draw an arrow from a disc to a square, and the roof on a thin stem."""
    x, y = a.end
    yield Line(((x, y - 3), (x, a.roof)), "stem")
    yield Circle(*a.start, 4, "pale_blue")
    if math.dist(a.start, a.end) > 9:
        part = 1 - 3 / math.dist(a.start, a.end)
        to = a.start[0] + (x - a.start[0]) * part, a.start[1] + (y - a.start[1]) * part
        yield Line((a.start, to), "blue", arrow=True)
    yield Rect(x - 3.5, y - 3.5, 7, 7, "blue")
    yield Rect(x - ROOF, a.roof - 2, 2 * ROOF, 4, "red")


def _names(rows: Sequence[LayerRow], arrows: Sequence[Arrow], labels: Labels) -> Iterator[Shape]:
    """Draw the name of each layer beside its arrow's head, and beside its roof if it fits there."""
    for a in arrows:
        a.keep_clear(labels)
    for at_head in (True, False):
        for r, a in zip(rows, arrows, strict=True):
            name = clipped(r.name, 110, 12)
            around, lines = (9, BESIDE) if at_head else (ROOF + 5, BESIDE[:1])
            x, y = a.end[0], a.end[1] if at_head else a.roof
            best = labels.best(_spots(name, x, y, around, lines))
            if at_head or not labels.cost(best):
                labels.avoid(best, NAMED)
                yield from label_shapes(best, name, "text" if at_head else "soft", at_head)


def _spots(
    name: str, x: float, y: float, aside: float, lines: Sequence[float]
) -> Iterator[tuple[Box, float]]:
    """Yield (box, penalty) candidates for a name beside (x, y), moved vertically by `lines`."""
    for dy in lines:
        for side in (1, -1):
            yield label_box(x + side * aside, y + 4 + dy, name, side), abs(dy) / 14


# --- where cycles go ------------------------------------------------------------------------------


def stall_waterfall(parts: Mapping[str, int], title: str) -> Scene:
    """Draw a bar for all cycles, then one for each part, with the keys part:0, part:1, ..."""
    total = max(1, sum(parts.values()))
    full = WIDTH - NAME - 130
    shapes: list[Shape] = [Text(12, 20, title, bold=True)]
    rows = {"all cycles": total, **parts}
    left = 0
    for n, (name, cycles) in enumerate(rows.items()):
        y = 36 + n * STEP
        kind = "faint" if n == 0 or name.startswith("nothing") else _part_kind(name)
        x, wide = NAME + full * left / total, max(1.0, full * cycles / total)
        bar = Rect(x, y, wide, BAR, kind)
        shapes.append(Text(12, y + 15, clipped(name, NAME - 20), size=13))
        shapes.append(Group((bar,), f"part:{n - 1}" if n else "", f"{name}: {cycles:,} cycles"))
        note = f"{cycles:,}" if n == 0 else f"{cycles:,}, {cycles / total:.1%}"
        shapes.append(Text(x + wide + 8, y + 15, note, "soft", 12))
        left += cycles if n else 0
        if n and n + 1 < len(rows):
            edge = NAME + full * left / total
            shapes.append(Line(((edge, y + BAR), (edge, y + STEP)), "axis"))
    about = "\n".join(f"{name}: {cycles}" for name, cycles in parts.items())
    return Scene(WIDTH, 36 + len(rows) * STEP + 6, tuple(shapes), title, about)


def _part_kind(name: str) -> str:
    """Return the kind of a bar: TokenGantt's colour for work, a hatch for waiting."""
    waits = {"waits: channel": "bind", "waits: fetch": "unroll", "waits: room": "tensorize"}
    return waits.get(name, "vectorize") if name.startswith("waits") else appearance(name)[0]


def overlap_bars(rows: Sequence[LayerRow]) -> Scene:
    """Draw which units of each layer work at the same time, and the time this saves.

    The mark on a bar is the time of the baseline. The bars have the keys layer:0, layer:1, ...
    """
    title = "which units work at the same time"
    full = WIDTH - NAME - 110
    shapes: list[Shape] = [Text(12, 20, title, bold=True)]
    for n, r in enumerate(rows):
        y, longest = 36 + n * STEP, max(r.cycles, r.baseline_cycles)
        parts = list(_overlap(r, NAME, y, full * r.cycles / longest))
        frame = Rect(NAME, y, full * r.baseline_cycles / longest, BAR, "frame")
        shapes.append(Text(12, y + 15, clipped(r.name, NAME - 20), size=13))
        mark = Rect(NAME + frame.width - 1.5, y - 4, 3, BAR + 8, "start")
        shapes.append(Group((frame, *parts, mark), f"layer:{n}"))
        shapes.append(Text(NAME + full + 8, y + 15, f"{r.speedup:.2f} times", "soft", 12))
    y = 36 + len(rows) * STEP + 14
    note = f"times as fast as {named_baseline(rows)}, whose time is the mark"
    shapes.append(Text(WIDTH - 12, y, note, "soft", 12, "end"))
    y += 28
    entries = [
        swatch(kind, name, letters, 12 + text_width(letters, 12))
        for units, (kind, letters, name) in OVERLAPS.items()
        if any(r.overlap.get(units) for r in rows)
    ]
    samples, y = legend(entries, y, WIDTH)
    about = "\n".join(f"{r.name}: {overlap_text(r)}" for r in rows)
    return Scene(WIDTH, y + 12, (*shapes, *samples), title, about)


def _overlap(r: LayerRow, x: float, y: float, wide: float) -> Iterator[Shape]:
    """Draw the parts of one bar, with letters if they fit."""
    total = max(1, sum(r.overlap.values()))
    for units, (kind, letters, name) in OVERLAPS.items():
        cycles = r.overlap.get(units, 0)
        if not cycles:
            continue
        part = wide * cycles / total
        tip = f"{r.name}: {name} {cycles:,} cycles, {cycles / total:.1%}"
        yield Rect(x, y, part, BAR, kind, tip=tip)
        yield from text_inside(letters, x, y + 15, part, ink(kind))
        x += part


def overlap_text(r: LayerRow) -> str:
    """Describe the overlap, such as "load 12%, compute 30%"; shares that round to 0 are omitted."""
    total = max(1, sum(r.overlap.values()))
    found = [(name, r.overlap.get(units, 0)) for units, (_, _, name) in OVERLAPS.items()]
    return ", ".join(f"{name} {n / total:.0%}" for name, n in found if n / total >= 0.005)


# --- Amdahl's law ---------------------------------------------------------------------------------


def amdahl_bars(works: Sequence[NetworkPart], cpu: Cpu) -> Scene:
    """Draw a network's time on the CPU, with the accelerator, and with an infinitely fast one."""
    result = amdahl(tuple(works), cpu)
    title = f"{cpu.name}, {cpu.gflops:.3g} GFLOP/s: {result.speedup:.3g} times as fast as alone"
    shapes: list[Shape] = [Text(12, 20, clipped(title, WIDTH - 24, 13 * BOLD), bold=True)]
    totals = [("CPU alone", result.alone), ("with accelerator", result.together)]
    if result.limit:
        totals.append(("infinitely fast one", result.limit))
    texts = [seconds_text(result.alone)]
    texts += [f"{seconds_text(s)}, {result.alone / s:.3g} times" for _, s in totals[1:]]
    rows = list(zip(totals, texts, strict=True))
    room = WIDTH - NAME - 20 - len(works)  # a part is at least a pixel wide
    scale = min((room - text_width(text, 12)) / total for (_, total), text in rows)
    for n, ((name, _), text) in enumerate(rows):
        y = 36 + n * (STEP + 6)
        shapes.append(Text(12, y + 18, name))
        parts, x = _stack(works, cpu, n, y, scale)
        shapes += [*parts, Text(x + 8, y + 18, text, "soft", 12)]
    y = 36 + len(totals) * (STEP + 6) + 14
    samples, y = legend(
        (
            swatch(PARTS[n % len(PARTS)], clipped(work.name, 200, 12), key=f"work:{n}")
            for n, work in enumerate(works)
        ),
        y,
        WIDTH,
    )
    shapes += samples
    y += 26
    note = "hatched: on the accelerator; what stays on the CPU limits the whole (Amdahl's law)"
    shapes.append(Text(12, y, note, "soft", 12))
    return Scene(WIDTH, y + 12, tuple(shapes), title, note)


def _stack(
    works: Sequence[NetworkPart], cpu: Cpu, bar: int, y: float, scale: float
) -> tuple[list[Shape], float]:
    """Draw bar 0 (CPU alone), 1 (with accelerator) or 2 (limit); return shapes and right end."""
    shapes: list[Shape] = []
    x = float(NAME)
    for n, work in enumerate(works):
        seconds, kind = work.operations / cpu.gflops / 1e9, PARTS[n % len(PARTS)]
        if bar and work.seconds is not None:
            seconds, kind = (work.seconds if bar == 1 else 0.0), "bind"
        if not seconds:
            continue
        wide = max(1.0, seconds * scale)
        shapes.append(
            Rect(x, y, wide, STEP - 2, kind, f"work:{n}", f"{work.name}: {seconds_text(seconds)}")
        )
        shapes += text_inside(work.name, x, y + 18, wide, ink(kind))
        x += wide
    return shapes, x
