"""A figure of a paper: a table, a claim about it, and a picture. Import this before matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Rows = Mapping[str, Mapping[str, float]]
BEGIN, END = "<!-- claims -->", "<!-- end of claims -->"  # of the table in docs/papers.md
COLUMNS = 3  # of panels in a picture


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, what the stored measurements say, and whether they agree.

    holds   None if this cannot be measured here
    """

    paper: str
    here: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """Return whether the claim holds, in words."""
        words = {True: "holds", False: "does not hold here", None: "not run"}
        return words[self.holds]

    def __str__(self) -> str:
        return f"paper: {self.paper}\nhere:  {self.here}: {self.verdict}"


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a picture: y over x, and a band between `low` and `high`, or none."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure that is ready to be printed and drawn.

    title    the paper's figure, and what it shows
    unit     of the numbers in `rows`
    rows     {row: {column: number}}; a row may lack columns
    panels   {title of a panel: {name of a line: curve}}; without panels, the rows are drawn as bars
    axes     the labels of x and y
    line     a horizontal line in each panel, if it is a number
    """

    title: str
    unit: str
    rows: Rows
    claim: Claim
    panels: Mapping[str, Mapping[str, Curve]] = field(default_factory=dict[str, Any])
    axes: tuple[str, str] = ("", "")
    line: float | None = None

    @property
    def columns(self) -> list[str]:
        """Return the names of all columns, in order."""
        return list(dict.fromkeys(name for row in self.rows.values() for name in row))

    def __str__(self) -> str:
        """Return the table, and below it the claim."""
        first = max(map(len, self.rows))
        widths = [max(len(name), 7) + 2 for name in self.columns]
        heads = "".join(name.rjust(w) for name, w in zip(self.columns, widths, strict=True))
        lines = [self.title, self.unit, " " * first + heads]
        for name, row in self.rows.items():
            cells = [number(row.get(column, math.nan)) for column in self.columns]
            numbers = "".join(cell.rjust(w) for cell, w in zip(cells, widths, strict=True))
            lines.append((name.ljust(first) + numbers).rstrip())
        return "\n".join([*lines, str(self.claim)])


def number(value: float) -> str:
    """Print a number with about three digits; nan is blank."""
    if math.isnan(value):
        return ""
    if value == int(value):
        return f"{int(value)}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def draw(figure: Drawn, file: Path) -> None:
    """Write the picture of a figure as SVG: its curves, or else its rows as bars."""
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = file.stem
    count = max(len(figure.panels), 1)
    high, wide = -(-count // COLUMNS), min(count, COLUMNS)
    canvas, axes = pyplot.subplots(
        high, wide, squeeze=False, sharey=True, figsize=(12 if count > 1 else 9, 3 * high + 1)
    )
    for (title, curves), axis in zip(figure.panels.items(), axes.flat, strict=False):
        _lines(axis, curves, figure.line)
        axis.set(title=title, xlabel=figure.axes[0])
    for axis in axes.flat[count:]:
        axis.axis("off")
    if not figure.panels:
        _bars(axes[0][0], figure)
    axes[0][0].set_ylabel(figure.axes[1] if figure.panels else figure.unit)
    axes[0][0].legend(fontsize=7)
    canvas.suptitle(figure.title)
    canvas.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(file, format="svg", metadata={"Date": None})
    pyplot.close(canvas)


def _lines(axis: Any, curves: Mapping[str, Curve], line: float | None) -> None:
    for name, curve in curves.items():
        axis.plot(curve.x, curve.y, label=name, linewidth=1)
        if curve.low is not None:
            axis.fill_between(curve.x, curve.low, curve.high, alpha=0.15)
    if line is not None:
        axis.axhline(line, color="gray", linewidth=0.5)


def _bars(axis: Any, figure: Drawn) -> None:
    width = 0.8 / len(figure.columns)
    for n, column in enumerate(figure.columns):
        heights = [row.get(column, math.nan) for row in figure.rows.values()]
        axis.bar(np.arange(len(heights)) + n * width, heights, width, label=column)
    axis.set_xticks(np.arange(len(figure.rows)) + 0.4 - width / 2, figure.rows, rotation=20)


def write_claims(claims: Mapping[str, Claim], seeds: int, file: Path) -> None:
    """Write claims to the Markdown table between two marks in `file`; other figures keep theirs."""
    words = {True: "yes", False: "**no**", None: "not run"}
    before, _, rest = file.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {row.split("`")[1]: row for row in table.splitlines() if row.startswith("| `")}
    for name, claim in claims.items():
        rows[name] = f"| `{name}` | {claim.paper} | {claim.here} | {words[claim.holds]} |"
    head = [f"| figure | the paper | here, {seeds} seeds | holds |", "| --- | --- | --- | --- |"]
    file.write_text("\n".join([before + BEGIN, *head, *rows.values(), END]) + after)
