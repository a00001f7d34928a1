"""Draw named numbers as bars, for example the importance of features to a cost model."""

from __future__ import annotations

from collections.abc import Mapping

from .boxes import column, picture, text
from .figure import WIDTH
from .marks import Bar, Mark, Note, Rule
from .plot import Axis, plot
from .scene import Scene


def shares_scene(shares: Mapping[str, float], title: str) -> Scene:
    """Draw a bar for each named number, in the given order; negative bars extend to the left."""
    most = max(map(abs, shares.values()), default=1.0) or 1.0
    low = -most if min(shares.values(), default=0.0) < 0 else 0.0
    marks = list[Mark]()
    for n, (name, share) in enumerate(shares.items()):
        kind = "serial" if share >= 0 else "reduce"
        marks.append(Bar(0, n, share, n + 1, kind, name, inset=3))
        marks.append(Note(max(0, share), n + 0.5, f"{share:.3f}"))
    if low:
        marks.append(Rule(x=0, kind="axis"))
    x, y = Axis(low, most, hidden=True), Axis(names=[*shares])
    chart = plot(x, y, marks, WIDTH, 20 * len(shares) + 6) if shares else None
    return picture(column(text(title, size=13, bold=True), chart), title)
