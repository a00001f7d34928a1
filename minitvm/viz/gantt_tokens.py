"""The tokens of TokenGantt as shapes: pushes, pops, arrows, and removed tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from .gantt_run import ENDS, UNITS, Token
from .gantt_view import GAP, LANE, ProgramWindow, lane
from .scene import Circle, Group, Line, Rect, Shape

FLAG, CROSS = 4, 6  # pixels: a flag's radius, half the size of a cross
CORNERS = {  # where on its box a flag is: 0 left, 1 right; 0 top, 1 bottom
    "pop_prev": (0, 0),
    "pop_next": (0, 1),
    "push_prev": (1, 0),
    "push_next": (1, 1),
}
Point = tuple[float, float]
Boxes = Mapping[int, tuple[float, float]]  # the left and the right edge of each instruction


def corner(view: ProgramWindow, n: int, flag: str, boxes: Boxes) -> Point:
    """Return where a flag of the n-th instruction is drawn: in a corner towards the other unit."""
    at_end, below = CORNERS[flag]
    left, right = boxes[n]
    inset = min(FLAG + 1, (right - left) / 4)
    x = right - inset if at_end else left + inset
    return x, lane(UNITS[view.simulated.program.wires[n].unit]) + LANE * below


def arrows(view: ProgramWindow, boxes: Boxes) -> Iterator[Shape]:
    """Draw tokens as arrows from push to pop, dashed if the token reports free buffer space."""
    shown = np.array([*boxes], np.int64)
    visible = [
        tokens.token(number)
        for tokens in view.simulated.tokens.values()
        for number in np.flatnonzero(
            np.isin(tokens.push, shown) & np.isin(tokens.pop, shown) & (tokens.sent >= 0)
        ).tolist()
    ]
    for t in visible:
        push_end, pop_end = ENDS[t.queue]
        start, end = corner(view, t.push, push_end, boxes), corner(view, t.pop, pop_end, boxes)
        kind = "arrow" if push_end == "push_next" else "dashed"
        key, tip = f"k:{t.queue.value}:{t.number}", _described(t)
        yield Line((start, end), "reach", key, tip)
        yield Line((start, _before(start, end)), kind, key, tip, True)


def _before(start: Point, end: Point) -> Point:
    """Return the tip of an arrow from `start`, at the edge of the flag drawn around `end`."""
    length = max(math.dist(start, end), 1e-9)
    part = max(0.0, 1 - (FLAG + 1) / length)
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _described(t: Token) -> str:
    pop_text = f"popped by {t.pop} in cycle {t.taken:,}" if t.taken >= 0 else "never popped"
    return (
        f"token {t.number} of {t.queue.value}: pushed by {t.push} in cycle {t.sent:,}, {pop_text}"
    )


def removed_arrows(view: ProgramWindow, boxes: Boxes) -> Iterator[Shape]:
    """Draw removed tokens as crossed-out arrows; an arrow with only one end shown is vertical."""
    for t in view.removed:
        push_end, pop_end = ENDS[t.queue]
        offset = GAP if push_end == "push_next" else -GAP
        if t.push in boxes:
            start = corner(view, t.push, push_end, boxes)
            has_pop = t.pop in boxes
            end = corner(view, t.pop, pop_end, boxes) if has_pop else (start[0], start[1] + offset)
        elif t.pop in boxes:
            end = corner(view, t.pop, pop_end, boxes)
            start = end[0], end[1] - offset
        else:
            continue
        yield _removed(start, end, t)


def _removed(start: Point, end: Point, t: Token) -> Group:
    """Draw a removed token: a dashed arrow with a cross in its middle."""
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    touch_area = Rect(x - CROSS - 2, y - CROSS - 2, 2 * CROSS + 4, 2 * CROSS + 4, "touch")
    arrow = Line((start, _before(start, end)), "removed", arrow=True)
    tip = (
        f"token {t.number} of {t.queue.value}, from {t.push} to {t.pop}, removed: click to restore"
    )
    return Group((arrow, *cross(x, y), touch_area), f"x:{t.queue.value}:{t.number}", tip)


def cross(x: float, y: float, size: float = CROSS, kind: str = "red") -> tuple[Shape, ...]:
    """Draw two crossing strokes around (x, y)."""
    return (
        Line(((x - size, y - size), (x + size, y + size)), kind),
        Line(((x - size, y + size), (x + size, y - size)), kind),
    )


def flags(view: ProgramWindow, boxes: Boxes) -> Iterator[Shape]:
    """Draw a disc or ring for each push and pop of the instructions, including dropped ones."""
    instructions = view.simulated.program.instructions
    for n in boxes:
        for flag in CORNERS:
            is_set = getattr(instructions[n].flags, flag)
            differs = flag in view.changed.get(n, ())
            if is_set or differs:
                state = "" if not differs else "added" if is_set else "dropped"
                shapes = disc(*corner(view, n, flag, boxes), flag, state)
                tip = f"{n}: {flag}, {state or 'click to drop'}"
                yield Group(shapes, f"f:{n}:{flag}", tip)


def disc(x: float, y: float, flag: str, state: str = "") -> tuple[Shape, ...]:
    """Draw a push as a disc, a pop as a ring; a dropped flag is crossed out, an added one pink."""
    if state == "dropped":
        return (Circle(x, y, FLAG + 1, "dropped"), *cross(x, y, 3, "crossed"))
    outer = Circle(x, y, FLAG, "pink" if state == "added" else "start")
    return (outer,) if "push" in flag else (outer, Circle(x, y, 2, "paper"))
