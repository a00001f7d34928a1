"""GridView: blocks and threads of a simulated GPU, what a warp's access costs, and races."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import runtime, schedule, tir
from minitvm.base import ArgumentError, check_kind

from .blocks import nest_of
from .boxes import Box, column, text
from .controls import Button, CodeLine, Control, Frame, Layout, Panel, Slider, index_in, numbered
from .figure import Figure
from .grid_run import GridRun, Step, barriers_of, default_arrays, grid_run, warp_lanes, without
from .grid_scene import (
    WIDTH,
    access_box,
    block_name,
    cost_text,
    errors,
    frames,
    played,
)
from .scene import Scene, clipped


class GridView(Figure):
    """Show the blocks and threads of a kernel, what they access, and what that costs.

    The upper half plays one block, an access at a time: which of its threads take part, and which
    elements of which memory they access. Gaps between the steps are barriers. A race is the step
    that is shown first: both threads, both lines and the element are marked.

    The lower half shows one access, chosen by a click in the list or in the program: which threads
    access the same sector of global memory or the same element of shared memory, and how the lanes
    of a warp spread over sectors, or over the banks of shared memory. Blocks that access the same
    elements of global memory as the chosen block are pale.

    f        a function for target "cuda -sim" with small arrays, as it runs several times
    args     its arguments, which are copied; by default arrays of different numbers
    access   the number of the access to show, from 0, as in print(f.check(...))
    block    the block to show, from 0; by default the one of the first race, or the first one
    """

    def __init__(
        self,
        f: runtime.GpuFunction,
        args: Sequence[Any] | None = None,
        *,
        access: int = 0,
        block: int | None = None,
    ) -> None:
        check_kind("GridView", f, runtime.GpuFunction, fix='tvm.build(s, args, "cuda -sim")')
        self._given = f
        self._args = default_arrays(f.func) if args is None else list(args)
        self._barriers = barriers_of(f.func)
        self.warp = self._removed = 0
        self.access = access
        self._run(None, block)
        accesses, blocks = len(self.run.report.accesses), self.run.report.launch.blocks
        if not 0 <= access < accesses:
            raise ArgumentError(f"access={access}", f"the kernel has accesses 0 to {accesses - 1}")
        if not 0 <= (block or 0) < blocks:
            raise ArgumentError(f"block={block}", f"the kernel has blocks 0 to {blocks - 1}")
        super().__init__()

    def _run(self, kernel: int | None = None, block: int | None = None) -> None:
        """Run the program, without the removed barrier, and show a block of a kernel."""
        f = self._given
        if self._removed:
            f = runtime.GpuFunction(without(f.func, self._removed), f.target, {})
        self.run: GridRun = grid_run(f, self._args, kernel, block)
        self._nest = nest_of(f.func)
        lines = {
            id(n): b.key
            for b in self._nest.all()
            if isinstance(b.stmt, tir.Store | tir.Evaluate)
            for n in tir.walk(b.stmt)
        }
        self._lines = {s.access: lines[id(s.node)] for s in self.run.steps if id(s.node) in lines}
        self._frames: tuple[Frame, ...] = frames(self.run, self._lines)

    @property
    def _step(self) -> Step | None:
        """The first step of the chosen access, one in which the chosen warp takes part if any."""
        steps = [s for s in self.run.steps if s.access == self.access]
        return next((s for s in steps if warp_lanes(s, self.warp)), next(iter(steps), None))

    # --- what is shown ---

    def title(self) -> str:
        run = self.run
        return f"{run.report.name}: {run.report.launch}; {block_name(run, run.block)}"

    def body(self) -> Box:
        """Draw the block that is played, and below it the chosen access."""
        step = self._step
        return column(
            text(self.title(), size=13, bold=True, width=WIDTH),
            played(self.run, self.access),
            access_box(self.run, step, self.warp) if step else None,
            gap=14,
        )

    def picture(self) -> Scene:
        """Draw the step of the race, or else the first one of the chosen access."""
        return self.stopped(self._frames[self._first()]) if self._frames else self.scene()

    def _first(self) -> int:
        if self.run.clash:
            return self.run.clash.second
        return next((n for n, s in enumerate(self.run.steps) if s is self._step), 0)

    def ascii(self) -> str:
        """Return the faults, and the cost of each access; a star marks the chosen one."""
        lines = [self.title(), *(f"FAULT: {fault}" for fault in errors(self.run)[:3])]
        for n, counts in enumerate(self.run.report.accesses[:8]):
            star = "*" if n == self.access else " "
            lines += [f"{star}{n} {clipped(counts.access, 660)}", f"     {cost_text(counts)}"]
        captions = [f.caption for f in self._frames[self._first() :][:1]]
        return "\n".join([*lines, "", *captions])

    def layout(self) -> Layout:
        accesses = tuple(
            CodeLine(
                f"{counts.space:7} {cost_text(counts).partition(', ')[2]:62} {counts.access}",
                f"access:{n}",
                "now" if n == self.access else "",
            )
            for n, counts in enumerate(self.run.report.accesses)
        )
        return Layout(
            controls=tuple(self._controls()),
            frames=self._frames,
            trail="seen",
            first=self._first(),
            panels=(
                Panel("accesses: click one", accesses),
                Panel("the program", numbered(self._nest.lines)),
            ),
        )

    def _controls(self) -> list[Control]:
        launch, most = self.run.report.launch, len(self.run.report.accesses) - 1
        run = self.run
        ranges = {
            "kernel": (run.kernels - 1, run.kernel),
            "block": (launch.blocks - 1, run.block),
            "access": (most, self.access),
            "warp": (launch.warps - 1, self.warp),
        }
        sliders = [Slider(name, name, 0, *limits) for name, limits in ranges.items() if limits[0]]
        buttons = [
            Button(f"barrier_{n}", f"remove barrier {n}", n != self._removed, "and look for races")
            for n in range(1, self._barriers + 1)
        ]
        back = Button("restore", "all barriers", bool(self._removed), "put the barrier back")
        return [*sliders, *buttons, *([back] if buttons else [])]

    def on(self, name: str, value: Any) -> str | None:
        if name.startswith("barrier_") or name == "restore":
            self._removed = int(name.partition("_")[2] or 0)
            self._run()
            faults = errors(self.run)
            return str(faults[0]) if faults else "no fault"
        if name == "kernel":
            self.access = self.warp = 0
            self._run(value)
            return None
        if name == "block":
            self._run(self.run.kernel, value)
            return None
        if name != "click":
            return super().on(name, value)
        launch = self.run.report.launch
        if (n := index_in(value, "block", launch.blocks)) is not None:
            self._run(self.run.kernel, n)
        elif (n := index_in(value, "thread", launch.threads)) is not None:
            self.warp = n // schedule.WARP
        elif (n := index_in(value, "access", len(self.run.report.accesses))) is not None:
            self.access = n
        else:
            self.access = next((n for n, key in self._lines.items() if key == value), self.access)
        return super().on(name, value)
