"""AcceleratorView: the contents of the accelerator's memories, instruction by instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm import accel

from .accelerator_run import MEMORIES, STEPS, engine, occupancy
from .accelerator_scene import WIDTH, accelerator_box, accelerator_frames, title, written_by
from .accelerator_use import NONE, Ints
from .boxes import Box, column, picture, text
from .chart import short
from .controls import CodeLine, Layout, Panel, Slider
from .figure import Figure
from .gantt import check_config, check_program
from .gantt_view import LOOKS
from .scene import Scene, marked

ACROSS = 64  # characters that show a memory as text


class AcceleratorView(Figure):
    """Show the memories of the accelerator while a program runs, one instruction at a time.

    The areas of DRAM are on the left, the memories in the middle, and the units that compute on
    the right. The contents of a memory have the colour and the name of what wrote them: an area of
    DRAM, or an instruction. Blue marks below a strip are elements that this step reads, red marks
    above it elements that it writes; arrows show the path of the data. The browser plays the steps;
    pointing at an instruction shows its step. A long program is shown in windows of 64 steps each.

    Indices count elements from the start of an area, whatever its shape: A[2, 6] are the elements 2
    and 6 of the area A, and A[2:15:4] is a slice.

    Instructions run in program order as far as the tokens permit; TokenGantt shows their times.

    config   the accelerator; by default vta_pynq

    Raises ArgumentError if `program` is not a Program, and for addresses outside the memories.
    """

    def __init__(self, program: accel.Program, config: accel.Config | None = None) -> None:
        check_program("AcceleratorView", program)
        self.config = check_config(config)
        self.program = program
        self._run, self.window = occupancy(program, self.config), 0
        super().__init__()

    @property
    def _start(self) -> int:
        return self.window * STEPS

    def title(self) -> str:
        return title(self._run)

    def body(self) -> Box:
        """Draw the memories and units; each frame adds the contents after its step."""
        return accelerator_box(self._run, self._start)

    def picture(self) -> Scene:
        """Draw the state after a step in the middle of the window, with a caption for that step."""
        step = self._middle()
        if step is None:
            return self.scene()
        lines = self._run.caption(step).split("\n")
        words = column(*(text(line, mono=True, width=WIDTH) for line in lines), gap=2)
        scene = picture(column(self.body(), words), self.title(), self.ascii())
        return marked(scene, accelerator_frames(self._run, self._start)[step - self._start].marks)

    def _middle(self) -> int | None:
        """Return a step in the window's second half, a GEMM if possible; None if no step runs."""
        steps = range(self._start, min(self._start + STEPS, len(self._run.order)))
        half = steps[len(steps) // 2 :]
        program, order = self.program, self._run.order
        busy = (s for s in half if engine(program, order[s]) == "gemm")
        return next(busy, half[0] if half else None)

    def ascii(self) -> str:
        """Return the state in `picture()` as text: the writer of each element, and the accesses."""
        step = self._middle()
        if step is None:
            return f"{self.config.name}: no instruction can run"
        caption = [short(line, 96) for line in self._run.caption(step).split("\n")]
        owner = next(self._run.states(step, step + 1))
        strips = [line for memory in MEMORIES for line in self._strip(memory, owner, step)]
        written = np.unique(np.concatenate([*owner.values()])).tolist()
        letters = {written_by(self._run, s)[1] for s in written if s >= 0}
        pairs = sorted((letter, name) for name, (_, letter) in LOOKS.items() if letter in letters)
        keys = "  ".join(f"{letter} {name}" for letter, name in pairs)
        return "\n".join([*caption, "", *strips, "", f"written by: {keys}"])

    def _strip(self, memory: accel.Memory, owner: dict[accel.Memory, Ints], step: int) -> list[str]:
        """Return a memory as text, "INP  IIII....  0..7", and marks: r read, w written, b both."""
        if memory not in self._run.used:
            return [f"{memory.name:5}unused"]
        count = self._run.shown[memory]
        cells = min(ACROSS, count)
        writers: list[int] = owner[memory].reshape(cells, -1).max(1).tolist()
        letters = "".join(written_by(self._run, s)[1] if s >= 0 else "." for s in writers)
        use = self._run.uses[self._run.order[step]]
        marks = [" "] * cells
        for verb, used in (("r", use.reads), ("w", use.writes)):
            for cell in np.unique(used.get(memory, NONE) * cells // count).tolist():
                marks[cell] = "b" if marks[cell] == "r" else verb
        below = f"     {''.join(marks)}".rstrip()
        return [f"{memory.name:5}{letters}  0..{count - 1}"] + ([below] if below else [])

    def layout(self) -> Layout:
        last = max(0, len(self._run.order) - 1) // STEPS
        return Layout(
            controls=(Slider("window", "window", 0, last, self.window),) if last else (),
            frames=accelerator_frames(self._run, self._start),
            first=(self._middle() or self._start) - self._start,
            columns=1,
            panels=(Panel("instructions", self._lines()),),
        )

    def _lines(self) -> tuple[CodeLine, ...]:
        """Return the instructions of the window in execution order."""
        count = len(self.program.instructions)
        lines = accel.text(self.program, self.config).split("\n")[-count:]
        order = self._run.order[self._start : self._start + STEPS]
        return tuple(CodeLine(f"{n:4}  {lines[n]}", f"line:{n}") for n in order)

    def on(self, name: str, value: Any) -> str | None:
        if name != "click":
            return super().on(name, value)
        match value.split(":"):  # "w:3:INP" -> "INP: A[0:16], written in step 4"
            case ["w", step, memory] if step.isdecimal() and int(step) < len(self._run.order):
                return f"{memory}: {self._run.text(int(step))}, written in step {int(step) + 1}"
            case ["line", n] if n.isdecimal() and int(n) in self._run.order:
                return self._run.caption(self._run.order.index(int(n)))
            case _:
                return ""
