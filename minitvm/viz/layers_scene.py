"""Layers on the accelerator as pictures: two roofs, waiting, overlap, and Amdahl's law."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from minitvm.accel import Config, Unit

from .gantt_view import appearance
from .kinds import ink
from .layers_rows import Cpu, LayerRow, Units, Work, amdahl, named_baseline, ridge
from .scene import Circle, Group, Line, Polygon, Rect, Scene, Shape, Text, clipped, text_width

WIDTH, HEIGHT = 760, 484  # pixels of the roofline
LEFT, RIGHT, TOP, BOTTOM = 64, 68, 78, 58
BAR, STEP, NAME = 22, 30, 150  # a bar's height, from one to the next, the width of its name
BOLD = 1.12  # times the width of plain text
CURVE = 48  # points of a slanted roof
ROOF = 9  # half the width of a layer's own roof
BESIDE = (0, 14, -14, 28, -28, 42)  # pixels below a head, the best places for a name first
LINE, END, NAMED, OUTSIDE = 1, 4, 32, 64  # how bad it is when a name covers one
Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
Taken = tuple[Box, float]  # and how bad it is to cover it

OVERLAPS: dict[Units, tuple[str, str, str]] = {  # kind, letters, name
    (Unit.LOAD,): ("pale_sky", "L", "load"),
    (Unit.COMPUTE,): ("pale_orange", "C", "compute"),
    (Unit.STORE,): ("pale_green", "S", "store"),
    (Unit.LOAD, Unit.COMPUTE): ("sky", "LC", "load and compute"),
    (Unit.COMPUTE, Unit.STORE): ("orange", "CS", "compute and store"),
    (Unit.LOAD, Unit.STORE): ("green", "LS", "load and store"),
    (Unit.LOAD, Unit.COMPUTE, Unit.STORE): ("pink", "LCS", "all three"),
    (): ("faint", "–", "none"),
}
PARTS = ("pale_sky", "pale_pink", "pale_green", "pale_yellow", "pale_red")


# --- two roofs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plane:
    """The axes: operations a byte, logarithmic, within `x`; the share of the peak, 0 to 1."""

    x: tuple[float, float]

    def at(self, intensity: float, share: float) -> tuple[float, float]:
        """The pixel of a point."""
        low, high = self.x
        across = math.log(intensity / low) / math.log(high / low)
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM),
        )


def layers_roofline(rows: Sequence[LayerRow], config: Config) -> Scene:
    """Each layer as an arrow from the utilisation of its baseline to that of its program.

    Above it are two roofs: the bandwidth of DRAM, and on a thin stem what the compute unit's own
    resets and ALU operations leave. Keys are layer:0, ...
    """
    corner = ridge(config)
    found = [i for r in rows for i in (r.intensity, r.baseline_intensity)]
    plane = Plane((min(corner / 2, *found) / 1.5, max(corner * 2, *found) * 1.6))
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
    """The area below the roof of the bandwidth, and its edge."""
    low, high = plane.x
    slope = [low * (corner / low) ** (n / CURVE) for n in range(CURVE + 1)]
    edge = [plane.at(i, i / corner) for i in slope]
    end = plane.at(high, 1.0)
    yield Polygon((*edge, (edge[-1][0], HEIGHT - BOTTOM), (edge[0][0], HEIGHT - BOTTOM)), "seen")
    right = end[0] - edge[-1][0]
    yield Rect(edge[-1][0], end[1], right, HEIGHT - BOTTOM - end[1], "done")
    yield Line((*edge, end), "line")
    yield Text(edge[-1][0] - 8, TOP - 8, "bandwidth of DRAM", "soft", 12, "end")
    yield Text(end[0], TOP - 8, "peak", "soft", 12, "end")


def _axes(plane: Plane, peak: float) -> Iterator[Shape]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for power in range(math.ceil(math.log2(plane.x[0])), math.floor(math.log2(plane.x[1])) + 1):
        x, _ = plane.at(2.0**power, 0)
        yield Line(((x, bottom), (x, bottom + 5)), "axis")
        yield Text(x, bottom + 19, f"{2.0**power:g}", size=12, anchor="middle")
    for tenth in range(0, 11, 2):
        _, y = plane.at(plane.x[0], tenth / 10)
        yield Line(((LEFT - 5, y), (LEFT, y)), "axis")
        yield Line(((right, y), (right + 5, y)), "axis")
        yield Text(LEFT - 9, y + 4, f"{tenth * 10}%", size=12, anchor="end")
        yield Text(right + 9, y + 4, f"{peak * tenth / 10:.3g}", size=12)
    yield Line(((LEFT, TOP), (LEFT, bottom), (right, bottom), (right, TOP)), "axis")
    middle = (LEFT + right) / 2
    yield Text(middle, HEIGHT - 16, "operations for each byte moved", size=12, anchor="middle")
    up = (TOP + bottom) / 2
    yield Text(18, up, "matrix unit used", size=12, anchor="middle", turn=-90)
    yield Text(WIDTH - 10, up, "GOP/s", size=12, anchor="middle", turn=-90)


def _key(against: str) -> Iterator[Shape]:
    """What dots, heads and bars are."""
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
    """Where a layer is drawn: its baseline, its program, and the roof of its own above that."""

    start: Point
    end: Point
    roof: float

    def covers(self) -> Iterator[Taken]:
        """What no name should stand on, in small pieces."""
        (x0, y0), (x1, y1) = self.start, self.end
        pieces = 1 + int(math.dist(self.start, self.end) / 8)
        for n in range(pieces + 1):
            x, y = x0 + (x1 - x0) * n / pieces, y0 + (y1 - y0) * n / pieces
            yield (x - 4, y - 4, x + 4, y + 4), LINE if 0 < n < pieces else END
        yield (x1 - 1, self.roof, x1 + 1, y1), LINE
        yield (x1 - ROOF, self.roof - 3, x1 + ROOF, self.roof + 3), END


def _layers(plane: Plane, rows: Sequence[LayerRow], config: Config) -> Iterator[Shape]:
    """The arrows, the roofs of their own, and names where there is room."""
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
    yield from _names(rows, arrows, _borders(plane, ridge(config)))


def _arrow(a: Arrow) -> Iterator[Shape]:
    """From a disc to a square, and on a thin stem the roof."""
    x, y = a.end
    yield Line(((x, y - 3), (x, a.roof)), "stem")
    yield Circle(*a.start, 4, "pale_blue")
    if math.dist(a.start, a.end) > 9:
        part = 1 - 3 / math.dist(a.start, a.end)
        to = a.start[0] + (x - a.start[0]) * part, a.start[1] + (y - a.start[1]) * part
        yield Line((a.start, to), "blue", arrow=True)
    yield Rect(x - 3.5, y - 3.5, 7, 7, "blue")
    yield Rect(x - ROOF, a.roof - 2, 2 * ROOF, 4, "red")


def _borders(plane: Plane, corner: float) -> list[Taken]:
    """The roof in small pieces, and all that is outside of the axes."""
    low = plane.x[0]
    slope = [low * (corner / low) ** (n / CURVE) for n in range(CURVE + 1)]
    points = [plane.at(i, i / corner) for i in slope]
    bottom, right, far = HEIGHT - BOTTOM, WIDTH - RIGHT, 2 * WIDTH
    sides = (-far, bottom, far, far), (-far, -far, far, TOP), (-far, -far, LEFT, far)
    outside = [(box, OUTSIDE) for box in (*sides, (right, -far, far, far))]
    return [*outside, *(((x - 3, y - 3, x + 3, y + 3), LINE) for x, y in points)]


def _names(
    rows: Sequence[LayerRow], arrows: Sequence[Arrow], taken: list[Taken]
) -> Iterator[Shape]:
    """Names beside heads; beside roofs, too, where they are on nothing else."""
    taken += [one for a in arrows for one in a.covers()]

    def cost(box: Box) -> float:
        return sum(weight for other, weight in taken if _meet(box, other))

    for at_head in (True, False):
        for r, a in zip(rows, arrows, strict=True):
            name = clipped(r.name, 110, 12)
            around, lines = (9, BESIDE) if at_head else (ROOF + 5, BESIDE[:1])
            (x, y), wide = a.end, text_width(name, 12) * BOLD
            y = y if at_head else a.roof
            spots = [_spot(x, y + dy, side * around, wide) for dy in lines for side in (1, -1)]
            best = min(spots, key=lambda box: cost(box) + abs(box[1] + 7 - y) / 14)
            if not at_head and cost(best):
                continue
            taken.append((best, NAMED))
            left, top, right, bottom = best
            yield Rect(left, top, right - left, bottom - top, "paper", radius=3)
            yield Text(left + 3, bottom - 3, name, "text" if at_head else "soft", 12, bold=at_head)


def _spot(x: float, y: float, aside: float, wide: float) -> Box:
    """The box of a name `wide` pixels wide, so far to the right or to the left of (x, y)."""
    left = x + aside if aside > 0 else x + aside - wide
    return left - 3, y - 7, left + wide + 3, y + 7


def _meet(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


# --- where cycles go ------------------------------------------------------------------------------


def stall_waterfall(parts: Mapping[str, int], title: str) -> Scene:
    """All cycles at the top, then each part where the one before it ends. Keys are part:0, ..."""
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
    """Work as in the Gantt chart; waiting is hatched."""
    waits = {"waits: channel": "bind", "waits: fetch": "unroll", "waits: room": "tensorize"}
    return waits.get(name, "vectorize") if name.startswith("waits") else appearance(name)[0]


def overlap_bars(rows: Sequence[LayerRow]) -> Scene:
    """For each layer which units work together, and the time that this saves.

    The mark on a bar is the time of the baseline. Keys are layer:0, ...
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
    legend, y = _overlap_legend(rows, y)
    about = "\n".join(f"{r.name}: {overlap_text(r)}" for r in rows)
    return Scene(WIDTH, y + 12, (*shapes, *legend), title, about)


def _overlap(r: LayerRow, x: float, y: float, wide: float) -> Iterator[Shape]:
    """The parts of one bar, with their letters where there is room."""
    total = max(1, sum(r.overlap.values()))
    for units, (kind, letters, name) in OVERLAPS.items():
        cycles = r.overlap.get(units, 0)
        if not cycles:
            continue
        part = wide * cycles / total
        tip = f"{r.name}: {name} {cycles:,} cycles, {cycles / total:.1%}"
        yield Rect(x, y, part, BAR, kind, tip=tip)
        if text_width(letters, 12) < part - 4:
            yield Text(x + part / 2, y + 15, letters, ink(kind), 12, "middle")
        x += part


def overlap_text(r: LayerRow) -> str:
    """load 12%, compute 30%, load and compute 58%; what rounds to nothing is left out"""
    total = max(1, sum(r.overlap.values()))
    found = [(name, r.overlap.get(units, 0)) for units, (_, _, name) in OVERLAPS.items()]
    return ", ".join(f"{name} {n / total:.0%}" for name, n in found if n / total >= 0.005)


def _overlap_legend(rows: Sequence[LayerRow], y: float) -> tuple[list[Shape], float]:
    shapes: list[Shape] = []
    x = 12.0
    for units, (kind, letters, name) in OVERLAPS.items():
        if not any(r.overlap.get(units) for r in rows):
            continue
        box = 12 + text_width(letters, 12)
        needs = box + 6 + text_width(name, 12) + 18
        if x + needs > WIDTH and x > 12:
            x, y = 12.0, y + 24
        shapes.append(Rect(x, y - 13, box, 17, kind))
        shapes.append(Text(x + box / 2, y, letters, ink(kind), 12, "middle"))
        shapes.append(Text(x + box + 6, y, name, size=12))
        x += needs
    return shapes, y


# --- Amdahl's law ---------------------------------------------------------------------------------


def amdahl_bars(works: Sequence[Work], cpu: Cpu) -> Scene:
    """The time of a network on the CPU alone, with the accelerator, and with an infinite one."""
    result = amdahl(tuple(works), cpu)
    title = f"{cpu.name}, {cpu.gflops:.3g} GFLOP/s: {result.speedup:.3g} times as fast as alone"
    full = WIDTH - NAME - 120
    shapes: list[Shape] = [Text(12, 20, title, bold=True)]
    totals = (("CPU alone", result.alone), ("with accelerator", result.together))
    if result.limit:
        totals = (*totals, ("infinitely fast one", result.limit))
    for n, (name, total) in enumerate(totals):
        y = 36 + n * (STEP + 6)
        shapes.append(Text(12, y + 18, name))
        parts, x = _stack(works, cpu, n, y, full / max(result.alone, result.together))
        shapes += parts
        times = f", {result.alone / total:.3g} times" if n else ""
        shapes.append(Text(x + 8, y + 18, f"{seconds_text(total)}{times}", "soft", 12))
    y = 36 + len(totals) * (STEP + 6) + 14
    x = 12.0
    for n, work in enumerate(works):
        name = clipped(work.name, 200, 12)
        if x + 30 + text_width(name, 12) > WIDTH and n:
            x, y = 12.0, y + 24
        shapes.append(Rect(x, y - 13, 18, 17, PARTS[n % len(PARTS)], f"work:{n}"))
        shapes.append(Text(x + 24, y, name, size=12))
        x += 42 + text_width(name, 12)
    y += 26
    note = "hatched: on the accelerator; what stays on the CPU limits the whole (Amdahl's law)"
    shapes.append(Text(12, y, note, "soft", 12))
    return Scene(WIDTH, y + 12, tuple(shapes), title, note)


def _stack(
    works: Sequence[Work], cpu: Cpu, bar: int, y: float, scale: float
) -> tuple[list[Shape], float]:
    """The parts of one bar: 0 the CPU alone, 1 with the accelerator, 2 with an infinite one."""
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
        if text_width(work.name, 12) < wide - 4:
            shapes.append(Text(x + wide / 2, y + 18, work.name, ink(kind), 12, "middle"))
        x += wide
    return shapes, x


def seconds_text(seconds: float) -> str:
    """0.0123 -> 12.3 ms"""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
