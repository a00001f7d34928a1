"""LedgerChart: one layer's share of its machine's peak after each chapter of the course."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitvm.base import ArgumentError, plural

from .boxes import Box, column, legend, text
from .figure import WIDTH, Figure
from .marks import Bar, Mark, Note, Rule
from .plot import Axis, plot

ROW, SIDE = 22, 190  # pixels: the height of a row; for the numbers beside the bars
SHADES = {True: ("blue", "serial"), False: ("orange", "reduce")}  # this CPU or not: own, stored


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A chapter of the ledger.

    notebook, idea   such as "03" and "tiled and reordered"
    share            the measured share of the peak, 1 for all of it; None if nothing is known
    peak             whose peak it is, if not the CPU's: "accelerator"
    is_stored        whether the authors measured it, not the reader
    words            what the chart says in place of the share
    """

    notebook: str
    idea: str
    share: float | None
    peak: str = ""
    is_stored: bool = False
    words: str = ""

    def text(self) -> str:
        """Return the share in words: "4.2 % (stored)"."""
        if self.words:
            return self.words
        if self.share is None:
            return "not measured yet"
        notes = [f"of the {self.peak}'s peak"] * bool(self.peak) + ["stored"] * self.is_stored
        percent = f"{100 * self.share:.{1 if self.share < 0.1 else 0}f} %"
        return f"{percent} ({', '.join(notes)})" if notes else percent


class LedgerChart(Figure):
    """Show what each chapter gains for one layer, as bars: shares of the peak of a machine.

    rows    one for each chapter;  layer: what they compute;  stored_on: the authors' machine
    now     the notebook whose row is bold; stored rows of later notebooks become a single line
    """

    def __init__(
        self, rows: Sequence[LedgerRow], layer: str, stored_on: str, now: str = ""
    ) -> None:
        if not rows:
            raise ArgumentError("LedgerChart(rows)", "there are no rows", "course.ledger()")
        later = [row for row in rows if row.is_stored and now and row.notebook > now]
        shown = [row for row in rows if row not in later]
        self.rows = (*shown, *([_summary(later)] if later else ()))
        self.layer, self.stored_on, self.now = layer, stored_on, now
        super().__init__()

    def title(self) -> str:
        return f"The ledger: {self.layer}, as a share of the peak of its machine"

    def body(self) -> Box:
        marks = [Rule(x=1, text="peak"), *(m for n in range(len(self.rows)) for m in self._row(n))]
        x = Axis(0, self._most * WIDTH / (WIDTH - SIDE), hidden=True)
        y = Axis(names=["", *(f"{row.notebook}  {row.idea}" for row in self.rows)])
        kinds = {(not row.peak, row.is_stored) for row in self.rows if row.share is not None}
        origin = f"stored: {self.stored_on}"
        words = {
            SHADES[here][stored]: f"{'one core of a CPU' if here else 'a simulated machine'}, "
            + (origin if stored and here else "stored" if stored else "measured here")
            for here, stored in sorted(kinds, reverse=True)
        }
        return column(
            text(self.title(), size=13, bold=True),
            plot(x, y, marks, WIDTH, ROW * len(y.names) + 6),
            legend(words, WIDTH) if words else None,
        )

    @property
    def _most(self) -> float:
        return max(1.0, *(row.share or 0.0 for row in self.rows))

    def _row(self, n: int) -> Iterator[Mark]:
        """Draw a row; the first line of the plot is empty, for the name of the peak."""
        row, y = self.rows[n], n + 1
        if row.share is not None:
            kind = SHADES[not row.peak][row.is_stored]
            yield Bar(0, y, row.share, y + 1, kind, f"row:{row.notebook}", row.text(), inset=4)
        yield Note(self._most, y + 0.5, row.text(), bold=row.notebook == self.now)

    def ascii(self) -> str:
        wide = max(len(row.idea) for row in self.rows)
        bars = ["#" * round(30 * (row.share or 0) / self._most) for row in self.rows]
        lines = [
            f"{row.notebook:4}{row.idea:{wide}}  {bar:30}  {row.text()}"
            for row, bar in zip(self.rows, bars, strict=True)
        ]
        if any(row.is_stored for row in self.rows):
            lines.append(f"stored rows: {self.stored_on}")
        return "\n".join([self.title(), *lines])


def _summary(later: Sequence[LedgerRow]) -> LedgerRow:
    """Return one row without a bar for several: "up to 91 %; beyond the peak with ..."."""
    shares = [row.share for row in later if row.share is not None]
    most = max((share for share in shares if share <= 1), default=None)
    words = "not measured yet" if most is None else f"up to {100 * most:.0f} %"
    words += "; beyond the peak with fewer multiplications" * (max(shares, default=0) > 1)
    idea = f"{len(later)} later row{plural(len(later))}"
    return LedgerRow("...", idea, None, is_stored=True, words=words)
