"""A window of a program in time: what TokenGantt draws, its moments and what happens in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from minitvm.accel import Event, Queue, Unit, mnemonic

from .controls import Frame
from .gantt_run import Look, Segment

WIDTH, LEFT, RIGHT = 860, 104, 20  # pixels: all, and left and right of the time
STUCK = 120  # the width of a unit that waits for ever
FRAMES = 160  # moments of a window that are played, at most
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


def appearance(name: str) -> tuple[str, str]:
    """(kind, letter) of an instruction's mnemonic."""
    return LOOKS.get(name, LOOKS["alu"])


def names_of(view: View) -> list[tuple[str, str, str]]:
    """(kind, letter, text) of what the colours of boxes say."""
    if view.by_thread:
        used = sorted({view.threads[e.index] for e in view.events})
        return [(THREADS[t], str(t), f"virtual thread {t}") for t in used if t >= 0]
    present = {e.name if e.name in LOOKS else "alu" for e in view.events}
    return [(*LOOKS[name], name) for name in LOOKS if name in present]


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


def moments(view: View) -> list[int]:
    """The cycles of a window in which something begins or ends, so many as are played."""
    begin, end = view.span
    times = {t for e in view.events for t in (e.start, e.end)} | {begin}
    return sorted(t for t in times if begin <= t <= end)[:FRAMES]


def gantt_frames(view: View) -> tuple[Frame, ...]:
    """One frame for each moment: what runs, what each unit waits for, the tokens."""
    frames: list[Frame] = []
    depths = {q: queue_depth(view, q) for q in Queue}
    for t in moments(view):
        now = [_doing(view, unit, t) for unit in Unit]
        marks = {f"i:{s.index}": "now" for s in now if s is not None and s.stall is None}
        lines = [f"{u.value:8} {_doing_text(s, view)}" for u, s in zip(Unit, now, strict=True)]
        counts = "  ".join(f"{q.value} {_depth_at(depths[q], t)}" for q in Queue)
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
