"""Questions about regions: what compute_at computes, and what a tile reads."""

from __future__ import annotations

import re

from minitvm import viz

from ..item import Rng
from .question import Question, joined, pick, run


def bounds(rng: Rng) -> Question:
    """Ask how much of a stage is computed at a loop of its reader, and how often."""
    while True:
        rows, columns = pick(rng, (4, 6, 8)), pick(rng, (8, 12))
        tile = pick(rng, (2, rows // 2)), pick(rng, (4, columns // 2))
        down, right = pick(rng, (1, 2)), pick(rng, (0, 1, 2))
        beside = f" + {right}" if right else ""
        loop = pick(rng, ("yo", "xo", "yi", "xi"))
        code = f"""\
A = te.placeholder(({rows + down}, {columns + right}), name="A")
B = te.compute(({rows + down}, {columns + right}), lambda y, x: A[y, x] * 2.0, name="B")
C = te.compute(({rows}, {columns}), lambda y, x: B[y, x] + B[y + {down}, x{beside}], name="C")

s = te.create_schedule(C.op)
y, x = s[C].op.axis
yo, xo, yi, xi = s[C].tile(y, x, {tile[0]}, {tile[1]})
s[B].compute_at(s[C], {loop})"""
        report = run(code)["s"].explain()["B"]
        stores, elements = report.work.stores, report.work.elements
        if stores and elements and stores > elements:
            break
    shape = [int(n) for r in report.region for n in re.findall(r", (\d+) of", r)]
    times = stores // (shape[0] * shape[1])
    return Question(
        "Bounds",
        "B is computed inside of a loop of C: in each iteration the smallest rectangle that holds"
        " all that the iteration reads.",
        code,
        (f"How many rows and columns of B are computed in one iteration of {loop}?",
         "How many elements of B are computed in all, those computed again included?",
         "How often is an element of B computed on average?"),
        (joined(shape), str(stores), f"{stores}/{elements} = {stores / elements:.2f}"),
        f"{times} iterations of the loops down to {loop} compute {joined(shape)} elements each; B"
        f" has {elements} elements.",
        "notebook 02, section 3; notebook 05, section 1",
        5,
    )  # fmt: skip


def footprint(rng: Rng) -> Question:
    """Ask how many elements of the input a tile reads, and how many its neighbour reads, too."""
    window = pick(rng, ((2, 2), (3, 2), (2, 3), (3, 3)))
    step, gap = pick(rng, ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1)))
    tile = pick(rng, (2, 3, 4)), pick(rng, (2, 3, 4, 5))
    size = [step * 11 + gap * (n - 1) + 1 for n in window]
    index = ", ".join(
        f"{f'{step}*' if step > 1 else ''}{a} + {f'{gap}*' if gap > 1 else ''}r{a}" for a in "yx"
    )
    code = f"""\
X = te.placeholder(({size[0]}, {size[1]}), name="X")
ry, rx = te.reduce_axis((0, {window[0]}), name="ry"), te.reduce_axis((0, {window[1]}), name="rx")
Y = te.compute((12, 12), lambda y, x: te.sum(X[{index}], [ry, rx]), name="Y")"""
    scope = run(code)
    tensor, height, width = scope["Y"], *tile

    def elements(left: int, columns: int) -> list[tuple[int, ...]]:
        return list(viz.footprint(tensor, [(0, height), (left, columns)])[scope["X"]])

    single, double = elements(0, width), elements(0, 2 * width)
    shared = len(single) + len(elements(width, width)) - len(double)
    sides = [len({element[d] for element in single}) for d in range(2)]
    return Question(
        "The footprint of a tile",
        f"A tile of Y is {height} rows high and {width} columns wide; it begins at Y[0, 0].",
        code,
        ("How many different elements of X does the tile read?",
         "How many of these does the next tile to the right read as well?"),
        (str(len(single)), str(shared)),
        f"The tile reads {joined(sides)} elements; together with the next tile it is"
        f" {len(double)}.",
        "notebook 01, section 5",
        4,
    )  # fmt: skip
