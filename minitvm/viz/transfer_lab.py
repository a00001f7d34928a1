"""TransferLab: how many trials a search saves that knows the records of another computation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from minitvm.base import ArgumentError, check_text

from .boxes import Box, aligned, column, icon, paragraph, row, sized, spread, text
from .controls import Layout, Select
from .figure import WIDTH
from .live import Live
from .marks import Dot, Mark, Path, Rule
from .numbers import finite
from .plot import Axis, plot
from .reads import Array

HEIGHT = 280  # pixels
QUARTILES = (0.25, 0.5, 0.75)
SERIES = (  # the kinds of a median and its band, and the form of its mark at the goal
    ("orange", "pale_orange", "disc"),
    ("blue", "pale_blue", "square"),
    ("green", "pale_green", "triangle"),
    ("pink", "pale_pink", "rhombus"),
    ("red", "pale_red", "wedge"),
)
BLOCKS = " ▁▂▃▄▅▆▇█"
COLUMNS = 60  # characters of a curve as text
TABLE = ("searcher", "trials to the goal", "quartiles", "factor", "seeds that reach it")
LEGEND = (
    "line: the median of the seeds; band: from the lower to the upper quartile; mark: at the goal",
    "factor: the trials of the first searcher, divided by the trials of this one",
)
COMPUTING, PATIENCE = "computing the curves", 0.2  # seconds: quick curves are drawn at once
EXAMPLE = 'viz.TransferLab(curves, sources=["C1", "C2"], targets=["C7"])'
WHY = "not float[seeds, trials] by name of a searcher"


class Curve(NamedTuple):
    """The runs of one searcher.

    low, median, high   the quartiles of the share of the best speed after each trial
    trials              the first trial at which each quartile reaches the goal; None if it does not
    reached, seeds      how many runs reach the goal, and how many there are
    """

    name: str
    low: list[float]
    median: list[float]
    high: list[float]
    trials: tuple[int | None, ...]
    reached: int
    seeds: int


class TransferLab(Live):
    """Compare searchers with and without the history of another computation.

    curves    a function of the names of a source and a target. It returns, for each searcher by
              name, float[seeds, trials]: the highest share of the best speed after each trial
    sources   the names of computations whose records a searcher may know
    targets   the names of computations to search
    source, target   the names shown first
    goal      the share of the best speed that a search is to reach, such as 0.9

    Two menus choose the source and the target. A line is the median of the seeds, a band reaches
    from the lower to the upper quartile, and a mark shows the trial at which the median reaches the
    goal. The table has these trials, and their ratio: those of the first searcher, divided by those
    of this one. Each pair of names is computed once: the first before the widget appears, others in
    a thread. An exception in `curves` is shown in the widget.
    """

    recorded = True

    def __init__(
        self,
        curves: Callable[[str, str], Mapping[str, Any]],
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        goal: float = 0.9,
        title: str = "",
    ) -> None:
        if not callable(curves):
            raise ArgumentError(f"TransferLab: curves={curves!r}", "not a function", EXAMPLE)
        self._curves, self._goal = curves, _checked_goal(goal)
        self._sources, self._targets = _checked(sources, "sources"), _checked(targets, "targets")
        first = Select("source", "source", self._sources, self._sources[0])
        second = Select("target", "target", self._targets, self._targets[0])
        self.source = first.value if source is None else first.accept(source)
        self.target = second.value if target is None else second.accept(target)
        self._title = check_text("title", title, 'title="GEMM"')
        self._results = dict[tuple[str, str], list[Curve] | Exception]()
        self._choosing, self._busy = threading.Lock(), False
        self._work()
        super().__init__()

    # --- the thread ---

    def _pair(self) -> tuple[str, str]:
        return self.source, self.target

    def _work(self) -> None:
        """Compute the chosen pair of names until it is known: another may be chosen meanwhile."""
        while True:
            with self._choosing:
                pair = self._pair()
                self._busy = pair not in self._results
            if not self._busy:
                return
            try:
                result = summaries(self._curves(*pair), self._goal)
            except Exception as e:  # of a student's function: the picture shows it
                result = e
            self._results[pair] = result

    def on(self, name: str, value: Any) -> str | None:
        """Choose a source or a target; compute its curves in a thread unless they are known."""
        if name not in ("source", "target"):
            return super().on(name, value)
        with self._choosing:
            setattr(self, name, value)
            if self._failed():
                del self._results[self._pair()]  # try again
            idle = not self._busy
            self._busy = self._busy or self._pair() not in self._results
        if idle and self._busy:
            self.run_in_thread(self._work)
            self.join(PATIENCE)
        return None

    def refresh(self) -> None:
        """Draw everything again; say below the menus what is under way, or what went wrong."""
        if not self._known() or self.message.startswith(COMPUTING):
            self.message = "" if self._known() else self._status()
            self.refused = self._failed()
        super().refresh()

    # --- what is shown ---

    def _status(self) -> str:
        result = self._results.get(self._pair())
        pair = " and ".join(map(repr, self._pair()))
        if result is None:
            return f"{COMPUTING} of {pair} ..."
        if isinstance(result, Exception):
            return f"curves of {pair}: {type(result).__name__}: {result}"
        return f"history of {self.source}, search of {self.target}"

    def _known(self) -> list[Curve]:
        result = self._results.get(self._pair())
        return result if isinstance(result, list) else []

    def _failed(self) -> bool:
        return isinstance(self._results.get(self._pair()), Exception)

    def title(self) -> str:
        return self._title or "search with and without a history"

    def layout(self) -> Layout:
        """Return the two menus."""
        return Layout(
            (
                Select("source", "history of", self._sources, self.source),
                Select("target", "search of", self._targets, self.target),
            )
        )

    def body(self) -> Box:
        curves = self._known()
        trials = max((len(c.median) for c in curves), default=100)
        top = max([1.0, *(s for c in curves for s in c.high)])
        shares = Axis(0, 1.04 * top, "share of the best speed", label="{:.0%}".format, grid=True)
        axis = Axis(0, trials, "trials", ticks=8, whole=True)
        failed = self._failed()
        status = text("" if failed else self._status(), "soft", anchor="end")
        return column(
            spread(text(self.title(), size=13, bold=True), status, WIDTH),
            paragraph(self._status(), WIDTH, bold=True) if failed else None,
            plot(axis, shares, self._marks(curves), WIDTH, HEIGHT),
            self._table(curves) if curves else None,
            column(*(text(line, "soft") for line in LEGEND), gap=1) if curves else None,
        )

    def _marks(self, curves: Sequence[Curve]) -> Iterator[Mark]:
        for c, (_, band, _) in zip(curves, SERIES, strict=False):
            yield Path([*_steps(c.low), *reversed(_steps(c.high))], band, filled=True)
        for c, (_, band, _) in zip(curves, SERIES, strict=False):
            yield Path(_steps(c.low), band)  # bands may cover each other; their edges do not
            yield Path(_steps(c.high), band)
        yield Rule(y=self._goal, text=f"goal: {100 * self._goal:.4g}%", key="goal")
        for c, (kind, _, form) in zip(curves, SERIES, strict=False):
            yield Path(_steps(c.median), kind, f"median:{c.name}", self._tip(c))
            if at := c.trials[1]:
                tip = self._tip(c)
                yield Dot(at, c.median[at - 1], kind, f"goal:{c.name}", tip, 5, form)

    def _tip(self, c: Curve) -> str:
        trials = f"trial {c.trials[1]}" if c.trials[1] else "no trial"
        return f"{c.name}: the median reaches the goal at {trials}"

    def _table(self, curves: Sequence[Curve]) -> Box:
        """Return a line for each searcher, with the sample of its curve."""
        head = row(sized(text(""), 15), text(TABLE[0], "soft"), gap=8)
        lines = [[head, *(text(words, "soft", anchor="end") for words in TABLE[1:])]]
        for cells, (kind, _, form) in zip(_cells(curves), SERIES, strict=False):
            sample = sized(icon(kind, form), 15, across=0.5)
            name = row(sample, text(cells[0], bold=True, width=WIDTH / 3), gap=8)
            lines.append([name, *(text(cell, anchor="end") for cell in cells[1:])])
        return column(*aligned(lines, (0, 1, 1, 1, 1), 28), gap=3)

    def lines(self) -> list[str]:
        """Return each median as a bar for every few trials, and the table."""
        curves = self._known()
        lines = [f"{self.title()}: {self._status()}"]
        if not curves:
            return lines
        top = max([1.0, *(s for c in curves for s in c.median)])
        for c in curves:
            shares = [c.median[n] for n in range(0, len(c.median), -(-len(c.median) // COLUMNS))]
            lines.append(f"|{''.join(BLOCKS[round(8 * s / top)] for s in shares)}|  {c.name}")
        table = [TABLE, *_cells(curves)]
        first = max(len(cells[0]) for cells in table)
        lines.append(f"medians of the seeds; goal: {100 * self._goal:.4g}% of the best speed")
        for name, *cells in table:
            numbers = (c.rjust(len(head)) for c, head in zip(cells, TABLE[1:], strict=True))
            lines.append("  ".join([name.ljust(first), *numbers]))
        return [*lines, LEGEND[1]]


def summaries(curves: Any, goal: float) -> list[Curve]:
    """Return the quartiles of each searcher's runs; raise ArgumentError for other things than runs.

    Raises it also for a share below 0, or one that falls: the best so far only rises.
    """
    if not isinstance(curves, Mapping) or not curves:
        raise ArgumentError("curves(source, target)", WHY, '{"no history": shares, ...}')
    named = cast("Mapping[Any, Any]", curves)
    if len(named) > len(SERIES):
        why = f"at most {len(SERIES)} can be told apart"
        raise ArgumentError(f"curves of {len(named)} searchers", why, "fewer searchers")
    return [_summary(str(name), runs, goal) for name, runs in named.items()]


def _summary(name: str, runs: Any, goal: float) -> Curve:
    shares = finite(f"curves: {name!r}", runs, None, None)
    if shares.min() < 0 or (np.diff(shares) < 0).any():
        why = "a share of the best speed so far is at least 0 and does not fall"
        fix = "np.maximum.accumulate(speeds / best, axis=1)"
        raise ArgumentError(f"curves: {name!r}", why, fix)
    low, median, high = quartiles = np.quantile(shares, QUARTILES, axis=0)
    trials = tuple(_first(q >= goal) for q in quartiles)
    reached = int((shares[:, -1] >= goal).sum())
    return Curve(name, low.tolist(), median.tolist(), high.tolist(), trials, reached, len(shares))


def _first(reached: Array) -> int | None:
    """Return the number of the first trial, from 1, that is true."""
    return int(reached.argmax()) + 1 if reached.any() else None


def _steps(shares: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of a curve that is level up to a trial and rises there."""
    corners = [(1.0, shares[0])]
    for n in range(1, len(shares)):
        if shares[n] != shares[n - 1]:
            corners += [(n + 1.0, shares[n - 1]), (n + 1.0, shares[n])]
    return [*corners, (float(len(shares)), shares[-1])]


def _cells(curves: Sequence[Curve]) -> list[tuple[str, ...]]:
    """Return the table's cells, as text; a number that is not known is a dash."""
    base = curves[0].trials[1]
    rows = list[tuple[str, ...]]()
    for c in curves:
        high, middle, low = c.trials
        span = f"{low or '-'} to {high or '-'}"
        ratio = f"{base / middle:.2f}" if base and middle else "-"
        rows.append((c.name, str(middle or "-"), span, ratio, f"{c.reached} of {c.seeds}"))
    return rows


# --- checks --------------------------------------------------------------------------------------


def _checked(names: Any, what: str) -> tuple[str, ...]:
    """Return the names; raise ArgumentError unless there are some and all of them differ."""
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    texts = [*cast("Sequence[Any]", names)] if listed else []
    if not texts or len({*texts}) < len(texts) or not all(isinstance(n, str) for n in texts):
        raise ArgumentError(f"{what}={names!r}", "not a list of different names", EXAMPLE)
    return tuple(texts)


def _checked_goal(goal: Any) -> float:
    number = isinstance(goal, int | float) and not isinstance(goal, bool)
    if not number or not 0 < goal <= 1:
        raise ArgumentError(f"goal={goal!r}", "not a share above 0 and up to 1", "goal=0.9")
    return float(goal)
