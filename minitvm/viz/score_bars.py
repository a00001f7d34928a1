"""ScoreBars: one number of several answers as bars, such as yours, a stub's and the best known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from minitvm.base import ArgumentError

from .boxes import Box, column, text
from .chart import number_text
from .figure import WIDTH, Figure
from .marks import Bar, Mark, Note
from .plot import Axis, plot

FIRST, OTHERS = "blue", "faint"  # OTHERS: bars beside the one that the picture is about
SIDE = 130  # pixels: for the numbers beside the bars


class ScoreBars(Figure):
    """Show a number, such as cache misses, for each of several answers.

    scores   name -> number, each at least 0;  unit: what the numbers count
    bold     whether the picture is about the first one, beside which the others are pale
    """

    def __init__(self, scores: Mapping[str, float], unit: str, bold: bool = True) -> None:
        if not scores or min(scores.values()) < 0:
            why = f"{dict(scores)}"
            raise ArgumentError("ScoreBars", why, 'ScoreBars({"yours": 64}, "misses")')
        self.scores, self.unit, self.bold = dict(scores), unit, bold
        super().__init__()

    def title(self) -> str:
        return f"{self.unit} of {', '.join(self.scores)}"

    def body(self) -> Box:
        most = max(self.scores.values()) or 1.0
        bars = [m for n, name in enumerate(self.scores) for m in self._bar(n, name)]
        names = Axis(names=[*self.scores])
        values = Axis(0, most * WIDTH / (WIDTH - SIDE), hidden=True)
        height = 26 * len(self.scores) + 6
        return column(text(self.unit, bold=True), plot(values, names, bars, WIDTH, height), gap=4)

    def _bar(self, n: int, name: str) -> Iterator[Mark]:
        score, bold = self.scores[name], self.bold and not n
        kind = OTHERS if n and self.bold else FIRST
        yield Bar(0, n, score, n + 1, kind, f"score:{name}", "", inset=4)
        yield Note(score, n + 0.5, number_text(score), bold=bold)

    def ascii(self) -> str:
        wide, most = max(map(len, self.scores)), max(self.scores.values()) or 1.0
        return "\n".join(
            [
                self.unit,
                *(
                    f"  {name:{wide}}  {'#' * max(1, round(40 * n / most))} {number_text(n)}"
                    for name, n in self.scores.items()
                ),
            ]
        )
