"""OverlapBars: which units of the accelerator work at the same time, and the time this saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitvm import accel
from minitvm.base import ArgumentError

from .boxes import Box, column, legend, text
from .controls import Layout
from .figure import WIDTH, Figure
from .layers_rows import LayerRow, Units, named_baseline, several
from .marks import Bar, Mark, Note, Path, Together
from .plot import Axis, plot

OVERLAPS: dict[Units, tuple[str, str, str]] = {  # kind, letters, name
    (accel.Unit.LOAD,): ("pale_sky", "L", "load"),
    (accel.Unit.COMPUTE,): ("pale_orange", "C", "compute"),
    (accel.Unit.STORE,): ("pale_green", "S", "store"),
    (accel.Unit.LOAD, accel.Unit.COMPUTE): ("sky", "LC", "load and compute"),
    (accel.Unit.COMPUTE, accel.Unit.STORE): ("orange", "CS", "compute and store"),
    (accel.Unit.LOAD, accel.Unit.STORE): ("green", "LS", "load and store"),
    (accel.Unit.LOAD, accel.Unit.COMPUTE, accel.Unit.STORE): ("pink", "LCS", "all three"),
    (): ("faint", "–", "none"),
}


class OverlapBars(Figure):
    """Show which units work at the same time in each layer, and how much time that saves.

    The mark on a bar is the time of the baseline; the empty part before it is the time saved.

    rows   layer_row(name, program) for each layer, or a LayerRow with overlap=. The default
           baseline is the same program with one unit at a time
    """

    def __init__(self, rows: Sequence[LayerRow]) -> None:
        self.rows = several("OverlapBars", rows, LayerRow, "[viz.layer_row(name, program)]")
        for row in self.rows:
            if not sum(row.overlap.values()):
                why = "the row has no overlap"
                raise ArgumentError(f"OverlapBars: {row.name!r}", why, "overlap=run.overlap")
        super().__init__()

    def title(self) -> str:
        return "which units work at the same time"

    def body(self) -> Box:
        names = Axis(names=[r.name for r in self.rows])
        bars = [m for n, r in enumerate(self.rows) for m in _bar(n, r)]
        note = f"times as fast as {named_baseline(self.rows)}, whose time is the mark"
        samples = {
            f"{kind} box {letters}": name
            for units, (kind, letters, name) in OVERLAPS.items()
            if any(r.overlap.get(units) for r in self.rows)
        }
        return column(
            text(self.title(), size=13, bold=True),
            plot(Axis(hidden=True), names, bars, WIDTH, 30 * len(self.rows) + 6),
            text(note, "soft", width=WIDTH, anchor="end"),
            legend(samples, WIDTH),
        )

    def ascii(self) -> str:
        return "\n".join(_describe(r) for r in self.rows[:24])

    def layout(self) -> Layout:
        return Layout(selectable="layer:")


def _bar(n: int, r: LayerRow) -> Iterator[Mark]:
    """Draw the parts of the bar of a layer, with the time of the baseline."""
    longest, total = max(r.cycles, r.baseline_cycles), sum(r.overlap.values())
    baseline, left = r.baseline_cycles / longest, 0.0
    parts: list[Mark] = [Bar(0, n, baseline, n + 1, "frame", inset=4)]
    for units, (kind, letters, name) in OVERLAPS.items():
        if cycles := r.overlap.get(units, 0):
            right = left + r.cycles / longest * cycles / total
            tip = f"{r.name}: {name} {cycles:,} cycles, {cycles / total:.1%}"
            parts.append(Bar(left, n, right, n + 1, kind, "", tip, letters, inset=4))
            left = right
    parts.append(Path([(baseline, n), (baseline, n + 1)], "line"))
    yield Together(parts, f"layer:{n}", _describe(r))
    yield Note(1, n + 0.5, f"{r.speedup:.2f} times")


def _describe(r: LayerRow) -> str:
    """Describe a layer, such as "C2: load 12%, compute 30%; 1.50 times as fast as ..."."""
    total = sum(r.overlap.values())
    shares = [(name, r.overlap.get(units, 0) / total) for units, (_, _, name) in OVERLAPS.items()]
    most = ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= 0.005)
    return f"{r.name}: {most}; {r.speedup:.2f} times as fast as {r.against}"
