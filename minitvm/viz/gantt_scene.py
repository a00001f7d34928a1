"""TokenGantt as a picture: lanes of instructions, tokens, waiting, and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter

from minitvm import accel

from .boxes import (
    Box,
    column,
    drawn,
    flow,
    icon,
    indented,
    over,
    paragraph,
    row,
    sized,
    text,
)
from .gantt_columns import column_shapes, share_shapes, zoomed_out_note
from .gantt_run import QUEUES, UNITS
from .gantt_shares import TOKENS, most_within
from .gantt_tokens import arrows, cross, disc, flags, removed_arrows
from .gantt_view import (
    LANE,
    LEFT,
    STUCK,
    THREADS,
    TOP,
    WAITS,
    WIDTH,
    ProgramWindow,
    appearance,
    lane,
    moments,
    names_of,
    queue_depth,
    title,
)
from .kinds import ink
from .marks import Bar, Mark
from .plot import Axis, plot
from .scene import Group, Rect, Shape, Text, text_width

NOP = 7  # pixels: the width of a nop
QUEUE, NUMBER = 20, 15  # pixels: heights of a queue, and of a line in a box
TOKENS_WIDE, EDGE = 58, 5  # pixels: width of the title of the verdict; for marks below lanes
BOTTOM = lane(accel.Unit.STORE) + LANE


def gantt_box(view: ProgramWindow) -> Box:
    """Draw the lanes, the tokens between them, the queues, a legend and the verdict."""
    parts = _exact(view) if view.exact else _zoomed_out(view)
    lanes = (*_lanes(view), *parts)
    note = None if view.exact else paragraph(zoomed_out_note(view), WIDTH, "soft")
    verdict = (paragraph(line, WIDTH - TOKENS_WIDE) for line in view.simulated.sentences)
    return column(
        column(text(title(view), size=13, bold=True), text(view.note, "soft"), gap=3),
        column(drawn(lanes, WIDTH, BOTTOM + EDGE), _axis(view), gap=0),
        note,
        _queues(view),
        flow((row(sample, text(words), gap=6) for sample, words in _entries(view)), WIDTH),
        row(sized(text("tokens", bold=True), TOKENS_WIDE), column(*verdict, gap=2), gap=0),
    )


def _exact(view: ProgramWindow) -> Iterator[Shape]:
    """Draw instructions, waiting and tokens one by one."""
    boxes = _boxes(view)
    yield from _waits(view, boxes)
    yield from (_group(view, event, boxes[event.index]) for event in view.events)
    yield from _stuck(view, boxes)
    yield from arrows(view, boxes)
    yield from _edited(view, boxes)


def _zoomed_out(view: ProgramWindow) -> Iterator[Shape]:
    """Draw columns with shares of time; draw single instructions only if edited or blocked."""
    yield from share_shapes(view)
    yield from column_shapes(view)
    boxes: dict[int, tuple[float, float]] = {}
    for n in view.changed:
        event = view.simulated.event(n)
        if event is not None and view.span.begin <= event.start <= view.span.end:
            boxes[n] = view.x(event.start), view.x(event.end)
    yield from _stuck(view, boxes)
    yield from _edited(view, boxes)


def _edited(view: ProgramWindow, boxes: Mapping[int, tuple[float, float]]) -> Iterator[Shape]:
    """Draw what can be edited, and an invisible line at each moment, which its frame shows."""
    yield from removed_arrows(view, boxes)
    yield from flags(view, boxes)
    for t in moments(view) if view.exact else view.columns.edges[:-1].tolist():
        yield Rect(view.x(t) - 1, TOP - 10, 2, BOTTOM - TOP + 20, "hidden", f"t:{t:g}")


# --- lanes ----------------------------------------------------------------------------------------


def _lanes(view: ProgramWindow) -> Iterator[Shape]:
    """Draw the empty lane of each unit, with the unit's name and how busy it is."""
    run = view.simulated.run
    for unit in UNITS:
        y = lane(unit)
        share = run.busy[unit] / run.cycles if run.cycles else 0.0
        yield Text(0, y + 17, unit.value, bold=True)
        yield Text(0, y + 33, f"{share:.0%} busy", "soft", 12)
        yield Rect(LEFT, y, view.right - LEFT, LANE, "frame")


def _boxes(view: ProgramWindow) -> dict[int, tuple[float, float]]:
    """Map each instruction to the edges of its box; a box of zero cycles is NOP pixels wide."""
    instant = Counter((e.unit, e.start) for e in view.events if e.start == e.end)
    boxes: dict[int, tuple[float, float]] = {}
    before: dict[accel.Unit, list[int]] = {unit: [] for unit in UNITS}
    for e in view.events:
        left, right = view.x(e.start), view.x(e.end)
        if e.start == e.end:
            left -= (NOP + 1) * instant[e.unit, e.start]
            instant[e.unit, e.start] -= 1
            right = left + NOP
        boxes[e.index] = left, max(right, left + 2)
        for n in reversed(before[e.unit]):  # shrink those that a nop at their end would overlap
            start, end = boxes[n]
            if end <= left:
                break
            boxes[n] = start, max(start + 2, min(end, left))
        before[e.unit].append(e.index)
    return boxes


def _group(view: ProgramWindow, event: accel.Event, box: tuple[float, float]) -> Group:
    """Draw one instruction: a box with its letter, thread and number, as far as they fit."""
    kind, letter = appearance(event.name)
    thread = view.threads[event.index]
    if view.by_thread:
        kind = THREADS[thread] if thread >= 0 else ""
    left, right = box
    text = f"{letter}{thread}" if thread >= 0 else letter
    text = text if text_width(text, 12) < right - left - 4 else letter
    shapes: list[Shape] = [Rect(left, lane(event.unit), right - left, LANE, kind)]
    room = right - left + 1 - 2 * (event.start < event.end)
    number = str(event.index)
    lines = [text] if text_width(text, 12) < room else []
    lines += [number] if text_width(number, 12) + 3 < room else []
    first = lane(event.unit) + 25 - NUMBER / 2 * (len(lines) - 1)
    for n, part in enumerate(lines):
        at = (left + right) / 2, first + NUMBER * n
        shapes.append(Text(*at, part, ink(kind), 12, "middle"))
    thread_text = f", virtual thread {thread}" if thread >= 0 else ""
    tip = f"{number} ({event.name}{thread_text}): cycles {event.start:,} to {event.end:,}"
    return Group(tuple(shapes), f"i:{number}", tip)


def _waits(view: ProgramWindow, boxes: Mapping[int, tuple[float, float]]) -> Iterator[Shape]:
    """Draw the time that units wait, with the reason if it fits."""
    for s in view.segments:
        if s.stall is None or s.begin == s.end:
            continue
        left, right = view.x(s.begin), view.x(s.end)
        if s.index in boxes and s.stall is not accel.Stall.ROOM:
            right = max(left, min(right, boxes[s.index][0]))
        kind = WAITS.get(s.stall, WAITS[TOKENS])[0]
        tip = f"{s.unit.value} waits for {s.stall.value} before {s.index}, {s.end - s.begin} cycles"
        yield Rect(left, lane(s.unit) + 6, right - left, LANE - 12, kind, f"w:{s.index}", tip)
        colour = ink(kind) if kind != "faint" else "soft"
        if text_width(s.stall.value, 12) < right - left - 4:
            at = (left + right) / 2, lane(s.unit) + 25
            yield Text(*at, s.stall.value, colour, 12, "middle")


def _stuck(view: ProgramWindow, boxes: dict[int, tuple[float, float]]) -> Iterator[Shape]:
    """Draw the instructions that wait for ever, and add their edges to `boxes`."""
    if not view.span.last:
        return
    for b in view.simulated.run.blocked:
        left, y = view.right + 16, lane(b.unit)
        if b.index not in boxes:  # an instruction blocked by a full queue has run
            boxes[b.index] = left, left + STUCK - 16
        box = Rect(left, y, STUCK - 16, LANE, "guard")
        text = f"{b.index} {b.name}", f"waits: {b.waits_for.value}"
        lines = [
            Text(left + 10, y + 17 + 15 * n, part, size=12, bold=not n)
            for n, part in enumerate(text)
        ]
        yield Group((box, *lines), f"i:{b.index}", str(b))


# --- below the lanes ------------------------------------------------------------------------------


def _axis(view: ProgramWindow) -> Box:
    """Draw the time axis below the lanes."""
    x = Axis(view.scale.low, view.scale.high, ticks=9, whole=True, label="{:,.0f}".format)
    axis = plot(x, Axis(hidden=True), (), view.right - LEFT, 0, inner=True)
    return over((axis, LEFT, 0), (text("cycle", "soft"), 0, 12))


def _queues(view: ProgramWindow) -> Box:
    """Draw the number of tokens in each queue over time."""
    x = Axis(view.scale.low, view.scale.high, hidden=True)
    rows = Axis(names=[""] * len(QUEUES), hidden=True, grid=True)
    marks, most = list[Mark](), list[str]()
    for n, queue in enumerate(QUEUES):
        steps = queue_depth(view, queue)
        if not view.exact:
            groups = groupby(most_within(steps, view.columns.edges), key=itemgetter(1))
            steps = [next(group) for _, group in groups]
        highest = max((count for _, count in steps), default=0)
        most.append(str(highest or ""))
        for (t, count), (after, _) in pairwise([*steps, (view.span.end, 0)]):
            if count:
                tip = f"{count} in {queue.value} from cycle {t:,.0f} to {after:,.0f}"
                tall = (1 - EDGE / QUEUE) * count / highest
                marks.append(Bar(t, n + 1 - tall, after, n + 1, "pale_blue", tip=tip))
    chart = plot(x, rows, marks, view.right - LEFT, QUEUE * len(QUEUES))
    names = column(*(_beside(f"in {queue.value}", LEFT) for queue in QUEUES), gap=0)
    return row(names, chart, indented(column(*map(_beside, most), gap=0), 4), gap=0)


def _beside(words: str, width: float = 0) -> Box:
    """Return text beside a queue."""
    return sized(text(words, "soft"), width, QUEUE, down=1)


def _entries(view: ProgramWindow) -> Iterator[tuple[Box, str]]:
    """Yield samples of the instructions, waits and tokens in this window, and what they mean."""
    for kind, letter, words in names_of(view):
        yield icon(kind, letters=letter), words
    stalls = {s.stall for s in view.segments if s.stall and s.begin < s.end} if view.exact else {
        w for w in WAITS if any(view.columns.waits[unit][w].any() for unit in UNITS)
    }  # fmt: skip
    for stall, (kind, words) in WAITS.items():
        if stall in stalls or (stall == TOKENS and stalls - set(WAITS)):
            yield icon(kind), words
    if view.exact:
        yield drawn(disc(5, 8, "push"), 10, 15), "push"
        yield drawn(disc(5, 8, "pop"), 10, 15), "pop"
        yield icon("arrow", "arrow"), "the data is there"
        yield icon("dashed", "arrow"), "the place is free"
    if view.removed:
        cross_entry = drawn(cross(11, 8), 26, 15)
        yield over((icon("removed", "arrow"), 0, 0), (cross_entry, 0, 0)), "removed"
    instructions = view.simulated.program.instructions
    if any(getattr(instructions[n].flags, f) for n, edit in view.changed.items() for f in edit):
        yield drawn(disc(5, 8, "push", "added"), 10, 15), "added"
    if view.exact:
        yield text("12"), "number of an instruction"
        if max(view.threads) >= 0:
            yield text("G1"), "of virtual thread 1"
