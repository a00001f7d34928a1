"""How often a stage's elements are computed: the price of computing them where they are used."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from minitvm import lowering, schedule, tensor, tir

from .derive import Loops

MOST = 1 << 16  # elements of one tile that are told apart


@dataclass(frozen=True, slots=True)
class Work:
    """How often a stage stores. None: not known before sizes and data are.

    stores     executed in all, guards counted; of a reduction, once per output point
    elements   different ones among them: what would be stored if none were computed twice
    per_tile   stores of one tile over the elements that it adds to those before it: the factor
               away from the edges
    """

    stores: int | None
    elements: int | None
    per_tile: Fraction | None

    @property
    def factor(self) -> Fraction | None:
        """The recompute factor: stores / elements. 1: nothing is computed twice."""
        if self.stores is None or not self.elements:
            return None
        return Fraction(self.stores, self.elements)


UNKNOWN = Work(None, None, None)


def number(f: Fraction) -> str:
    """3/2 -> 1.5, 4/3 -> 1.3333"""
    return f"{float(f):.4f}".rstrip("0").rstrip(".")


def work_of(loops: Loops, stage: schedule.Stage) -> Work:
    """How often `stage` stores, and how often it would have to."""
    op = stage.op
    assert isinstance(op, tensor.ComputeOp)
    domain = loops.domain(stage.name)
    return Work(
        _stores(loops, stage.name, op),
        _elements(loops, stage, op),
        per_tile(loops, stage, op, domain),
    )


def _stores(loops: Loops, name: str, op: tensor.ComputeOp) -> int | None:
    """Runs of the stage's first store: the only one, or the one that begins a reduction."""
    buffer = loops.context.buffers[tensor.tensor_of(op, 0)]
    around = {id(v) for v in loops.domain(name).around}  # a scan begins with stores of its own
    stores = (r for r in lowering.runs(loops.body) if r.store.buffer is buffer)
    first = next((r for r in stores if around <= {id(n.var) for n in r.loops}), None)
    return None if first is None else lowering.times(first)


def _elements(loops: Loops, stage: schedule.Stage, op: tensor.ComputeOp) -> int | None:
    """How many different elements the stage computes, all tiles together."""
    domain = loops.domain(stage.name)
    around = [(v, v.high + 1) for v in domain.around if isinstance(v.high, int)]
    own = [(v, domain.extents[a]) for a, v in domain.loops.items()]
    extents, ends = lowering.box([*around, *own])
    return lowering.distinct(
        [domain.values[a] for a in op.axis], extents, [*domain.conditions, *ends]
    )


def per_tile(
    loops: Loops, stage: schedule.Stage, op: tensor.ComputeOp, domain: lowering.Domain
) -> Fraction | None:
    """The recompute factor of an endless tensor; None where the tiles do not move evenly.

    6 rows computed for every 4 rows further:  6 / 4
    """
    if stage.store is not None and any(_moves(domain, a) is None for a in op.axis):
        outer = stage.change(attach=stage.store, store=None)  # there, each element is new once
        state = loops.context.state.with_stage(outer)
        domain = lowering.infer(state)[stage.name]
    left = {v: v.high + 1 for v in domain.around if isinstance(v.high, int)}
    if len(left) < len(domain.around):
        return None
    factor = Fraction(1)
    for a in op.axis:
        moves = _moves(domain, a)
        if moves is None or not moves.keys() <= left.keys():
            return None  # uneven, or two dimensions move together
        one = _one_dimension(domain, a, moves, {v: left.pop(v) for v in moves})
        if one is None:
            return None
        factor *= one
    again = math.prod(left.values())  # loops that move nothing compute the same again
    return factor * again if again else None


def _moves(domain: lowering.Domain, a: tensor.Axis) -> dict[tir.Var, int] | None:
    """How far the region moves along `a` with each loop around it."""
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
    far = max(moves, key=lambda v: moves[v])  # the loop that goes on without end
    inner = [range(0, moves[v] * extents[v], moves[v]) for v in moves if v is not far]
    computed = size * math.prod(len(r) for r in inner)
    if computed > MOST:
        return None
    period = moves[far]
    added = {(sum(at) + e) % period for at in product(*inner) for e in range(size)}
    return Fraction(computed, len(added))
