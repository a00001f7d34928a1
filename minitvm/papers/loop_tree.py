"""The loop tree of a candidate as numbers: the input of TreeGRU (Chen et al. 2018, Figure 3d).

Each loop of the program is a node, in the order of the program text, with the depth at which it
stands; order and depth determine the tree. Loops with one iteration are left out. A node has the
context vector of its loop. No column belongs to a knob or to an operator, so convolutions and
products of matrices have the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from minitvm import autotvm, tune
from minitvm.base import ArgumentError

LOOPS = 24  # the most loops of a program
ACCESSES = 3  # accesses of a statement that are described: the store, and two reads
KINDS = ("serial", "vectorize", "unroll", "parallel")
LOOP = ("length", "depth", "outside", "inside", "reduce", *KINDS)
ACCESS = ("touched", "reuse", "stride")
CONTEXT = (*LOOP, *(f"access{a}.{name}" for a in range(ACCESSES) for name in ACCESS))
LENGTH, DEPTH, OUTSIDE, INSIDE, REDUCE = range(5)
NAMES = tuple(f"loop{n}.{name}" for n in range(LOOPS) for name in CONTEXT)
Arrays = Sequence[tuple[tune.Statement, tune.Packed]]


def columns_of(task: autotvm.Task) -> tune.Columns:
    """Return the loop trees of a task's candidates as columns.

    For each of LOOPS loops, a column per name in CONTEXT. The outermost loop has depth 1, and all
    columns of an unused loop are 0. Sizes are logarithms to the base 2:
    outside   iterations of the loops outside; inside: of this loop and those inside it
    touched   elements that one run of the loop touches; reuse: iterations inside per such element
    stride    log2(elements between two iterations + 2); 0 if the loop does not move the access
    Several statements share the loops around them; such a loop describes the statement with the
    most loops.
    """

    def of(n: int, rows: tune.Rows) -> tune.Floats:
        out = np.zeros((len(rows), LOOPS, len(CONTEXT)), np.float32)
        for at, batch in tune.statements(task.sketches[n]).batches(rows):
            out[at] = _trees([(s, tune.packed(s, batch)) for s in batch.statements])
        return out.reshape(len(rows), -1)

    return tune.Columns(of, NAMES)


def _trees(statements: Arrays) -> tune.Floats:
    """Return the loop trees of candidates with these statements, [candidates, LOOPS, CONTEXT]."""
    nodes = list(_nodes([s for s, _ in statements], range(len(statements))))
    if len(nodes) > LOOPS:
        why = f"the program has {len(nodes)} loops, and a loop tree has at most {LOOPS}"
        raise ArgumentError("loop tree", why, 'the encoding "flattened loops"')
    contexts = {n: _contexts(*statements[n]) for n in {n for n, _ in nodes}}
    candidates = statements[0][1].extent.shape[1]
    out = np.zeros((candidates, LOOPS, len(CONTEXT)), np.float32)
    for node, (n, level) in enumerate(nodes):
        out[:, node] = contexts[n][level].T
    return out


def _nodes(
    statements: Sequence[tune.Statement], inside: Sequence[int], level: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield each loop once, in the order of the text, as (statement that it describes, level)."""
    groups = dict[tuple[int, ...], list[int]]()
    for n in inside:
        if level < len(statements[n].loops):
            groups.setdefault(statements[n].loops[level].digits, []).append(n)
    for group in groups.values():
        yield max(group, key=lambda n: len(statements[n].loops)), level
        yield from _nodes(statements, group, level + 1)


def _contexts(s: tune.Statement, arrays: tune.Packed) -> tune.Floats:
    """Return the context vectors of the loops around a statement, [loops, CONTEXT, candidates]."""
    extent = arrays.extent  # [loops, candidates]
    out = np.zeros((len(extent), len(CONTEXT), extent.shape[1]))
    out[:, LENGTH] = np.log2(extent)
    out[:, DEPTH] = np.cumsum(extent > 1, axis=0)
    out[:, OUTSIDE] = np.log2(np.cumprod(extent, axis=0) / extent)
    out[:, INSIDE] = np.log2(np.cumprod(extent[::-1], axis=0)[::-1])
    for level, loop in enumerate(s.loops):
        out[level, REDUCE] = loop.reduce
        if loop.kind in KINDS:
            out[level, LOOP.index(loop.kind)] = 1
    for f in tune.footprint_chunks(arrays):
        part = out[:, :, f.begin : f.begin + f.run.shape[1]]
        for a in range(min(ACCESSES, len(s.accesses))):
            touched, reuse, stride = range(len(LOOP) + a * len(ACCESS), len(CONTEXT))[:3]
            part[:, touched] = np.log2(f.touched[0, :-1, a])
            part[:, reuse] = part[:, INSIDE] - part[:, touched]
            part[:, stride] = np.log2(f.step[:, a] + 2)
    return out * (extent > 1)[:, None]
