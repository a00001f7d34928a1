"""LayerRoofline: layers on the accelerator as arrows under their roofs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitvm import accel

from .boxes import Box, column, legend, text
from .chart import short
from .controls import CodeLine, Frame, Layout, Panel, both_ways, numbered
from .figure import WIDTH, Figure
from .gantt import check_config
from .layers_rows import LayerRow, named_baseline, ridge, several
from .marks import Bar, Dot, Mark, Name, Path, Together
from .plot import Axis, plot

HEIGHT = 390  # pixels
CURVE = 48  # points of the roof of bandwidth, which a logarithmic axis bends
TENTHS = tuple(n / 10 for n in range(0, 11, 2))


class LayerRoofline(Figure):
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

    @property
    def _rates(self) -> str:
        c = self.config
        rates = f"{self._peak:.4g} GOP/s, {c.port_bytes * c.clock_hz / 1e9:.3g} GB/s"
        return f"{c.name}: {rates}"

    @property
    def _peak(self) -> float:
        """The peak of the matrix unit in GOP/s."""
        return 2 * self.config.macs_per_cycle * self.config.clock_hz / 1e9

    def title(self) -> str:
        return f"layers under two roofs, {self._rates}"

    def body(self) -> Box:
        """Draw each layer as an arrow from the baseline's utilisation to the program's."""
        corner = ridge(self.config)
        intensities = [i for r in self.rows for i in (r.intensity, r.baseline_intensity)]
        low, high = min(corner / 2, *intensities) / 1.5, max(corner * 2, *intensities) * 1.6
        x = Axis(low, high, "operations for each byte moved", log=True, power=2)
        y = Axis(0, 1, "matrix unit used", ticks=TENTHS, label="{:.0%}".format)
        peak = Axis(0, 1, "GOP/s", ticks=TENTHS, label=lambda v: f"{self._peak * v:.3g}")
        marks = [
            *self._roofs(low, high, corner),
            *(m for n in range(len(self.rows)) for m in self._layer(n)),
        ]
        samples = {
            "pale_blue dot": named_baseline(self.rows),
            "blue square": "as it runs",
            "red dash": "what resets and ALU operations leave",
            "line line": "bandwidth of DRAM, and peak",
        }
        return column(
            text(self._rates, size=13, bold=True),
            plot(x, y, marks, WIDTH, HEIGHT, y2=peak),
            legend(samples, WIDTH),
        )

    def _roofs(self, low: float, high: float, corner: float) -> Iterator[Mark]:
        """Draw the common roof of bandwidth and peak, and the areas below it."""
        slope = [
            (i, i / corner) for i in (low * (corner / low) ** (n / CURVE) for n in range(CURVE + 1))
        ]
        yield Path([*slope, (corner, 0), (low, 0)], "seen", filled=True)
        yield Bar(corner, None, None, None, "done")
        yield Path([*slope, (high, 1)])

    def _layer(self, n: int) -> Iterator[Mark]:
        """Draw the arrow of a layer, its roof on a thin stem, and the name at both if it fits."""
        r = self.rows[n]
        before, after = (r.utilisation(self.config, hiding) for hiding in (False, True))
        start, end = (r.baseline_intensity, before), (r.intensity, after)
        marks = (
            Path([end, (r.intensity, r.roof)], "stem"),
            Dot(*start, "pale_blue", radius=4),
            Path([start, end], "blue", arrow=True),
            Dot(*end, "blue", radius=3.5, form="square"),
            Dot(r.intensity, r.roof, "red", radius=9, form="dash"),
        )
        yield Together(marks, f"layer:{n}", self._describe(r))
        yield Name(*end, r.name)
        yield Name(r.intensity, r.roof, r.name, bold=False, aside=14, optional=True)

    def ascii(self) -> str:
        headings = f"{'op/byte':>9}{'baseline':>10}{'op/byte':>9}{'as it runs':>12}"
        head = f"{'':14}{headings}{'DRAM roof':>11}{'own roof':>10}"
        against = f"baseline: {named_baseline(self.rows)}"
        operations, peak = sum(r.operations for r in self.rows), 2 * self.config.macs_per_cycle
        means = list[str]()
        for hiding in (False, True):
            mean = sum(r.utilisation(self.config, hiding) for r in self.rows) / len(self.rows)
            cycles = sum(r.cycles if hiding else r.baseline_cycles for r in self.rows)
            means.append(f"{mean:.1%} and {operations / peak / cycles:.1%}")
        mean = f"mean of the layers and all in a row: {' -> '.join(means)}"
        return "\n".join([head, *map(self._row, self.rows[:21]), mean, against])

    def _row(self, r: LayerRow) -> str:
        before = f"{r.baseline_intensity:>9.3g}{r.utilisation(self.config, False):>10.1%}"
        after = f"{r.intensity:>9.3g}{r.utilisation(self.config):>12.1%}"
        roofs = f"{r.dram_roof(self.config):>11.1%}{r.roof:>10.1%}"
        return f"{short(r.name, 13):14}{before}{after}{roofs}"

    def layout(self) -> Layout:
        head, *rows, mean, against = self.ascii().split("\n")
        code_lines = (CodeLine(head), *numbered(rows, "row"), CodeLine(mean), CodeLine(against))
        return Layout(
            frames=tuple(
                Frame({f"layer:{n}": "now", f"row:{n}": "now"}, self._describe(r))
                for n, r in enumerate(self.rows)
            ),
            links=both_ways((f"layer:{n}", f"row:{n}") for n in range(len(rows))),
            panels=(Panel("layers", code_lines),),
            selectable="layer:",
        )

    def _describe(self, r: LayerRow) -> str:
        """Describe a layer: its utilisation, its speedup, and what limits it."""
        before, after = (r.utilisation(self.config, hiding) for hiding in (False, True))
        other_work = r.roof < r.dram_roof(self.config)
        limit = "resets and ALU operations" if other_work else "the bandwidth of DRAM"
        limit = "the peak" if r.bound(self.config) == 1 else limit
        gain = f"{r.speedup:.2f} times as fast as {r.against}"
        return (
            f"{r.name}: {before:.1%} -> {after:.1%}, {gain}\n"
            f"at most {r.bound(self.config):.1%}: the limit is {limit}"
        )
