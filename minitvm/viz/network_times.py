"""NetworkTimes: the time of a network in one library or several, split by its layers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from minitvm.base import ArgumentError

from .boxes import Box, column, legend, text
from .chart import seconds_text
from .figure import WIDTH, Figure
from .marks import Bar, Mark, Note
from .plot import Axis, plot


class NetworkTimes(Figure):
    """Show the time of one run of a network as a bar for each library, split by layers.

    times    library -> the seconds of each layer, in order; one part if its layers are not known.
             The machine may follow a comma: "minitvm, Zen 4"
    marked   the names of the layers that are marked;  label: what they are called
    """

    def __init__(
        self,
        times: Mapping[str, Mapping[str, float]],
        marked: Collection[str] = (),
        label: str = "",
        heading: str = "the time of one run",
    ) -> None:
        if not times or not all(sum(layers.values()) > 0 for layers in times.values()):
            raise ArgumentError("NetworkTimes", "no times", '{"minitvm": {"conv1": 1e-3}}')
        self.times, self.marked, self.label, self._title = times, marked, label, heading
        super().__init__()

    def title(self) -> str:
        return self._title

    def body(self) -> Box:
        most = max(sum(layers.values()) for layers in self.times.values())
        marks = [m for n, name in enumerate(self.times) for m in self._bar(n, name)]
        names = Axis(names=[*self.times])
        words = {"serial": _library(next(iter(self.times)))}
        words |= {"now": self.label} if self.marked else {}
        words |= {"orange": "another library"} if self._other_libraries else {}
        return column(
            text(self._title, size=13, bold=True),
            plot(Axis(0, most, hidden=True), names, marks, WIDTH, 38 * len(self.times) + 6),
            legend(words, WIDTH),
        )

    def _bar(self, n: int, name: str) -> Iterator[Mark]:
        end, layers = 0.0, self.times[name]
        plain = "orange" if name in self._other_libraries else "serial"
        for layer, seconds in layers.items():
            kind = "now" if layer in self.marked else plain
            tip = f"{layer}: {seconds_text(seconds)}"
            yield Bar(end, n, end + seconds, n + 1, kind, f"layer:{name}:{layer}", tip, inset=5)
            end += seconds
        yield Note(end, n + 0.5, self._total(name), bold=not n)

    def _total(self, name: str) -> str:
        """Return the time of a bar; if it is not split, also compare it with the first one."""
        total, first = (sum(layers.values()) for layers in (self.times[name], self._first))
        whole = total != first and len(self.times[name]) == 1
        return seconds_text(total) + f", {total / first:.2g} times as long" * whole

    @property
    def _other_libraries(self) -> list[str]:
        """The names of the bars of other libraries than the first bar's."""
        return [name for name in self.times if _library(name) != _library(next(iter(self.times)))]

    @property
    def _first(self) -> Mapping[str, float]:
        return next(iter(self.times.values()))

    def ascii(self) -> str:
        lines = [self._title]
        for name, layers in self.times.items():
            inside = sum(t for layer, t in layers.items() if layer in self.marked)
            share = f", {inside / sum(layers.values()):.0%} of it {self.label}" * bool(inside)
            lines.append(f"  {name}: {self._total(name)}{share}")
        return "\n".join(lines)


def _library(name: str) -> str:
    """Return the library of a bar: "minitvm, Zen 4" -> "minitvm"."""
    return name.partition(",")[0]
