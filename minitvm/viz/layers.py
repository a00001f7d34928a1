"""LayerRoofline, StallWaterfall, OverlapBars, AmdahlBar: what latency hiding gains, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from minitvm import accel
from minitvm.base import ArgumentError, check_kind

from .chart import seconds_text, short
from .controls import (
    CodeLine,
    Frame,
    Layout,
    Panel,
    Select,
    TextInput,
    Toggle,
    both_ways,
    index_in,
    numbered,
)
from .gantt import check_config, check_program
from .layers_rows import (
    CORTEX_A9,
    Cpu,
    LayerRow,
    NetworkPart,
    amdahl,
    cycle_parts,
    finished,
    named_baseline,
    overlapping,
)
from .layers_scene import (
    amdahl_bars,
    layers_roofline,
    overlap_bars,
    overlap_text,
    stall_waterfall,
)
from .scene import Scene
from .visual import Visual

MOST = 40  # rows: more would be too small to tell apart
T = TypeVar("T")


def several(who: str, rows: Any, kind: type[T], example: str) -> tuple[T, ...]:
    """Return `rows` as a tuple; raise ArgumentError unless they are 1 to MOST objects of `kind`."""
    found = tuple(cast("Iterable[Any]", rows)) if isinstance(rows, Iterable) else ()
    if not found or not all(isinstance(row, kind) for row in found):
        raise ArgumentError(f"{who}({rows!r:.60})", f"not a list of {kind.__name__}", example)
    if len(found) > MOST:
        raise ArgumentError(
            f"{who} of {len(found)} rows", f"at most {MOST} can be told apart", "fewer rows"
        )
    return found


class LayerRoofline(Visual):
    """Show the utilisation of layers in a roofline plot, as arrows from baseline to program.

    An arrow leans if the two programs move different numbers of bytes. The line above all arrows is
    the limit set by the bandwidth of DRAM and the peak of the matrix unit. The short bar above an
    arrow is the limit of its layer: the matrix unit also resets accumulators and waits for the ALU.

    rows     a LayerRow for each layer. layer_row(name, program) makes one by simulation; its
             default baseline is the same program with one unit at a time
    config   the accelerator; by default vta_pynq

    Source: Chen et al. 2018, "TVM", figure 10.
    """

    def __init__(self, rows: Sequence[LayerRow], config: accel.Config | None = None) -> None:
        self.rows = several("LayerRoofline", rows, LayerRow, "[viz.layer_row(name, program)]")
        self.config = check_config(config)
        super().__init__()

    def scene(self) -> Scene:
        """Draw the chart."""
        return layers_roofline(self.rows, self.config)

    def ascii(self) -> str:
        """Return the chart as text."""
        both = f"{'op/byte':>9}{'baseline':>10}{'op/byte':>9}{'as it runs':>12}"
        head = f"{'':14}{both}{'DRAM roof':>11}{'own roof':>10}"
        against = f"baseline: {named_baseline(self.rows)}"
        return "\n".join([head, *map(self._row, self.rows[:21]), self._mean(), against])

    def _row(self, r: LayerRow) -> str:
        before = f"{r.baseline_intensity:>9.3g}{r.utilisation(self.config, False):>10.1%}"
        after = f"{r.intensity:>9.3g}{r.utilisation(self.config):>12.1%}"
        roofs = f"{r.dram_roof(self.config):>11.1%}{r.roof:>10.1%}"
        return f"{short(r.name, 13):14}{before}{after}{roofs}"

    def _mean(self) -> str:
        """Describe the mean utilisation of the layers, and the utilisation of all in sequence."""
        peak = 2 * self.config.macs_per_cycle
        operations = sum(r.operations for r in self.rows)
        texts: list[str] = []
        for hiding in (False, True):
            mean = sum(r.utilisation(self.config, hiding) for r in self.rows) / len(self.rows)
            cycles = sum(r.cycles if hiding else r.baseline_cycles for r in self.rows)
            texts.append(f"{mean:.1%} and {operations / peak / cycles:.1%}")
        return f"mean of the layers and all in a row: {' -> '.join(texts)}"

    def layout(self) -> Layout:
        """Return a frame for each layer, the table of layers, and what can be selected."""
        lines = self.ascii().split("\n")
        head, rows, about = lines[0], lines[1:-2], lines[-2:]
        listed = (CodeLine(head), *numbered(rows, "row"), *map(CodeLine, about))
        return Layout(
            frames=tuple(self._frame(n, r) for n, r in enumerate(self.rows)),
            links=both_ways((f"layer:{n}", f"row:{n}") for n in range(len(rows))),
            panels=(Panel("layers", listed),),
            selectable="layer:",
        )

    def _frame(self, n: int, r: LayerRow) -> Frame:
        return Frame({f"layer:{n}": "now", f"row:{n}": "now"}, self._describe(r))

    def _describe(self, r: LayerRow) -> str:
        """Describe a layer: its utilisation, its speedup, and what limits it."""
        before, after = (r.utilisation(self.config, hiding) for hiding in (False, True))
        own = r.roof < r.dram_roof(self.config)
        limit = "resets and ALU operations" if own else "the bandwidth of DRAM"
        limit = "the peak" if r.bound(self.config) == 1 else limit
        text = (
            f"{r.name}: {before:.1%} -> {after:.1%}, {r.speedup:.2f} times as fast as {r.against}"
        )
        return f"{text}\nat most {r.bound(self.config):.1%}: the limit is {limit}"

    def on(self, name: str, value: Any) -> str | None:
        """Describe the clicked layer; return None if no layer was clicked."""
        n = index_in(value, "layer", len(self.rows))
        return None if n is None else self._describe(self.rows[n])


class StallWaterfall(Visual):
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
        self._unit, self._hiding = accel.Unit.COMPUTE, True
        super().__init__()

    @property
    def parts(self) -> dict[str, int]:
        """The cycles of each activity of the unit; they add up to the cycles of the run."""
        return cycle_parts(self._runs[self._hiding], self._unit)

    def _title(self) -> str:
        run, unit = self._runs[self._hiding], f"the {self._unit.value} unit"
        if self._hiding:
            overlap = f"units overlap in {overlapping(run):.1%} of them"
            return f"{unit}, as it runs: {run.cycles:,} cycles; {overlap}"
        return f"{unit}, the same instructions one unit at a time: {run.cycles:,} cycles"

    def scene(self) -> Scene:
        """Draw the chart."""
        return stall_waterfall(self.parts, self._title())

    def ascii(self) -> str:
        """Return the chart as text."""
        total = max(1, sum(self.parts.values()))
        lines = [f"{name:22}{n:>12,}{n / total:>8.1%}" for name, n in self.parts.items()]
        return "\n".join([self._title(), *lines])

    def layout(self) -> Layout:
        """Return the controls; the bars can be selected."""
        units = tuple(unit.value for unit in accel.Unit)
        return Layout(
            controls=(
                Select("unit", "unit", units, self._unit.value),
                Toggle("hiding", "latency hiding", self._hiding),
            ),
            selectable="part:",
        )

    def on(self, name: str, value: Any) -> str | None:
        """Handle a control, or describe what was clicked."""
        match name:
            case "unit":
                self._unit = accel.Unit(value)
            case "hiding":
                self._hiding = value
            case _:
                parts = list(self.parts.items())
                n = index_in(value, "part", len(parts))
                return None if n is None else f"{parts[n][0]}: {parts[n][1]:,} cycles"
        return None


class OverlapBars(Visual):
    """Show which units work at the same time in each layer, and how much time that saves.

    The mark on a bar is the time of the baseline; the empty part before it is the time saved.

    rows   layer_row(name, program) for each layer, or a LayerRow with overlap=. The default
           baseline is the same program with one unit at a time
    """

    def __init__(self, rows: Sequence[LayerRow]) -> None:
        self.rows = several("OverlapBars", rows, LayerRow, "[viz.layer_row(name, program)]")
        for row in self.rows:
            if not sum(row.overlap.values()):
                raise ArgumentError(
                    f"OverlapBars: {row.name!r}", "the row has no overlap", "overlap=run.overlap"
                )
        super().__init__()

    def scene(self) -> Scene:
        """Draw the chart."""
        return overlap_bars(self.rows)

    def ascii(self) -> str:
        """Return the chart as text."""
        return "\n".join(self._describe(r) for r in self.rows[:24])

    def layout(self) -> Layout:
        """Return a layout in which the bars can be selected."""
        return Layout(selectable="layer:")

    def _describe(self, r: LayerRow) -> str:
        return f"{r.name}: {overlap_text(r)}; {r.speedup:.2f} times as fast as {r.against}"

    def on(self, name: str, value: Any) -> str | None:
        """Describe the clicked layer; return None if no layer was clicked."""
        n = index_in(value, "layer", len(self.rows))
        return None if n is None else self._describe(self.rows[n])


OWN = "another CPU"


class AmdahlBar(Visual):
    """Show a network's time with and without an accelerator; the layers on the CPU limit the gain.

    works   NetworkPart(name, operations, seconds) for each part that runs on the accelerator, and
            NetworkPart(name, operations) for each part that stays on the CPU
    cpu     Cpu(name, gflops), by default the Cortex-A9 of the Pynq board; another speed can be
            typed in

    Source: Chen et al. 2018, "TVM", figure 21; Amdahl 1967.
    """

    def __init__(self, works: Sequence[NetworkPart], cpu: Cpu = CORTEX_A9) -> None:
        self.works = several(
            "AmdahlBar", works, NetworkPart, '[viz.NetworkPart("conv", 3.4e9, 0.04)]'
        )
        self.cpu = self._given = check_kind("cpu", cpu, Cpu, fix='viz.Cpu("laptop", 50.0)')
        super().__init__()

    def scene(self) -> Scene:
        """Draw the chart."""
        return amdahl_bars(self.works, self.cpu)

    def ascii(self) -> str:
        """Return the chart as text."""
        a = amdahl(self.works, self.cpu)
        limit = "" if math.isinf(a.most) else f", {a.most:.3g} times at most"
        return (
            f"{self.cpu.name}, {self.cpu.gflops:.3g} GFLOP/s\n"
            f"CPU alone {seconds_text(a.alone)}, with the accelerator {seconds_text(a.together)}: "
            f"{a.speedup:.3g} times as fast{limit}"
        )

    def layout(self) -> Layout:
        """Return the controls; the parts of the bars can be selected."""
        names = tuple(dict.fromkeys((self._given.name, CORTEX_A9.name, OWN)))
        return Layout(
            controls=(
                Select("cpu", "CPU", names, self.cpu.name),
                TextInput("gflops", "GFLOP/s", f"{self.cpu.gflops:g}", 6),
            ),
            selectable="work:",
        )

    def on(self, name: str, value: Any) -> str | None:
        """Handle a control, or describe what was clicked."""
        match name:
            case "cpu":
                known = {c.name: c for c in (CORTEX_A9, self._given)}
                self.cpu = known.get(value, Cpu(OWN, self.cpu.gflops))
            case "gflops":
                self.cpu = Cpu(OWN, _number(value))
            case _:
                n = index_in(value, "work", len(self.works))
                return None if n is None else self._describe(n)
        return self.ascii().split("\n")[1]

    def _describe(self, n: int) -> str:
        work = self.works[n]
        text = f"{work.name}: {seconds_text(work.operations / self.cpu.gflops / 1e9)} on the CPU"
        there = work.seconds
        return text if there is None else f"{text}, {seconds_text(there)} on the accelerator"


def _number(text: str) -> float:
    """Parse a typed number; raise ArgumentError if it is not one."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"GFLOP/s {text!r}", "not a number", "2.2") from None
