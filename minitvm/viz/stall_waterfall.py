"""StallWaterfall: how a unit of the accelerator spends its cycles."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import accel

from .boxes import Box, column, text
from .controls import Layout, Select, Toggle
from .figure import WIDTH, Figure
from .gantt import check_config, check_program
from .gantt_view import WAITS, appearance
from .layers_rows import cycle_parts, finished, overlapping
from .marks import Bar, Mark, Note, Path
from .plot import Axis, plot

KINDS = {f"waits: {s.value}": WAITS[s][0] for s in accel.Stall if s in WAITS}


class StallWaterfall(Figure):
    """Show how a unit spends its cycles: its work, its waiting by reason, and the rest.

    A unit waits for a reason in accel.Stall: a token of a queue, the channel to DRAM, a full queue.
    Controls choose the unit, and whether the units overlap or run one at a time.

    config   the accelerator; by default vta_pynq

    Raises ArgumentError if `program` is not a Program, or deadlocks.
    """

    def __init__(self, program: accel.Program, config: accel.Config | None = None) -> None:
        check_program("StallWaterfall", program)
        self.config = check_config(config)
        self._runs = {
            True: finished("given", program, self.config),
            False: finished("one unit at a time", accel.serial(program), self.config),
        }
        self.unit, self.hiding = accel.Unit.COMPUTE.value, True
        super().__init__()

    @property
    def parts(self) -> dict[str, int]:
        """The cycles of each activity of the unit; they add up to the cycles of the run."""
        return cycle_parts(self._runs[self.hiding], accel.Unit(self.unit))

    def title(self) -> str:
        run, unit = self._runs[self.hiding], f"the {self.unit} unit"
        if self.hiding:
            overlap = f"units overlap in {overlapping(run):.1%} of them"
            return f"{unit}, as it runs: {run.cycles:,} cycles; {overlap}"
        return f"{unit}, the same instructions one unit at a time: {run.cycles:,} cycles"

    def body(self) -> Box:
        """Draw a bar for all cycles, then one for each part."""
        names = ("all cycles", *self.parts)
        cycles = Axis(0, max(1, sum(self.parts.values())), hidden=True)
        bars = plot(cycles, Axis(names=names), self._bars(), WIDTH, 30 * len(names) + 6)
        return column(text(self.title(), size=13, bold=True), bars)

    def _bars(self) -> Iterator[Mark]:
        total, left = max(1, sum(self.parts.values())), 0
        yield Bar(0, 0, total, 1, "faint", inset=4)
        yield Note(total, 0.5, f"{total:,}")
        for n, (name, cycles) in enumerate(self.parts.items()):
            kind = "faint" if name.startswith("nothing") else appearance(name)[0]
            kind = KINDS.get(name, "vectorize") if name.startswith("waits") else kind
            tip, share = f"{name}: {cycles:,} cycles", f"{cycles / total:.1%}"
            if n:
                yield Path([(left, n + 0.85), (left, n + 1.15)], "axis")
            yield Bar(left, n + 1, left + cycles, n + 2, kind, f"part:{n}", tip, inset=4)
            left += cycles
            yield Note(left, n + 1.5, f"{cycles:,}, {share}")

    def ascii(self) -> str:
        total = max(1, sum(self.parts.values()))
        lines = (f"{name:22}{n:>12,}{n / total:>8.1%}" for name, n in self.parts.items())
        return "\n".join([self.title(), *lines])

    def layout(self) -> Layout:
        units = tuple(unit.value for unit in accel.Unit)
        unit = Select("unit", "unit", units, self.unit)
        return Layout((unit, Toggle("hiding", "latency hiding", self.hiding)), selectable="part:")
