"""AcceleratorView as a picture: DRAM on the left, the memories, the units that compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from minitvm import accel

from .accelerator_run import MEMORIES, STEPS, Occupancy, engine, runs
from .accelerator_use import Ints, piece
from .boxes import Box, column, drawn, text
from .controls import Frame
from .gantt_view import appearance
from .scene import Group, Line, Rect, Shape, Text, clipped, text_width

WIDTH, TOP = 840, 20  # pixels
DRAM, DRAM_WIDE = 0, 190  # pixels: left edge and width of a column
CHIP, CHIP_WIDE = 244, 420
UNIT, UNIT_WIDE = 726, 112
ROW, STRIP, MARK = 70, 26, 7  # pixels: height of a memory, its strip, marks of accessed elements
MAX_AREAS = 5


@dataclass(frozen=True, slots=True)
class Strip:
    """A memory or a DRAM area drawn as a row of `count` elements; (x, y) is its top left corner."""

    name: str
    x: float
    y: float
    width: float
    count: int

    def rects(self, elements: Ints) -> list[tuple[float, float]]:
        """Return (left, width) of each run of elements, merging runs less than a pixel apart."""
        scale = self.width / self.count
        merged: list[tuple[float, float]] = []
        for first, after in runs(elements):
            left, right = self.x + first * scale, self.x + after * scale
            if merged and left - sum(merged[-1]) < 1:
                left, _ = merged.pop()
            merged.append((left, right - left))
        return [(left, max(1.5, wide)) for left, wide in merged]


def memory_strips(o: Occupancy) -> dict[accel.Memory, Strip]:
    """Return the strip in which each on-chip memory is drawn."""
    return {
        memory: Strip(memory.name, CHIP, TOP + 30 + n * ROW, CHIP_WIDE, o.shown[memory])
        for n, memory in enumerate(MEMORIES)
    }


def area_strips(o: Occupancy) -> dict[str, Strip]:
    """Map the names of the first DRAM areas, and "uops" for micro-operations, to their strips."""
    sizes = {a.name: prod(a.shape) for a in o.program.areas[: MAX_AREAS - 1]}
    if o.program.uops:
        sizes["uops"] = len(o.program.uops)
    return {
        name: Strip(name, DRAM, TOP + 30 + n * ROW, DRAM_WIDE, max(1, size))
        for n, (name, size) in enumerate(sizes.items())
    }


HEIGHT = TOP + len(MEMORIES) * ROW + 10
Point = tuple[float, float]


def title(o: Occupancy) -> str:
    """Return the name of the accelerator, and how many instructions run."""
    count, run_count = len(o.program.instructions), len(o.order)
    end = f", deadlock after {run_count}" if run_count < count else ""
    return f"{o.config.name}: {count} instructions{end}"


def accelerator_box(o: Occupancy, start: int) -> Box:
    """Draw the accelerator; the contents and marks of a step are hidden until its frame shows them.

    start   the first step of the window
    """
    constant = (*_heads(), *_areas(o), *_memories(o), *_wires(o), *_units(o))
    shapes = (*constant, *_written(o, start), *_used(o, start))
    return column(text(title(o), size=13, bold=True), drawn(shapes, WIDTH, HEIGHT))


# --- what does not change -------------------------------------------------------------------------


def _heads() -> Iterator[Shape]:
    """Draw the titles of the columns and a legend of the marks."""
    y = 12
    dram = "DRAM (A[2, 6]: elements 2, 6)"
    for x, words in ((DRAM, dram), (CHIP, "memories on the chip"), (UNIT, "units")):
        yield Text(x, y, words, "soft", 12)
    for x, color, words in (
        (CHIP + 180, "red", "written above"),
        (CHIP + 310, "blue", "read below"),
    ):
        yield Rect(x, y - 8, 14, MARK, color)
        yield Text(x + 20, y, words, "soft", 12)


def _areas(o: Occupancy) -> Iterator[Shape]:
    """Draw the areas of DRAM."""
    strips, known = area_strips(o), {area.name: area for area in o.program.areas}
    for name, strip in strips.items():
        shape = "×".join(map(str, known[name].shape)) if name in known else str(strip.count)
        memory = known[name].memory.name if name in known else "micro-operations"
        words = clipped(f"{name}: {shape or '1'} {memory}", DRAM_WIDE, 12)
        yield Text(DRAM, strip.y - 13, words, size=12)
        yield Rect(strip.x, strip.y, strip.width, STRIP, "")
    more = len(o.program.areas) + bool(o.program.uops) - len(strips)
    if more:
        y = TOP + 30 + len(strips) * ROW
        yield Text(DRAM, y - 13, f"and {more} more areas", "soft", 12)


def _memories(o: Occupancy) -> Iterator[Shape]:
    """Draw the name, size and outline of each on-chip memory, without its contents."""
    for memory, strip in memory_strips(o).items():
        shape = "×".join(map(str, o.config.element_shape(memory)))
        element_text = f"{shape} {o.config.dtype(memory)}".strip()
        drawn = f"0..{strip.count - 1} of" if memory in o.used else "unused:"
        note = f"{drawn} {o.config.depth(memory)} elements of {element_text}"
        if memory is accel.Memory.OUT:
            note += ": ACC, narrowed"
        yield Text(CHIP, strip.y - 13, memory.name, bold=True)
        yield Text(CHIP + 44, strip.y - 13, note, "soft", 12)
        yield Rect(strip.x, strip.y, strip.width, STRIP, "")


def _wires(o: Occupancy) -> Iterator[Shape]:
    """Draw an arrow for each path that data take between DRAM, memories and units."""
    strips, areas, units = memory_strips(o), area_strips(o), _unit_boxes()
    for key in dict.fromkeys(key for n in o.order for key in wires(o, n)):
        kind, name, memory = key.split(":")
        strip = strips[accel.Memory[memory]]
        middle = strip.y + STRIP / 2
        if kind in ("load", "store"):
            if name not in areas:
                continue
            ends = (DRAM + DRAM_WIDE, areas[name].y + STRIP / 2), (CHIP, middle)
        else:
            box = units[name]
            dy = 6 if kind == "write" else -6
            ends = (CHIP + CHIP_WIDE, middle + dy), (UNIT, box.y + box.height / 2 + dy)
        start, end = ends if kind in ("load", "read") else (ends[1], ends[0])
        yield Line(_shortened(start, end), "frame", key, arrow=True)


def _shortened(start: Point, end: Point) -> tuple[Point, Point]:
    """Return the ends of a line after cutting off 6 % of its length at both ends."""
    dx, dy = (end[0] - start[0]) * 0.06, (end[1] - start[1]) * 0.06
    return (start[0] + dx, start[1] + dy), (end[0] - dx, end[1] - dy)


def _unit_boxes() -> dict[str, Rect]:
    """Return the rectangles of the matrix unit and the ALU."""
    return {
        "gemm": Rect(UNIT, TOP + 30 + 0.3 * ROW, UNIT_WIDE, 56, radius=6),
        "alu": Rect(UNIT, TOP + 30 + 1.9 * ROW, UNIT_WIDE, 44, radius=6),
    }


def _units(o: Occupancy) -> Iterator[Shape]:
    """Draw the matrix unit and the ALU."""
    c = o.config
    size = f"{c.batch}×{c.block_in} · {c.block_in}×{c.block_out}"
    notes = {"gemm": ("matrix unit", size), "alu": ("ALU", f"{c.batch}×{c.block_out} lanes")}
    for name, box in _unit_boxes().items():
        x, y = box.x + box.width / 2, box.y + box.height / 2
        head = Text(x, y - 2, notes[name][0], size=13, anchor="middle", bold=True)
        note = Text(x, y + 14, notes[name][1], size=12, anchor="middle")
        yield Group((box, head, note), f"unit:{name}")


# --- what changes ---------------------------------------------------------------------------------


def wires(o: Occupancy, n: int) -> list[str]:
    """Return the keys of the n-th instruction's arrows, such as load:A:INP or read:gemm:WGT."""
    use, name = o.uses[n], engine(o.program, n)
    if name == "dma":
        loaded = [m for m in use.writes if m is not accel.Memory.OUT]
        area = piece(o.program, o.config, n).area
        return [f"load:{area}:{m.name}" for m in loaded] or [f"store:{area}:OUT"]
    reads = [f"read:{name}:{m.name}" for m in use.reads if m is not accel.Memory.UOP]
    return reads + [f"write:{name}:{m.name}" for m in use.writes if m is not accel.Memory.OUT]


def _written(o: Occupancy, start: int) -> Iterator[Shape]:
    """Draw the data that are in a memory at any step of the window, grouped by their writer."""
    strips = memory_strips(o)
    for step, memory in sorted(set[tuple[int, accel.Memory]]().union(*_live(o, start))):
        strip, use = strips[memory], o.uses[o.order[step]]
        runs = strip.rects(use.writes[memory])
        shapes: list[Shape] = [Rect(x, strip.y, wide, STRIP, "hidden") for x, wide in runs]
        left, widest = max(runs, key=lambda r: r[1])
        words = o.text(step)
        if text_width(words, 12) < widest - 4:
            shapes.append(Text(left + widest / 2, strip.y + 17, words, "hidden", 12, "middle"))
        yield Group(tuple(shapes), f"w:{step}:{memory.name}", f"{memory.name}: {words}")


def _live(o: Occupancy, start: int) -> Iterator[set[tuple[int, accel.Memory]]]:
    """After each step of the window, yield (writing step, memory) of all data then present."""
    for owner in o.states(start, start + STEPS):
        yield {
            (step, memory)
            for memory in MEMORIES
            for step in np.unique(owner[memory]).tolist()
            if step >= 0
        }


def _used(o: Occupancy, start: int) -> Iterator[Shape]:
    """Draw marks for each step: above the elements it writes, below the elements it reads."""
    strips, areas = memory_strips(o), area_strips(o)
    for step in range(start, min(start + STEPS, len(o.order))):
        n = o.order[step]
        use, piece_moved = o.uses[n], piece(o.program, o.config, n)
        for verb, used in (("read", use.reads), ("write", use.writes)):
            for memory, elements in used.items():
                yield _marks(strips[memory], elements, verb, step)
        if piece_moved.area in areas:
            verb = "read" if use.writes else "write"
            yield _marks(areas[piece_moved.area], piece_moved.elements, verb, step)


def _marks(strip: Strip, elements: Ints, verb: str, step: int) -> Group:
    y = strip.y + STRIP + 1 if verb == "read" else strip.y - MARK - 1
    rects = (Rect(x, y, wide, MARK, "hidden") for x, wide in strip.rects(elements))
    return Group(tuple(rects), f"{verb}:{step}")


def accelerator_frames(o: Occupancy, start: int) -> tuple[Frame, ...]:
    """Return a frame per step of the window: the memories after the step, and its accesses."""
    frames: list[Frame] = []
    for step, live in enumerate(_live(o, start), start):
        n = o.order[step]
        marks = {f"w:{s}:{memory.name}": written_by(o, s)[0] for s, memory in sorted(live)}
        marks |= dict.fromkeys(wires(o, n), "orange") | {f"line:{n}": "now"}
        marks |= {f"read:{step}": "blue", f"write:{step}": "red"}
        if engine(o.program, n) in ("gemm", "alu"):
            marks[f"unit:{engine(o.program, n)}"] = "now"
        frames.append(Frame(marks, o.caption(step), f"line:{n}"))
    return tuple(frames)


def written_by(o: Occupancy, step: int) -> tuple[str, str]:
    """Return the (kind, letter) with which to draw the elements that a step wrote."""
    return appearance(accel.mnemonic(o.program.instructions[o.order[step]]))
