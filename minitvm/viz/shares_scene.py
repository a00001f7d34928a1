"""Draw named numbers as bars, for example the importance of features to a cost model."""

from __future__ import annotations

from collections.abc import Mapping

from .chart import Scale
from .scene import Rect, Scene, Shape, Text, clipped

WIDTH, ROW, NAMES = 808, 20, 300  # pixels


def shares_scene(shares: Mapping[str, float], title: str) -> Scene:
    """Draw a bar for each named number, in the given order; negative bars extend to the left."""
    most = max(map(abs, shares.values()), default=1.0) or 1.0
    low = -most if min(shares.values(), default=0.0) < 0 else 0.0
    x = Scale(low, most, NAMES, WIDTH - 80)
    shapes: list[Shape] = [Text(12, 22, title, bold=True)]
    for n, (name, share) in enumerate(shares.items()):
        top = 36 + n * ROW
        ends = sorted((x.at(0.0), x.at(share)))
        kind = "serial" if share >= 0 else "reduce"
        label = clipped(name, NAMES - 20, 12)
        shapes.append(Text(NAMES - 8, top + 12, label, size=12, anchor="end"))
        shapes.append(Rect(ends[0], top, max(1.0, ends[1] - ends[0]), ROW - 5, kind, name))
        shapes.append(Text(ends[1] + 6, top + 12, f"{share:.3f}", "soft", 12))
    return Scene(WIDTH, 36 + ROW * len(shares) + 12, tuple(shapes), title)
