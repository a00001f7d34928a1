"""AmdahlBar: a network's time with and without an accelerator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from minitvm.base import ArgumentError, check_kind

from .boxes import Box, column, flow, icon, row, text
from .chart import seconds_text
from .controls import Layout, Select, TextInput
from .figure import WIDTH, Figure
from .layers_rows import CORTEX_A9, Cpu, NetworkPart, amdahl, several
from .marks import Bar, Mark, Note
from .plot import Axis, plot

OWN = "another CPU"
KINDS = ("pale_sky", "pale_pink", "pale_green", "pale_yellow", "pale_red")
HATCHED = "hatched: on the accelerator; what stays on the CPU limits the whole (Amdahl's law)"


class AmdahlBar(Figure):
    """Show a network's time with and without an accelerator; the layers on the CPU limit the gain.

    works   NetworkPart(name, operations, seconds) for each part that runs on the accelerator, and
            NetworkPart(name, operations) for each part that stays on the CPU
    cpu     Cpu(name, gflops), by default the Cortex-A9 of the Pynq board; another speed can be
            typed in

    Source: Chen et al. 2018, "TVM", figure 21; Amdahl 1967.
    """

    def __init__(self, works: Sequence[NetworkPart], cpu: Cpu = CORTEX_A9) -> None:
        example = '[viz.NetworkPart("conv", 3.4e9, 0.04)]'
        self.works = several("AmdahlBar", works, NetworkPart, example)
        self.cpu = self._given = check_kind("cpu", cpu, Cpu, fix='viz.Cpu("laptop", 50.0)')
        super().__init__()

    def title(self) -> str:
        gain = f"{amdahl(self.works, self.cpu).speedup:.3g} times as fast as alone"
        return f"{self.cpu.name}, {self.cpu.gflops:.3g} GFLOP/s: {gain}"

    def body(self) -> Box:
        """Draw the time on the CPU, with the accelerator, and with an infinitely fast one."""
        a = amdahl(self.works, self.cpu)
        totals = {"CPU alone": a.alone, "with accelerator": a.together}
        totals |= {"infinitely fast one": a.limit} if a.limit else {}
        bars = [m for n, seconds in enumerate(totals.values()) for m in self._bar(n, seconds)]
        time_axis = Axis(0, max(totals.values()), hidden=True)
        samples = (
            row(icon(KINDS[n % len(KINDS)], key=f"work:{n}"), text(w.name, width=200), gap=6)
            for n, w in enumerate(self.works)
        )
        return column(
            text(self.title(), size=13, bold=True, width=WIDTH),
            plot(time_axis, Axis(names=[*totals]), bars, WIDTH, 36 * len(totals) + 6),
            flow(samples, WIDTH),
            text(HATCHED, "soft"),
        )

    def _bar(self, n: int, total: float) -> Iterator[Mark]:
        """Draw bar 0 (CPU alone), 1 (with accelerator) or 2 (limit)."""
        left, gain = 0.0, amdahl(self.works, self.cpu).alone / total
        for k, work in enumerate(self.works):
            seconds, kind = self.cpu.seconds(work), KINDS[k % len(KINDS)]
            if n and work.seconds is not None:
                seconds, kind = (work.seconds if n == 1 else 0.0), "bind"
            if seconds:
                tip = f"{work.name}: {seconds_text(self.cpu.seconds(work))} on the CPU"
                if work.seconds is not None:
                    tip += f", {seconds_text(work.seconds)} on the accelerator"
                yield Bar(
                    left, n, left + seconds, n + 1, kind, f"work:{k}", tip, work.name, inset=4
                )
            left += seconds
        yield Note(left, n + 0.5, seconds_text(total) + (f", {gain:.3g} times" if n else ""))

    def ascii(self) -> str:
        a = amdahl(self.works, self.cpu)
        limit = "" if math.isinf(a.most) else f", {a.most:.3g} times at most"
        return (
            f"{self.cpu.name}, {self.cpu.gflops:.3g} GFLOP/s\n"
            f"CPU alone {seconds_text(a.alone)}, with the accelerator {seconds_text(a.together)}: "
            f"{a.speedup:.3g} times as fast{limit}"
        )

    def layout(self) -> Layout:
        names = tuple(dict.fromkeys((self._given.name, CORTEX_A9.name, OWN)))
        speed = TextInput("gflops", "GFLOP/s", f"{self.cpu.gflops:g}", 6)
        return Layout((Select("cpu", "CPU", names, self.cpu.name), speed), selectable="work:")

    def on(self, name: str, value: Any) -> str | None:
        if name == "cpu":
            known = {c.name: c for c in (CORTEX_A9, self._given)}
            self.cpu = known.get(value, Cpu(OWN, self.cpu.gflops))
        elif name == "gflops":
            try:
                self.cpu = Cpu(OWN, float(value))
            except ValueError:
                raise ArgumentError(f"GFLOP/s {value!r}", "not a number", "2.2") from None
        else:
            return super().on(name, value)
        return self.ascii().split("\n")[1]
