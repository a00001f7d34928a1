"""The part of a program's run that TokenGantt draws, with its title, colours and frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minitvm import accel

from .chart import Scale
from .controls import Frame
from .gantt_run import UNITS, Segment, SimulatedRun, Span, Token
from .gantt_shares import TOKENS, Columns, columns_of

WIDTH, LEFT, RIGHT = 840, 92, 12  # pixels: the picture, and the margins of the time axis
TOP, LANE, GAP = 12, 40, 46  # pixels: y of the first lane, height of a lane, gap between lanes
COLUMN = 6  # the width of a column of shares
STUCK = 120  # the width of a unit that waits for ever
FRAMES = 160  # most frames per window
SAID = 3  # most removed tokens that are named
LOOKS = {  # mnemonic -> kind and letter; any other mnemonic is an operation of the ALU
    "load inp": ("pale_sky", "I"),
    "load wgt": ("pale_blue", "W"),
    "load uop": ("pale_pink", "U"),
    "load acc": ("pale_pink", "C"),
    "load acc_8bit": ("pale_pink", "c"),
    "gemm": ("pale_orange", "G"),
    "reset": ("pale_yellow", "R"),
    "alu": ("pale_red", "A"),
    "store": ("pale_green", "S"),
    "nop": ("grey", "n"),
    "finish": ("grey", "F"),
}
WAITS = {  # reason for waiting -> kind and text
    TOKENS: ("faint", "waits for a token"),
    accel.Stall.CHANNEL: ("bind", "waits for DRAM"),
    accel.Stall.FETCH: ("unroll", "waits to be fetched"),
    accel.Stall.ROOM: ("tensorize", "waits for room"),
}
THREADS = ("pale_sky", "pale_orange", "pale_green", "pale_pink")


def lane(unit: accel.Unit) -> float:
    """Return the y coordinate of the upper edge of a unit's lane."""
    return TOP + UNITS.index(unit) * (LANE + GAP)


@dataclass(frozen=True, eq=False)
class ProgramWindow:
    """A window of a program's run, with everything that is needed to draw it.

    zoom      0 shows the whole program, simulated.steps shows single instructions
    window    the number of the window at this zoom
    threads   the virtual thread of each instruction, -1 for none
    changed   instruction -> its flags that were dropped or added
    note      the line below the title
    removed   the tokens of the given program that the edited program lacks
    by_thread   whether the colours show virtual threads
    """

    simulated: SimulatedRun
    zoom: int
    window: int
    threads: tuple[int, ...]
    changed: Mapping[int, tuple[str, ...]]
    note: str
    removed: tuple[Token, ...] = ()
    by_thread: bool = False

    @property
    def exact(self) -> bool:
        """Whether single instructions are drawn, instead of shares of the time."""
        return self.zoom == self.simulated.steps

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The windows at this zoom."""
        return self.simulated.spans(self.zoom)

    @property
    def span(self) -> Span:
        """The window that is drawn."""
        return self.spans[self.window]

    @cached_property
    def events(self) -> list[accel.Event]:
        """The instructions that run in the window."""
        return self.simulated.events(self.span)

    @cached_property
    def segments(self) -> list[Segment]:
        """The periods of work and waiting in the window."""
        return self.simulated.segments(self.span)

    @cached_property
    def columns(self) -> Columns:
        """The window divided into columns of a few pixels, each at least one cycle long."""
        cycles = max(1, self.span.end - self.span.begin)
        count = min(cycles, int(self.right - LEFT) // COLUMN)
        operations = [operation(name) for name in self.simulated.names]
        if self.by_thread:
            operations = [str(t) if t >= 0 else "" for t in self.threads]
        return columns_of(self.simulated, self.span, count, operations)

    @property
    def right(self) -> float:
        """The x coordinate of the end of the window."""
        return WIDTH - RIGHT - (STUCK if self.span.last and self.simulated.run.blocked else 0)

    @cached_property
    def scale(self) -> Scale:
        """The scale from the cycles of the window to x coordinates."""
        begin = self.span.begin
        return Scale(begin, max(self.span.end, begin + 1), LEFT, self.right)

    def x(self, cycle: float) -> float:
        """Return the x coordinate of a time; a time outside the window is drawn at its edge."""
        return self.scale.at(cycle)


def operation(name: str) -> str:
    """Return the key in LOOKS for a mnemonic: gemm -> gemm, shr -> alu"""
    return name if name in LOOKS else "alu"


def appearance(name: str) -> tuple[str, str]:
    """Return the (kind, letter) in which instructions with this mnemonic are drawn."""
    return LOOKS[operation(name)]


def names_of(view: ProgramWindow) -> list[tuple[str, str, str]]:
    """Return the legend of the boxes in the window: (kind, letter, text) for each colour."""
    table = view.simulated.table
    indices: list[int] = table["index"][view.span.meets(table["start"], table["end"])].tolist()
    if view.by_thread:
        used = sorted({view.threads[n] for n in indices})
        return [(THREADS[t], str(t), f"virtual thread {t}") for t in used if t >= 0]
    present = {operation(view.simulated.names[n]) for n in indices}
    return [(*LOOKS[name], name) for name in LOOKS if name in present]


def title(view: ProgramWindow) -> str:
    """Return the title, such as "515 cycles, ...; window 2 of 5: cycles 100 to 203"."""
    run, span = view.simulated.run, view.span
    text = f"{run.cycles:,} cycles, the matrix unit is used {run.utilisation:.1%}"
    if run.blocked:
        text = f"deadlock after {run.cycles:,} cycles"
    windows = len(view.spans)
    if windows > 1:
        text += f"; window {view.window + 1} of {windows}: cycles {span.begin:,} to {span.end:,}"
    return text


def removed_text(view: ProgramWindow) -> list[str]:
    """List the first removed tokens, such as ["removed: token 2 of g2l (5 to 7)"]; [] if none."""
    names = [f"token {t.number} of {t.queue.value} ({t.push} to {t.pop})" for t in view.removed]
    if len(names) > SAID:
        names[SAID:] = [f"and {len(names) - SAID} more"]
    return [f"removed: {', '.join(names)}"] if names else []


def queue_depth(view: ProgramWindow, queue: accel.Queue) -> list[tuple[int, int]]:
    """Return (cycle, new number of tokens) for each change within the window."""
    begin, end, t = view.span.begin, view.span.end, view.simulated.tokens[queue]
    sent, taken = t.sent[t.sent >= 0], t.taken[(t.sent >= 0) & (t.taken >= 0)]
    change = np.repeat([1, -1], [len(sent), len(taken)])
    times, at = np.unique(np.maximum(begin, np.concatenate([sent, taken])), return_inverse=True)
    counts = np.cumsum(np.bincount(at, change, len(times))).astype(int)
    is_before_end = times < end
    return list(zip(times[is_before_end].tolist(), counts[is_before_end].tolist(), strict=True))


def moments(view: ProgramWindow) -> list[int]:
    """Return the first FRAMES cycles of the window at which an instruction starts or ends."""
    begin, end = view.span.begin, view.span.end
    times = {t for e in view.events for t in (e.start, e.end)} | {begin}
    return sorted(t for t in times if begin <= t <= end)[:FRAMES]


def gantt_frames(view: ProgramWindow) -> tuple[Frame, ...]:
    """Return a frame for each of `moments`: the state of each unit and the tokens in queues."""
    frames: list[Frame] = []
    depths = {q: queue_depth(view, q) for q in accel.Queue}
    for t in moments(view):
        lines, marks = [f"cycle {t:,}"], dict[str, str]()
        for unit in accel.Unit:
            s = _doing(view, unit, t)
            lines.append(f"{unit.value:8} {_doing_text(view, s)}")
            if s is not None and s.stall is None:
                marks[f"i:{s.index}"] = "now"
        counts = (
            f"{queue.value} {next((n for at, n in reversed(steps) if at <= t), 0)}"
            for queue, steps in depths.items()
        )
        caption = "\n".join([*lines, f"tokens   {'  '.join(counts)}"])
        frames.append(Frame({**marks, f"t:{t}": "start"}, caption))
    return tuple(frames)


def _doing(view: ProgramWindow, unit: accel.Unit, t: int) -> Segment | None:
    """Return the segment of a unit that contains cycle `t`, or begins and ends at it, or None."""
    segments = [s for s in view.segments if s.unit is unit]
    segments_at_t = (s for s in segments if s.begin <= t < s.end)
    return next(segments_at_t, next((s for s in segments if s.begin == s.end == t), None))


def _doing_text(view: ProgramWindow, s: Segment | None) -> str:
    if s is None:
        return "has nothing to do"
    name = f"{s.index} ({view.simulated.names[s.index]})"
    if s.stall is None:
        return f"runs {name} until {s.end:,}"
    return f"waits for {s.stall.value} before {name} since {s.begin:,}"
