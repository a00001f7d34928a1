"""TokenQueues: the units of the accelerator, and the four queues of tokens between them."""

from __future__ import annotations

from collections.abc import Iterator

from .boxes import Box, drawn
from .figure import WIDTH, Figure
from .gantt_tokens import disc
from .scene import Line, Rect, Shape, Text

UNITS = ((0, 104, "load", "ld"), (316, 156, "compute", "ex"), (684, 104, "store", "st"))
MEMORIES = "INP, WGT", "OUT"  # between two units each
QUEUES = (  # two between two units: to the right, to the left
    (("l2g", "the data is there"), ("g2l", "the place is free")),
    (("g2s", "the result is there"), ("s2g", "the result has been fetched")),
)
HEIGHT, FIRST, BETWEEN = 178, 108, 48  # pixels: of a unit, to its first queue, between two queues


class TokenQueues(Figure):
    """Show which unit pushes to each queue of tokens, and which unit pops from it."""

    def title(self) -> str:
        return "the units of the accelerator, and the queues of tokens between them"

    def body(self) -> Box:
        units = (shape for n in range(3) for shape in _unit(n))
        pairs = (shape for n in range(2) for shape in _between(n))
        return drawn((*units, *pairs), WIDTH, HEIGHT)

    def ascii(self) -> str:
        lines = list[str]()
        for (*_, left, _), (*_, right, _), pair in zip(UNITS, UNITS[1:], QUEUES, strict=False):
            for (queue, says), ends in zip(pair, ((left, right), (right, left)), strict=True):
                lines.append(f"{queue}: {' -> '.join(ends)}, {says}")
        return "\n".join(lines)


def _unit(n: int) -> Iterator[Shape]:
    x, wide, name, short = UNITS[n]
    yield Rect(x, 0, wide, HEIGHT, "serial" if n == 1 else "pale_sky", radius=6)
    yield Text(x + wide / 2, 34, f"{name} unit", "on_light", 14, "middle", bold=True)
    yield Text(x + wide / 2, 54, short, "on_light", 12, "middle", mono=True)


def _between(n: int) -> Iterator[Shape]:
    """Draw the memory and both queues between unit n and the next one."""
    (x, wide, _, short), (right, _, _, other) = UNITS[n : n + 2]
    left, middle = x + wide, (x + wide + right) / 2
    yield Rect(middle - 42, 14, 84, 44, "memory")
    yield Text(middle, 41, MEMORIES[n], anchor="middle", bold=True)
    for words, start, end in (("writes", left, middle - 43), ("reads", middle + 42, right)):
        yield Line(((start, 38), (end - 1, 38)), "line", arrow=True)
        yield Text((start + end) / 2 - 2, 32, words, "soft", 12, "middle")
    for k, (queue, says) in enumerate(QUEUES[n]):
        y, flags = FIRST + BETWEEN * k, ("pop", "push") if k else ("push", "pop")
        start, end = (right, left + 6) if k else (left, right - 6)
        yield Line(((start, y), (end, y)), "dashed" if k else "arrow", arrow=True)
        yield Text(middle, y - 8, f"{queue}: {says}", size=12, anchor="middle")
        yield from (*disc(left, y, flags[0]), *disc(right, y, flags[1]))
        yield Text(left - 9, y + 4, f"{flags[0]} {other}", "on_light", 12, "end", mono=True)
        yield Text(right + 9, y + 4, f"{flags[1]} {short}", "on_light", 12, mono=True)
