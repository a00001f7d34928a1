"""Draw the pictures of the README: one from a measurement, one from a schedule.

OPENBLAS_NUM_THREADS=1 python -m minitvm demo --json docs/demo.json     half a minute
python docs/make_pictures.py                        demo.svg, from demo.json; nest.svg

numpy is asked for one thread: on a machine that is not idle its library suffers most with many.
"""

import json
import re
from pathlib import Path
from typing import Any

from minitvm import te, viz

FOLDER = Path(__file__).parent
LEFT, BAR, STEP, TOP = 190, 420, 26, 54  # pixels: names, longest bar, one row, heading
SECONDS = 3  # for which each frame of nest.svg is seen
OURS, NUMPY, PEAK = "#0072B2", "#E69F00", "#999999"


def bars(run: dict[str, Any]) -> list[tuple[str, float, str]]:
    """(name, GFLOP/s, colour) of every schedule, then of each peer for each number of threads."""
    found: dict[str, tuple[float, str]] = {}
    for row in run["rows"]:
        found[f"{row['case'].split(' ', 1)[1]}, {row['threads']} thr."] = row["ours"], OURS
    for row in run["rows"]:
        for name, rate in row["peers"].items():
            colour = NUMPY if name == "numpy" else PEAK
            found[f"{name.replace('_', ' ')}, {row['threads']} thr."] = rate, colour
    return [(name, rate, colour) for name, (rate, colour) in found.items()]


def drawn(run: dict[str, Any]) -> str:
    """The bars as SVG, readable on light and dark pages."""
    rows = bars(run)
    most = max(rate for _, rate, _ in rows)
    machine, case = run["machine"], run["rows"][0]["case"].split(" ", 1)[0]
    title = f"GFLOP/s of one float32 matrix product, {case}, on {machine['cpu']}"
    height = TOP + STEP * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {height}" width="680" '
        f'role="img" aria-label="{title}" font-family="sans-serif" font-size="14">',
        f'<rect width="680" height="{height}" rx="8" fill="#ffffff"/>',
        f'<text x="16" y="30" font-size="16" font-weight="bold" fill="#222222">{title}</text>',
    ]
    for n, (name, rate, colour) in enumerate(rows):
        y, width = TOP + STEP * n, max(1, round(BAR * rate / most))
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end" fill="#222222">{name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{width}" height="{STEP - 8}" fill="{colour}"/>',
            f'<text x="{LEFT + width + 6}" y="{y + 14}" fill="#222222">{rate:.1f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def frames() -> list[str]:
    """A product as NestPlayer shows it: plain, then in tiles, reordered, and with vectors."""
    A, B = (te.placeholder((8, 8), name=name) for name in "AB")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    shown = [s.copy()]
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 4)
    shown.append(s.copy())
    s[C].reorder(io, jo, k, ii, ji)
    shown.append(s.copy())
    s[C].vectorize(ji)
    shown.append(s)
    return [viz.svg(viz.NestPlayer(one, [A, B, C]).picture()) for one in shown]


def nest() -> str:
    """The frames as one moving SVG: each is seen for SECONDS, then they begin again.

    Readers who want no motion see the last frame.
    """
    pictures = frames()
    sizes = [re.search(r'width="(\d+)" height="(\d+)"', picture) for picture in pictures]
    width, height = (max(int(size[n]) for size in sizes if size) for n in (1, 2))
    share, total = 100 / len(pictures), SECONDS * len(pictures)
    style = (
        f".frame{{visibility:hidden;animation:turn {total}s step-end infinite}}"
        f"@keyframes turn{{0%{{visibility:visible}}{share}%{{visibility:hidden}}}}"
        "@media (prefers-reduced-motion:reduce){.frame{animation:none}"
        ".frame:last-of-type{visibility:visible}}"
    )
    groups = [
        f'<g class="frame" style="animation-delay:{SECONDS * n}s">{picture}</g>'
        for n, picture in enumerate(pictures)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" aria-label="a matrix product, step by step: plain loops, tiles, another order, '
        f'vectors"><style>{style}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>'
    )
    return "\n".join([head, *groups, "</svg>", ""])


if __name__ == "__main__":
    measured = json.loads((FOLDER / "demo.json").read_text(encoding="utf-8"))
    (FOLDER / "demo.svg").write_text(drawn(measured), encoding="utf-8", newline="\n")
    (FOLDER / "nest.svg").write_text(nest(), encoding="utf-8", newline="\n")
