"""TokenGantt as a picture: lanes of instructions, tokens between them, waiting, full queues."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from minitvm.accel import Event, Queue, Stall, Unit

from .gantt_run import ENDS, Token, verdict_lines
from .gantt_view import (
    LEFT,
    STUCK,
    THREADS,
    WIDTH,
    View,
    appearance,
    moments,
    names_of,
    queue_depth,
    title,
)
from .kinds import ink
from .scene import (
    Circle,
    Group,
    Line,
    Rect,
    Scene,
    Shape,
    Text,
    shifted,
    text_width,
    wrapped,
)

TOP = 66  # pixels, as all of these
LANE, GAP = 40, 46  # the height of a lane, the room between lanes for arrows
NOP, FLAG = 7, 4  # a nop's width, a flag's radius
QUEUE, LINE = 20, 17  # the height of a queue, of a line of text
UNITS, QUEUES = tuple(Unit), tuple(Queue)
WAITS = {  # what the hatching of waiting says
    "tokens": ("faint", "waits for a token"),
    Stall.CHANNEL: ("bind", "waits for DRAM"),
    Stall.FETCH: ("unroll", "waits to be fetched"),
    Stall.ROOM: ("tensorize", "waits for room"),
}
CORNERS = {  # where on its box a flag is: 0 left, 1 right; 0 top, 1 bottom
    "pop_prev": (0, 0),
    "pop_next": (0, 1),
    "push_prev": (1, 0),
    "push_next": (1, 1),
}


def lane(unit: Unit) -> float:
    """The upper edge of a unit's lane."""
    return TOP + UNITS.index(unit) * (LANE + GAP)


BOTTOM = lane(Unit.STORE) + LANE


def gantt_scene(view: View) -> Scene:
    """The lanes, what is between them, the queues of tokens, a legend and the verdict."""
    head = title(view)
    boxes = _boxes(view)
    shapes: list[Shape] = [Text(12, 20, head, bold=True), Text(12, 39, view.note, "soft", 12)]
    shapes += _lanes(view)
    shapes += _waits(view, boxes)
    shapes += [_group(view, event, boxes[event.index]) for event in view.events]
    shapes += _stuck(view, boxes)
    shapes += _arrows(view, boxes)
    shapes += _flags(view, boxes)
    shapes += _axis(view)
    queues, y = _queues(view, BOTTOM + 44)
    legend, y = _legend(view, y + 26)
    verdict, y = _verdict(view, y + 24)
    cursors = [
        Rect(view.x(t) - 1, TOP - 10, 2, BOTTOM - TOP + 20, "hidden", f"t:{t}")
        for t in moments(view)
    ]
    shapes += [*queues, *legend, *verdict, *cursors]
    return Scene(WIDTH, y, tuple(shapes), head, "\n".join([view.note, *verdict_lines(view.look)]))


# --- lanes ----------------------------------------------------------------------------------------


def _lanes(view: View) -> Iterator[Shape]:
    """Names of the units, and how much of the time each works."""
    run = view.look.run
    for unit in UNITS:
        y = lane(unit)
        share = run.busy[unit] / run.cycles if run.cycles else 0.0
        yield Text(12, y + 17, unit.value, bold=True)
        yield Text(12, y + 33, f"{share:.0%} busy", "soft", 12)
        yield Rect(LEFT, y, view.x(view.span[1]) - LEFT, LANE, "frame")


def _boxes(view: View) -> dict[int, tuple[float, float]]:
    """Left and right edge of each instruction; what takes no time stands before its moment."""
    instant = Counter((e.unit, e.start) for e in view.events if e.start == e.end)
    boxes: dict[int, tuple[float, float]] = {}
    before: dict[Unit, int] = {}
    for e in view.events:
        left, right = view.x(e.start), view.x(e.end)
        if e.start == e.end:
            left -= (NOP + 1) * instant[e.unit, e.start]
            instant[e.unit, e.start] -= 1
            right = left + NOP
        boxes[e.index] = left, max(right, left + 2)
        if e.unit in before:  # an instruction makes room for a nop at its end
            start, end = boxes[before[e.unit]]
            boxes[before[e.unit]] = start, max(start + 2, min(end, left))
        before[e.unit] = e.index
    return boxes


def _group(view: View, event: Event, box: tuple[float, float]) -> Group:
    """One instruction: a box with its letter, and its thread's number where there is room."""
    kind, letter = appearance(event.name)
    thread = view.threads[event.index]
    if view.by_thread:
        kind = THREADS[thread] if thread >= 0 else ""
    left, right = box
    text = f"{letter}{thread}" if thread >= 0 else letter
    text = text if text_width(text, 12) < right - left - 4 else letter
    shapes: list[Shape] = [Rect(left, lane(event.unit), right - left, LANE, kind)]
    if text_width(text, 12) < right - left + 1 - 2 * (event.start < event.end):
        at = (left + right) / 2, lane(event.unit) + 25
        shapes.append(Text(*at, text, ink(kind), 12, "middle"))
    return Group(tuple(shapes), f"i:{event.index}", _tip(event, thread))


def _tip(event: Event, thread: int) -> str:
    of = f", virtual thread {thread}" if thread >= 0 else ""
    return f"{event.index} ({event.name}{of}): cycles {event.start:,} to {event.end:,}"


def _waits(view: View, boxes: Mapping[int, tuple[float, float]]) -> Iterator[Shape]:
    """Shaded time in which a unit waits, with the reason where there is room."""
    for s in view.segments:
        if s.stall is None or s.begin == s.end:
            continue
        left, right = view.x(s.begin), view.x(s.end)
        if s.index in boxes and s.stall is not Stall.ROOM:
            right = max(left, min(right, boxes[s.index][0]))
        kind = WAITS.get(s.stall, WAITS["tokens"])[0]
        tip = f"{s.unit.value} waits for {s.stall.value} before {s.index}, {s.end - s.begin} cycles"
        yield Rect(left, lane(s.unit) + 6, right - left, LANE - 12, kind, f"w:{s.index}", tip)
        if text_width(s.stall.value, 12) < right - left - 4:
            at = (left + right) / 2, lane(s.unit) + 25
            yield Text(*at, s.stall.value, ink(kind) if kind != "faint" else "soft", 12, "middle")


def _stuck(view: View, boxes: dict[int, tuple[float, float]]) -> Iterator[Shape]:
    """The units that wait for ever; their boxes get edges, too."""
    if not view.last:
        return
    for b in view.look.run.blocked:
        left, y = view.x(view.span[1]) + 16, lane(b.unit)
        if b.index not in boxes:  # one that waits for room has run
            boxes[b.index] = left, left + STUCK - 16
        box = Rect(left, y, STUCK - 16, LANE, "guard")
        text = f"{b.index} {b.name}", f"waits: {b.waits_for.value}"
        lines = [
            Text(left + 10, y + 17 + 15 * n, part, size=12, bold=not n)
            for n, part in enumerate(text)
        ]
        yield Group((box, *lines), f"i:{b.index}", str(b))


# --- tokens ---------------------------------------------------------------------------------------


def _corner(
    view: View, n: int, flag: str, boxes: Mapping[int, tuple[float, float]]
) -> tuple[float, float]:
    """Where the flag of an instruction is drawn: near its corner, beside that of its neighbour."""
    at_end, below = CORNERS[flag]
    left, right = boxes[n]
    inset = min(FLAG + 1, (right - left) / 4)
    x = right - inset if at_end else left + inset
    return x, lane(UNITS[view.look.program.wires[n].unit]) + LANE * below


def _arrows(view: View, boxes: Mapping[int, tuple[float, float]]) -> Iterator[Shape]:
    """Tokens from the push to the pop; those for a free place are dashed."""
    for t in view.look.tokens:
        if t.push not in boxes or t.pop not in boxes or t.sent < 0:
            continue
        pushed, popped = ENDS[t.queue]
        start, end = _corner(view, t.push, pushed, boxes), _corner(view, t.pop, popped, boxes)
        kind = "arrow" if pushed == "push_next" else "dashed"
        yield Line(
            (start, _before(start, end)), kind, f"k:{t.queue.value}:{t.number}", _said(t), True
        )


def _before(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    """The point of an arrow, at the edge of the flag it leads to."""
    length = max(math.dist(start, end), 1e-9)
    part = max(0.0, 1 - (FLAG + 1) / length)
    return start[0] + (end[0] - start[0]) * part, start[1] + (end[1] - start[1]) * part


def _said(t: Token) -> str:
    taken = f"popped by {t.pop} in cycle {t.taken:,}" if t.taken >= 0 else "never popped"
    return f"token {t.number} of {t.queue.value}: pushed by {t.push} in cycle {t.sent:,}, {taken}"


def _flags(view: View, boxes: Mapping[int, tuple[float, float]]) -> Iterator[Shape]:
    """A disc for each pop and push, those that were dropped too."""
    instructions = view.look.program.instructions
    for n in boxes:
        for flag in CORNERS:
            there = getattr(instructions[n].flags, flag)
            differs = flag in view.changed.get(n, ())
            if there or differs:
                state = "" if not differs else "added" if there else "dropped"
                disc = _disc(*_corner(view, n, flag, boxes), flag, state)
                tip = f"{n}: {flag}, {state or 'click to drop'}"
                yield Group(disc, f"f:{n}:{flag}", tip)


def _disc(x: float, y: float, flag: str, state: str = "") -> tuple[Shape, ...]:
    """A push is a filled disc, a pop a ring; dropped ones are dashed, added ones pink."""
    kind = {"added": "pink", "dropped": "guard"}.get(state, "start")
    outer = Circle(x, y, FLAG, kind)
    return (outer,) if "push" in flag or state == "dropped" else (outer, Circle(x, y, 2, "paper"))


# --- below the lanes ------------------------------------------------------------------------------


def ticks(begin: float, end: float, most: int) -> list[int]:
    """Round numbers from begin to end, at most so many: 0, 100, 200, ..."""
    rough = max(1.0, (end - begin) / max(1, most))
    power = 10 ** math.floor(math.log10(rough))
    step = next(int(power * k) for k in (1, 2, 5, 10) if power * k >= rough)
    return list(range(-(-int(begin) // step) * step, int(end) + 1, step))


def _axis(view: View) -> Iterator[Shape]:
    begin, end = view.span
    right = view.x(end)
    yield Line(((LEFT, BOTTOM + 10), (right, BOTTOM + 10)), "axis")
    for cycle in ticks(begin, end, 9):
        x = view.x(cycle)
        yield Line(((x, BOTTOM + 10), (x, BOTTOM + 15)), "axis")
        yield Text(x, BOTTOM + 29, f"{cycle:,}", size=12, anchor="middle")
    yield Text(12, BOTTOM + 29, "cycle", "soft", 12)


def _queues(view: View, top: float) -> tuple[list[Shape], float]:
    """How many tokens lie in each queue over time."""
    shapes: list[Shape] = []
    for n, queue in enumerate(QUEUES):
        base = top + (n + 1) * QUEUE
        steps = queue_depth(view, queue)
        most = max((count for _, count in steps), default=0)
        shapes.append(Text(12, base - 3, f"in {queue.value}", "soft", 12))
        shapes.append(Line(((LEFT, base), (view.x(view.span[1]), base)), "grid"))
        for (t, count), (after, _) in pairwise([*steps, (view.span[1], 0)]):
            if count:
                high = (QUEUE - 5) * count / most
                left, right = view.x(t), view.x(after)
                tip = f"{count} in {queue.value} from cycle {t:,} to {after:,}"
                shapes.append(Rect(left, base - high, right - left, high, "pale_blue", tip=tip))
        if most:
            at = view.x(view.span[1]) + 4
            shapes.append(Text(at, base - 3, str(most), "soft", 12))
    return shapes, top + len(QUEUES) * QUEUE


def _legend(view: View, y: float) -> tuple[list[Shape], float]:
    """What is seen in this window: instructions, waiting, tokens."""
    shapes: list[Shape] = []
    x = 12.0

    def add(sample: list[Shape], wide: float, text: str) -> None:
        nonlocal x, y
        needs = wide + 6 + text_width(text, 12) + 18
        if x + needs > WIDTH and x > 12:
            x, y = 12.0, y + 24
        shapes.extend(shifted(part, x, y) for part in sample)
        shapes.append(Text(x + wide + 6, y, text, size=12))
        x += needs

    for kind, letter, text in names_of(view):
        letters: list[Shape] = [Text(9, 0, letter, ink(kind), 12, "middle")] if letter else []
        add([Rect(0, -13, 18, 17, kind), *letters], 18, text)
    for stall in _stalls(view):
        kind, text = WAITS[stall]
        add([Rect(0, -11, 22, 13, kind)], 22, text)
    add(list(_disc(5, -4, "push")), 10, "push")
    add(list(_disc(5, -4, "pop")), 10, "pop")
    add([Line(((0, -4), (26, -4)), "arrow", arrow=True)], 26, "the data is there")
    add([Line(((0, -4), (26, -4)), "dashed", arrow=True)], 26, "the place is free")
    return shapes, y


def _stalls(view: View) -> list[Stall | str]:
    """The kinds of waiting within the window."""
    here = {s.stall for s in view.segments if s.stall and s.begin < s.end}
    return [w for w in WAITS if w in here or (w == "tokens" and here - set(WAITS))]


def _verdict(view: View, y: float) -> tuple[list[Shape], float]:
    """What the verifier says."""
    shapes: list[Shape] = [Text(12, y, "tokens", size=12, bold=True)]
    lines = [p for line in verdict_lines(view.look) for p in wrapped(line, WIDTH - 90, 12)]
    for n, line in enumerate(lines):
        shapes.append(Text(70, y + LINE * n, line, size=12))
    return shapes, y + LINE * len(lines)
