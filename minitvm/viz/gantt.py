"""TokenGantt: three units, their tokens, and what latency hiding gains."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from textwrap import wrap
from typing import Any

import numpy as np

from minitvm import accel
from minitvm.base import ArgumentError, check_kind

from . import gantt_run
from .accelerator_use import uses
from .boxes import picture
from .controls import (
    Button,
    CodeLine,
    Control,
    Layout,
    Panel,
    Select,
    Slider,
    Toggle,
    both_ways,
    index_in,
)
from .gantt_columns import column_frames
from .gantt_scene import gantt_box
from .gantt_shares import columns_of
from .gantt_view import ProgramWindow, appearance, gantt_frames, names_of, removed_text, title
from .scene import Scene
from .visual import Visual

ACROSS = 64  # characters of a lane in text
COLUMNS = 42  # characters per line of the verdict's panel
COLOURS = ("instruction", "virtual thread")
WAITING, STUCK = ".", "!"


class TokenGantt(Visual):
    """Show the load, compute and store units over time, and the tokens they wait for.

    Boxes are instructions, arrows are tokens from push to pop, shading is waiting. A disc is a
    push, a ring is a pop. A click on either drops it, another click restores it. The buttons do so
    for the selected instruction. A click on an arrow drops its push and its pop; a click on the
    crossed-out red arrow restores them. The verifier then reports a deadlock with the blocked
    units, a race with an order that shows it, or a token that is left over. `program` is the
    edited program; the given one does not change.

    Without latency hiding, the same instructions run one unit at a time. The browser plays the run.
    A program of more than a hundred instructions is zoomed out at first: columns show the share of
    time that a unit spends on each activity. Zoom in, or click a column, to see the instructions of
    a part of the program.

    config   the accelerator; by default vta_pynq

    Raises ArgumentError if `program` is not a Program, and for addresses outside the memories.
    """

    def __init__(self, program: accel.Program, config: accel.Config | None = None) -> None:
        check_program("TokenGantt", program)
        self.config = check_config(config)
        self._hiding, self._by_thread, self._zoom, self._cut = True, False, 0, 0
        self._original = self._edited = gantt_run.simulated(program, self.config)
        self._serial = gantt_run.simulated(accel.serial(program), self.config)
        self._threads = gantt_run.virtual_threads(uses(program, self.config))
        super().__init__()

    @property
    def program(self) -> accel.Program:
        """The program with the tokens as edited in the widget."""
        return self._edited.program

    @cached_property
    def _serial_threads(self) -> tuple[int, ...]:
        return gantt_run.virtual_threads(uses(self._serial.program, self.config))

    @property
    def _simulated(self) -> gantt_run.SimulatedRun:
        return self._edited if self._hiding else self._serial

    # --- what is shown ---

    def _view(self) -> ProgramWindow:
        edits = gantt_run.changed(self.program, self._original.program) if self._hiding else {}
        removed = gantt_run.removed_tokens(self._original, self.program) if edits else ()
        threads = self._threads if self._hiding else self._serial_threads
        zoom = min(self._zoom, self._simulated.steps)
        window = self._cut // gantt_run.ZOOM ** (self._simulated.steps - zoom)
        window = min(window, len(self._simulated.spans(zoom)) - 1)
        shown = self._simulated, zoom, window, threads, edits, self._note()
        return ProgramWindow(*shown, tuple(removed), self._by_thread)

    def _note(self) -> str:
        """Return the line below the title: the cycles with and without latency hiding."""
        edited_run, serial_run = self._edited.run, self._serial.run
        if not self._hiding:
            return (
                "the same instructions one unit at a time"
                if edited_run.blocked
                else f"the same instructions one unit at a time; with its own tokens "
                f"{edited_run.cycles:,} cycles, "
                f"the matrix unit used {edited_run.utilisation:.1%}"
            )
        serial_text = f"the same instructions one unit at a time: {serial_run.cycles:,} cycles"
        if edited_run.blocked or not edited_run.cycles:
            return serial_text
        return (
            f"{serial_text}; as it runs {serial_run.cycles / edited_run.cycles:.2f} times as fast"
        )

    def scene(self) -> Scene:
        """Draw the lanes, queues and legend of the shown part of the run, and the verdict."""
        view = self._view()
        about = [view.note, *removed_text(view), *view.simulated.sentences]
        return picture(gantt_box(view), title(view), "\n".join(about))

    def ascii(self) -> str:
        """Return the lanes as rows of letters, then the cycles, removed tokens and the verdict."""
        view = self._view()
        lanes = [f"{unit.value:8}{lane_text(view, unit)}" for unit in accel.Unit]
        keys = "  ".join(f"{letter} {name}" for _, letter, name in names_of(view) if letter != "n")
        verdict = [part for line in self._simulated.sentences for part in wrap(line, 96)]
        below = [*removed_text(view), *verdict[:10]]
        return "\n".join([title(view), view.note, "", *lanes, "", keys, "", *below])

    def layout(self) -> Layout:
        view = self._view()
        shown = self._shown(view)
        links = both_ways((f"line:{n}", f"i:{n}") for n in shown)
        parts = [p for line in self._simulated.sentences for p in wrap(line, COLUMNS)]
        return Layout(
            controls=tuple(self._controls(view)),
            frames=gantt_frames(view) if view.exact else column_frames(view),
            links=links,
            panels=(
                Panel("instructions", self._lines(view, shown)),
                Panel("verdict", tuple(CodeLine(part) for part in parts)),
            ),
            selectable="i:" if view.exact else "c:",
        )

    def _controls(self, view: ProgramWindow) -> list[Control]:
        controls: list[Control] = [Toggle("hiding", "latency hiding", self._hiding)]
        if max(self._threads) >= 0:
            controls.append(Select("colour", "colour", COLOURS, COLOURS[self._by_thread]))
        if self._simulated.steps:
            controls.append(Slider("zoom", "zoom", 0, self._simulated.steps, view.zoom))
        if len(view.spans) > 1:
            controls.append(Slider("window", "window", 0, len(view.spans) - 1, view.window))
        for flag, name in gantt_run.FLAGS.items():
            tip = f"drop or add {flag} of the selected instruction"
            controls.append(Button(flag, name, self._hiding, tip))
        is_edited = self.program != self._original.program
        return [
            *controls,
            Button("restore", "restore all", is_edited, "the tokens as they were given"),
        ]

    def _shown(self, view: ProgramWindow) -> list[int]:
        """Return the numbers of the instructions to list: in the window, edited, or blocked."""
        within = set(view.changed)
        if view.exact:
            within |= {e.index for e in view.events}
        if view.span.last:
            within |= {b.index for b in self._simulated.run.blocked}
        return sorted(within)

    def _lines(self, view: ProgramWindow, shown: list[int]) -> tuple[CodeLine, ...]:
        """Return the listed instructions, marking edited ones and those that never run."""
        if not shown:
            return (CodeLine("zoom in, or click a column, to see them", note="later"),)
        notes = (
            "removed" if n in view.changed else "" if view.simulated.event(n) else "later"
            for n in shown
        )
        return tuple(
            CodeLine(f"{n:4}  {view.simulated.lines[n]}", f"line:{n}", note)
            for n, note in zip(shown, notes, strict=True)
        )

    # --- what happens ---

    def on(self, name: str, value: Any) -> str | None:
        """Handle a control or a click; an event that raises ArgumentError changes nothing."""
        match name:
            case "hiding":
                self._hiding, self._zoom, self._cut = value, 0, 0
            case "colour":
                self._by_thread = value == COLOURS[1]
            case "window":
                self._cut = value * gantt_run.ZOOM ** (self._simulated.steps - self._view().zoom)
            case "zoom":
                self._zoom = value
            case "restore":
                self._edited = self._original
                return "the tokens are as they were given"
            case "click":
                return self._click(value)
            case _:
                n = index_in(self.selected, "i", len(self.program.instructions))
                if n is None:
                    raise ArgumentError("no instruction is selected", fix="click an instruction")
                return self._toggle([(n, name)])
        return None

    def _click(self, key: str) -> str:
        """Drop or restore a flag or a token, zoom into a column, or describe an instruction."""
        match key.split(":"):
            case ["f", n, flag] if n.isdecimal():
                return self._toggle([(int(n), flag)])
            case ["k" | "x" as kind, queue, n] if n.isdecimal():
                return self._toggle(self._ends(queue, int(n), kind == "x"))
            case ["c", n] if n.isdecimal():
                return self._zoom_in(int(n))
            case ["i", n] if n.isdecimal():
                return self._describe(int(n))
            case _:
                return ""

    def _ends(self, queue: str, number: int, removed: bool) -> list[tuple[int, str]]:
        """Return (instruction, flag), such as (3, "push_next"), for a token's push and its pop.

        removed   only return those that were dropped, of a removed token
        """
        tokens = gantt_run.removed_tokens(self._original, self.program) if removed else [
            tokens.token(number)
            for tokens in self._edited.tokens.values()
            if number < len(tokens)
        ]  # fmt: skip
        edits = gantt_run.changed(self.program, self._original.program)
        for t in tokens:
            if (t.queue.value, t.number) == (queue, number):
                ends = zip((t.push, t.pop), gantt_run.ENDS[t.queue], strict=True)
                return [
                    (n, flag) for n, flag in ends
                    if (flag in edits.get(n, ()) if removed else n >= 0)
                ]  # fmt: skip
        why = "this token was not removed" if removed else "the program has no such token"
        raise ArgumentError(f"token {number} of {queue}", why)

    def _zoom_in(self, column: int) -> str:
        """Zoom in to the instructions in the middle of a column; return an empty message."""
        view = self._view()
        if view.exact or column >= len(view.columns.started):
            raise ArgumentError(f"column {column}", "the picture has no such column")
        middle = float(view.columns.edges[column : column + 2].mean())
        self._zoom = self._simulated.steps
        self._cut = bisect_right(self._simulated.cuts, middle) - 1
        self.selected = ""
        return ""

    def _toggle(self, flags: list[tuple[int, str]]) -> str:
        """Toggle flags on a copy of the program, simulate and verify it; describe the result."""
        if not self._hiding:
            why = "these tokens are generated, to run one unit at a time"
            raise ArgumentError("an edit without latency hiding", why, "switch latency hiding on")
        program = self.program
        edits: list[str] = []
        for n, flag in flags:
            program = gantt_run.toggled(program, n, flag)
            is_set = getattr(program.instructions[n].flags, flag)
            edits.append(f"{'added' if is_set else 'dropped'} {flag} of {accel.label(program, n)}")
        self._edited = gantt_run.simulated(program, self.config)
        self.selected = f"i:{flags[0][0]}"
        return "\n".join([*edits, *self._edited.sentences[:3]])

    def _describe(self, n: int) -> str:
        """Describe an instruction: when it ran, and what it waited for."""
        run, program = self._simulated.run, self._simulated.program
        if n >= len(program.instructions):
            why = f"the last one is {len(self.program.instructions) - 1}"
            raise ArgumentError(f"instruction {n}", why)
        name, event = accel.label(program, n), self._simulated.event(n)
        if event is None:
            return next((str(b) for b in run.blocked if b.index == n), f"{name} never runs")
        waits = ", ".join(f"{cycles:,} for {stall.value}" for stall, cycles in event.stalls)
        times = f"cycles {event.start:,} to {event.end:,}"
        return f"{name}: {times}" + (f"; waited {waits}" if waits else "")


# --- helpers -----------------------------------------------------------------------------------


def check_config(config: accel.Config | None) -> accel.Config:
    """Return `config`, or vta_pynq for None; raise ArgumentError if it is not a Config."""
    config = accel.vta_pynq if config is None else config
    return check_kind("config", config, accel.Config, fix="accel.vta_pynq")


def check_program(who: str, program: accel.Program) -> None:
    """Raise ArgumentError if `program` is not a Program; `who` is the name of the caller."""
    check_kind(f"{who}: program", program, accel.Program, fix="accel.parse(text)")


def lane_text(view: ProgramWindow, unit: accel.Unit) -> str:
    """Return a unit's time as text such as "GG..GG": letters for work, dots for waiting.

    Each character stands for an equal part of the time and shows what takes longest in that part;
    a blank is idle time. A final "!" means that the unit waits for ever.
    """
    letters = [appearance(name)[1] for name in view.simulated.names]
    columns = columns_of(view.simulated, view.span, ACROSS, letters)
    shares = {" ": np.zeros(ACROSS), **columns.work[unit]}
    shares[WAITING] = np.sum([*columns.waits[unit].values()], axis=0)
    longest: list[int] = np.argmax([*shares.values()], axis=0).tolist()
    lane = "".join(list(shares)[n] for n in longest)
    stuck = view.span.last and any(b.unit is unit for b in view.simulated.run.blocked)
    return (f"{lane}{STUCK}" if stuck else lane).rstrip()
