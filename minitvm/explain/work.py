"""Count how often a stage's elements are computed: the cost of recomputation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from minitvm import lowering, schedule, tensor, tir

from .derive import PrintedLoops

MAX_TILE = 1 << 16  # elements of the largest tile that is enumerated


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How often a stage stores its elements; a field is None if it depends on sizes or data.

    stores     the number of executed stores; a reduction's stores to one element count as one
    elements   the number of distinct elements stored
    per_tile   the stores of an inner tile, divided by the number of its elements that no earlier
               tile has stored: the recompute factor without the effects of the tensor's edges
    """

    stores: int | None
    elements: int | None
    per_tile: Fraction | None

    @property
    def factor(self) -> Fraction | None:
        """Return the recompute factor, stores / elements; 1 if no element is computed twice."""
        if self.stores is None or not self.elements:
            return None
        return Fraction(self.stores, self.elements)


UNKNOWN = StoreCounts(None, None, None)


def number(f: Fraction) -> str:
    """Return a fraction as a decimal string: 3/2 -> 1.5, 4/3 -> 1.3333."""
    return f"{float(f):.4f}".rstrip("0").rstrip(".")


def work_of(loops: PrintedLoops, stage: schedule.Stage) -> StoreCounts:
    """Return how often `stage` stores, and how many distinct elements it stores."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    domain = loops.domain(stage.name)
    return StoreCounts(
        _stores(loops, stage.name, op),
        _elements(loops, stage, op),
        per_tile(loops, stage, op, domain),
    )


def _stores(loops: PrintedLoops, name: str, op: tensor.ComputeOp) -> int | None:
    """Count how often the stage's first store runs: its only store, or the init of a reduction."""
    buffer = loops.context.buffers[tensor.tensor_of(op, 0)]
    outer_vars = {id(v) for v in loops.domain(name).around}  # excludes the init stores of a scan
    stores = (r for r in lowering.runs(loops.body) if r.store.buffer is buffer)
    first = next((r for r in stores if outer_vars <= {id(n.var) for n in r.loops}), None)
    return None if first is None else lowering.times(first)


def _elements(loops: PrintedLoops, stage: schedule.Stage, op: tensor.ComputeOp) -> int | None:
    """Count the distinct elements that all tiles of the stage compute."""
    domain = loops.domain(stage.name)
    outer_loops = [(v, v.high + 1) for v in domain.around if isinstance(v.high, int)]
    stage_loops = [(v, domain.extents[a]) for a, v in domain.loops.items()]
    extents, ends = lowering.box([*outer_loops, *stage_loops])
    return lowering.distinct(
        [domain.values[a] for a in op.axis], extents, [*domain.conditions, *ends]
    )


def per_tile(
    loops: PrintedLoops, stage: schedule.Stage, op: tensor.ComputeOp, domain: lowering.Domain
) -> Fraction | None:
    """Return the recompute factor away from the edges; None if the distance between tiles varies.

    Tiles of 6 rows that start 4 rows apart: 6 / 4.
    """
    if stage.store is not None and any(_moves(domain, a) is None for a in op.axis):
        # at that loop each element is computed once
        outer = stage.change(attach=stage.store, store=None)
        state = loops.context.state.with_stage(outer)
        domain = lowering.infer(state)[stage.name]
    left = {v: v.high + 1 for v in domain.around if isinstance(v.high, int)}
    if len(left) < len(domain.around):
        return None
    factor = Fraction(1)
    for a in op.axis:
        moves = _moves(domain, a)
        if moves is None or not moves.keys() <= left.keys():
            return None  # irregular, or two dimensions move with one loop
        repeats = _one_dimension(domain, a, moves, {v: left.pop(v) for v in moves})
        if repeats is None:
            return None
        factor *= repeats
    again = math.prod(left.values())  # loops that do not move the region repeat its work
    return factor * again if again else None


def _moves(domain: lowering.Domain, a: tensor.Axis) -> dict[tir.Var, int] | None:
    """Map each loop around the region to how far one iteration moves the region along axis `a`.

    Returns None if these distances are not constant.
    """
    terms = tir.split_terms(domain.start[a])[0]
    moves = {v: abs(c) for v, c in terms if isinstance(v, tir.Var)}
    return moves if len(moves) == len(terms) else None


def _one_dimension(
    domain: lowering.Domain, a: tensor.Axis, moves: dict[tir.Var, int], extents: dict[tir.Var, int]
) -> Fraction | None:
    size = domain.extents[a]
    if not isinstance(size, int) or not size:
        return None
    if not moves:
        return Fraction(1)
    outer_loop = max(moves, key=lambda v: moves[v])  # this loop is assumed to be infinite
    inner = [range(0, moves[v] * extents[v], moves[v]) for v in moves if v is not outer_loop]
    computed_count = size * math.prod(len(r) for r in inner)
    if computed_count > MAX_TILE:
        return None
    period = moves[outer_loop]
    new_elements = {(sum(at) + e) % period for at in product(*inner) for e in range(size)}
    return Fraction(computed_count, len(new_elements))
