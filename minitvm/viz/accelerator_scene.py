"""AcceleratorView as a picture: DRAM on the left, the memories, the units that compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from minitvm.accel import Area, Memory, mnemonic

from .accelerator_run import MEMORIES, STEPS, Occupancy, engine, runs
from .accelerator_use import Ints
from .controls import Frame
from .gantt_scene import appearance
from .kinds import ink
from .scene import Group, Line, Rect, Scene, Shape, Text, clipped, text_width

WIDTH, TOP = 920, 34  # pixels
DRAM, DRAM_WIDE = 12, 210  # where DRAM begins, and how wide it is drawn
CHIP, CHIP_WIDE = 290, 440
UNIT, UNIT_WIDE = 796, 112
ROW, STRIP, MARK = 70, 26, 7  # pixels: a memory, its strip, the marks of what is used
MOST_AREAS = 5
UNITS = (("gemm", "matrix unit"), ("alu", "ALU"))


@dataclass(frozen=True, slots=True)
class Strip:
    """Elements side by side: where they are drawn, and how many there are."""

    name: str
    x: float
    y: float
    width: float
    count: int

    def rects(self, elements: Ints) -> list[tuple[float, float]]:
        """(left, width) of the stretches of elements; those that nearly touch are one."""
        scale = self.width / self.count
        found: list[tuple[float, float]] = []
        for first, after in runs(elements):
            left, right = self.x + first * scale, self.x + after * scale
            if found and left - sum(found[-1]) < 1:
                found[-1] = found[-1][0], right - found[-1][0]
            else:
                found.append((left, right - left))
        return [(left, max(1.5, wide)) for left, wide in found]


def memory_strips(o: Occupancy) -> dict[Memory, Strip]:
    """One strip for each memory."""
    return {
        memory: Strip(memory.name, CHIP, TOP + 30 + n * ROW, CHIP_WIDE, o.shown[memory])
        for n, memory in enumerate(MEMORIES)
    }


def area_strips(o: Occupancy) -> dict[str, Strip]:
    """One strip for each area of DRAM, the first few of many, and one for the uops."""
    sizes = {a.name: prod(a.shape) for a in o.program.areas[: MOST_AREAS - 1]}
    if o.program.uops:
        sizes["uops"] = len(o.program.uops)
    return {
        name: Strip(name, DRAM, TOP + 30 + n * ROW, DRAM_WIDE, max(1, size))
        for n, (name, size) in enumerate(sizes.items())
    }


HEIGHT = TOP + len(MEMORIES) * ROW + 14


def accelerator_scene(o: Occupancy, start: int, step: int | None = None) -> Scene:
    """What the steps from `start` on may show, hidden; or the moment after a step, as it is."""
    title = f"{len(o.order)} of {len(o.program.instructions)} instructions"
    title = f"{o.config.name}: {title} run" if len(o.order) < len(o.program.instructions) else (
        f"{o.config.name}: {len(o.order)} instructions"
    )
    shapes: list[Shape] = [Text(DRAM, 20, title, bold=True)]
    frames = accelerator_frames(o, start)
    marks = frames[step - start].marks if step is not None and frames else None
    shapes += _areas(o)
    shapes += _memories(o)
    shapes += [_lit(s, marks) for s in (*_wires(o), *_units(o)) if isinstance(s, Line | Group)]
    parts = [*_tenants(o, start), *_used(o, start)]
    if marks is None:
        shapes += parts
    else:
        shapes += [_lit(part, marks) for part in parts if part.key in marks]
    return Scene(WIDTH, HEIGHT, tuple(shapes), title, "")
