"""TokenGantt as a picture: lanes of instructions, tokens between them, waiting, full queues."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from minitvm.accel import Event, Queue, Stall, Unit, mnemonic

from .controls import Frame
from .gantt_run import Look, Segment, Token, verdict_lines
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

WIDTH, LEFT, RIGHT, TOP = 920, 104, 20, 66  # pixels
LANE, GAP, NOP, FLAG = (
    40,
    46,
    7,
    4,
)  # a lane's height, between lanes, a nop's width, a flag's radius
STUCK = 120  # the width of a unit that waits for ever
QUEUE, LINE = 20, 17
FRAMES = 160
UNITS, QUEUES = tuple(Unit), tuple(Queue)
LOOKS = {  # instruction -> kind and letter; other operations are those of the ALU
    "load inp": ("pale_sky", "I"),
    "load wgt": ("pale_blue", "W"),
    "load uop": ("pale_pink", "U"),
    "load acc": ("pale_pink", "C"),
    "gemm": ("pale_orange", "G"),
    "reset": ("pale_yellow", "R"),
    "alu": ("pale_red", "A"),
    "store": ("pale_green", "S"),
    "nop": ("grey", "n"),
    "finish": ("grey", "F"),
}
THREADS = ("pale_sky", "pale_orange", "pale_green", "pale_pink")
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
ENDS = {  # the flags of who pushes a token and of who pops it
    Queue.L2G: ("push_next", "pop_prev"),
    Queue.G2L: ("push_prev", "pop_next"),
    Queue.G2S: ("push_next", "pop_prev"),
    Queue.S2G: ("push_prev", "pop_next"),
}


@dataclass(frozen=True, eq=False)
class View:
    """A window of a program as it is drawn.

    threads   the virtual thread of each instruction, -1 for none; by_thread: colours are theirs
    changed   the flags that were dropped or added, by instruction
    note      what stands under the title
    """

    look: Look
    window: int
    threads: tuple[int, ...]
    changed: Mapping[int, tuple[str, ...]]
    note: str
    by_thread: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """[begin, end) in cycles."""
        return self.look.spans[self.window]

    @property
    def last(self) -> bool:
        """Is it the last window, in which the program ends?"""
        return self.window == len(self.look.spans) - 1

    @cached_property
    def events(self) -> list[Event]:
        """The instructions that run in the window."""
        (begin, end), last = self.span, self.last
        return [
            e
            for e in self.look.events.values()
            if (e.start < end or last) and (e.end > begin or e.start >= begin)
        ]

    @cached_property
    def segments(self) -> list[Segment]:
        """What the units do in the window."""
        (begin, end), last = self.span, self.last
        return [
            s
            for s in self.look.segments
            if (s.begin < end or last) and (s.end > begin or s.begin >= begin)
        ]

    def x(self, cycle: float) -> float:
        """The pixel of a time, at an edge if it lies outside."""
        begin, end = self.span
        room = STUCK if self.last and self.look.run.blocked else 0
        share = (cycle - begin) / max(1, end - begin)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT - room)


def lane(unit: Unit) -> float:
    """The upper edge of a unit's lane."""
    return TOP + UNITS.index(unit) * (LANE + GAP)


BOTTOM = lane(Unit.STORE) + LANE


def appearance(name: str) -> tuple[str, str]:
    """(kind, letter) of an instruction's mnemonic."""
    return LOOKS.get(name, LOOKS["alu"])


def title(view: View) -> str:
    """515 cycles, GEMM works 62 % of them; window 2 of 5: cycles 100 to 203"""
    run, (begin, end) = view.look.run, view.span
    text = f"{run.cycles:,} cycles, the matrix unit is used {run.utilisation:.1%}"
    if run.blocked:
        text = f"deadlock after {run.cycles:,} cycles"
    windows = len(view.look.spans)
    if windows > 1:
        text += f"; window {view.window + 1} of {windows}: cycles {begin:,} to {end:,}"
    return text


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
    """Where the flag of an instruction is drawn."""
    right, below = CORNERS[flag]
    unit = UNITS[view.look.program.wires[n].unit]
    return boxes[n][right], lane(unit) + LANE * below


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
    """A disc for each pop and push; dropped ones dashed, added ones pink."""
    instructions = view.look.program.instructions
    for n in boxes:
        for flag in CORNERS:
            there = getattr(instructions[n].flags, flag)
            differs = flag in view.changed.get(n, ())
            if there or differs:
                kind = "pink" if there and differs else "start" if "push" in flag else "store"
                at = _corner(view, n, flag, boxes)
                state = "" if not differs else ", added" if there else ", dropped"
                tip = f"{n}: {flag}{state}; click to drop or restore"
                yield Circle(*at, FLAG, kind if there else "guard", f"f:{n}:{flag}", tip)


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


def queue_depth(view: View, queue: Queue) -> list[tuple[int, int]]:
    """(cycle, tokens from then on) within the window, where the number changes."""
    begin, end = view.span
    change: Counter[int] = Counter()
    for t in view.look.tokens:
        if t.queue is queue and t.sent >= 0:
            change[max(begin, t.sent)] += 1
            if t.taken >= 0:
                change[max(begin, t.taken)] -= 1
    count, steps = 0, list[tuple[int, int]]()
    for cycle in sorted(c for c in change if c < end):
        count += change[cycle]
        steps.append((cycle, count))
    return steps


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
    add([Circle(4, -4, FLAG, "start")], 8, "push")
    add([Circle(4, -4, FLAG, "store")], 8, "pop")
    add([Line(((0, -4), (26, -4)), "arrow", arrow=True)], 26, "the data is there")
    add([Line(((0, -4), (26, -4)), "dashed", arrow=True)], 26, "the place is free")
    return shapes, y


def names_of(view: View) -> list[tuple[str, str, str]]:
    """(kind, letter, text) of what the colours of boxes say."""
    if view.by_thread:
        used = sorted({view.threads[e.index] for e in view.events})
        return [(THREADS[t], str(t), f"virtual thread {t}") for t in used if t >= 0]
    present = {e.name if e.name in LOOKS else "alu" for e in view.events}
    return [(*LOOKS[name], name) for name in LOOKS if name in present]


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


# --- moments --------------------------------------------------------------------------------------


def moments(view: View) -> list[int]:
    """The cycles of a window in which something begins or ends, so many as are played."""
    begin, end = view.span
    times = {t for e in view.events for t in (e.start, e.end)} | {begin}
    return sorted(t for t in times if begin <= t <= end)[:FRAMES]


def gantt_frames(view: View) -> tuple[Frame, ...]:
    """One frame for each moment: what runs, what each unit waits for, the tokens."""
    frames: list[Frame] = []
    depths = {q: queue_depth(view, q) for q in QUEUES}
    for t in moments(view):
        now = [_doing(view, unit, t) for unit in UNITS]
        marks = {f"i:{s.index}": "now" for s in now if s is not None and s.stall is None}
        lines = [f"{u.value:8} {_doing_text(s, view)}" for u, s in zip(UNITS, now, strict=True)]
        counts = "  ".join(f"{q.value} {_depth_at(depths[q], t)}" for q in QUEUES)
        caption = "\n".join([f"cycle {t:,}", *lines, f"tokens   {counts}"])
        frames.append(Frame({**marks, f"t:{t}": "start"}, caption))
    return tuple(frames)


def _depth_at(steps: list[tuple[int, int]], t: int) -> int:
    """The tokens in a queue at a time."""
    return next((count for cycle, count in reversed(steps) if cycle <= t), 0)


def _doing(view: View, unit: Unit, t: int) -> Segment | None:
    """What a unit does in a cycle; what takes no time counts in its moment if nothing else runs."""
    mine = [s for s in view.segments if s.unit is unit]
    running = (s for s in mine if s.begin <= t < s.end)
    return next(running, next((s for s in mine if s.begin == s.end == t), None))


def _doing_text(s: Segment | None, view: View) -> str:
    if s is None:
        return "has nothing to do"
    name = f"{s.index} ({mnemonic(view.look.program.instructions[s.index])})"
    if s.stall is None:
        return f"runs {name} until {s.end:,}"
    return f"waits for {s.stall.value} before {name} since {s.begin:,}"
