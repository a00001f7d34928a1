"""Bound inference on thousands of candidates at once; lowering infers the bounds of one.

lowering/regions infers the bounds of one schedule, as expressions of loop variables and symbolic
sizes. Here every extent is an array with one number per candidate. The two are not merged: a
symbolic inference with the factors as unknowns was tried. It accepted all 74 sketches of the tests,
but its extents were equal to those of lowering in only 12 of 24 products and in none of 44
convolutions, because the factors decide where a region is clipped to the tensor, and what a packed
region contains. Lowering is the definition: tests/tune/test_features.py compares the features of
rows with those that tests/tune/oracle.py reads from the loops of lowering.

Stages are visited consumers first. A stage that is computed inside a loop computes what its
readers need in one iteration of that loop, so the readers' tiles determine its extents.

    Plan       what all candidates of a sketch have in common: its stages and its parameters
    Domain     the loops of one stage and the values of its axes, for some candidates
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from minitvm import lowering, schedule, tensor, tir

from .affine import (
    ZERO,
    Index,
    Num,
    Part,
    add,
    ceildiv,
    equal,
    index_of,
    layout_index,
    least,
    most,
    span,
    without,
)
from .sketch import Parameter

Path: TypeAlias = "tuple[tuple[schedule.Stage, tensor.Axis], ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What all candidates of a sketch have in common.

    state     a schedule of the sketch, with inlined stages substituted
    factors   split -> the parameter of its size; other splits have the same size in all candidates
    layouts   stage name -> the formulas of its layout, with "{}" for a parameter, and the parameter
    pragmas   (stage name, axis, key) -> the parameter of the pragma's value
    around    stage name -> the loops of other stages around it, outermost first
    """

    state: schedule.State
    factors: Mapping[schedule.Relation, Parameter]
    layouts: Mapping[str, tuple[tuple[str, ...], Parameter]]
    pragmas: Mapping[tuple[str, tensor.Axis, str], Parameter]
    around: Mapping[str, Path]


def loops_around(state: schedule.State, stage: schedule.Stage) -> Path:
    """Return the loops of other stages around a stage, outermost first."""
    hosts = [(state.stage(p.stage), p.depth) for p in schedule.path(state, stage.name)]
    return tuple((host, a) for host, depth in hosts for a in host.leaves[: depth + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The loops of one stage, for all candidates.

    extents   axis -> its extent, for all axes of the stage, also those that were split or fused
    digits    loop -> the numbers of its digits (see affine.py), outermost first
    values    root axis -> its value, as an Index over the digits of the stage's and outer loops
    start     data axis -> its value in the first iteration of the stage's own loops
    shape     the sizes of the buffer; strides: from one element to the next in each dimension
    """

    extents: dict[tensor.Axis, Num]
    digits: dict[tensor.Axis, tuple[int, ...]]
    values: dict[tir.Var, Index]
    start: dict[tensor.Axis, Index]
    shape: tuple[Num, ...] = ()
    strides: tuple[Num, ...] = ()


@dataclass(slots=True)
class Domains:
    """The domains of all stages for some candidates.

    radix   the number of values of each digit
    """

    plan: Plan
    numbers: Mapping[Parameter, Num]
    radix: list[Num] = field(default_factory=list[Num])
    stages: dict[str, Domain] = field(default_factory=dict[str, Domain])

    def infer(self) -> None:
        """Infer the domains of all stages, consumers first."""
        for stage in reversed(self.plan.state.stages):
            if isinstance(stage.op, tensor.ComputeOp):
                self.stages[stage.name] = self._domain(stage, stage.op)

    # --- regions ---

    def _domain(self, stage: schedule.Stage, op: tensor.ComputeOp) -> Domain:
        extents: dict[tensor.Axis, Num] = {a: int(a.extent) for a in op.reduce_axis}  # type: ignore[arg-type]
        start: dict[tensor.Axis, Index] = {
            a: (Part({}, int(a.start)),)  # type: ignore[arg-type]
            for a in op.reduce_axis
        }
        for a, (first, size) in zip(op.axis, self._region(stage, op), strict=True):
            start[a], extents[a] = first, size
        digits, moves = self._loops(stage, extents)
        values: dict[tir.Var, Index] = {a: add(start[a], (Part(moves[a]),)) for a in start}
        domain = Domain(extents, digits, values, {a: start[a] for a in op.axis})
        shape, strides = self._memory(stage, op, domain)
        return replace(domain, shape=shape, strides=strides)

    def _region(self, stage: schedule.Stage, op: tensor.ComputeOp) -> list[tuple[Index, Num]]:
        """Return the region that the stage computes: the start and the size of each dimension."""
        sizes = [int(n) for n in op.shape]  # type: ignore[arg-type]
        whole: list[tuple[Index, Num]] = [(ZERO, n) for n in sizes]
        reads = () if stage.is_output else tuple(self._reads(op))
        if not reads:
            return whole
        fixed = self._fixed(stage)
        region: list[tuple[Index, Num]] = []
        for d, n in enumerate(sizes):
            indices = (r[d] for r in reads)
            touches = [None if i is None else _Touched.by(i, self.radix, fixed) for i in indices]
            region.append(self._part(touches, n))
        return region

    def _reads(self, op: tensor.ComputeOp) -> Iterator[list[Index | None]]:
        """Yield the indices of every load that reads a result of `op`."""
        for reader in self.plan.state.stages:
            if reader.name not in self.stages or not isinstance(reader.op, tensor.ComputeOp):
                continue
            values = self.stages[reader.name].values
            for n in tensor.loads(reader.op):
                if isinstance(n.buffer, tensor.Tensor) and n.buffer.op is op:
                    yield [index_of(i, values) for i in n.indices]

    def _fixed(self, stage: schedule.Stage) -> frozenset[int]:
        """Return the digits of the outer loops that keep one value while the stage runs."""
        scope = lowering.memory_scope(self.plan.state, stage)
        return frozenset(
            d
            for host, a in self.plan.around[stage.name]
            if not _shared(host.note(a).thread, scope)
            for d in self.stages[host.name].digits[a]
        )

    def _part(self, touched: list[_Touched | None], n: int) -> tuple[Index, Num]:
        """Return the start and the size of a range that contains all reads of a dimension."""
        all_of_it: tuple[Index, Num] = (ZERO, n)
        first = touched[0]
        if first is None or any(t is None or not t.moves_like(first) for t in touched):
            return all_of_it
        lo, hi = first.lo, first.hi
        for t in touched[1:]:
            assert t is not None
            lo, hi = least(lo, t.lo), most(hi, t.hi)
        begin = most(lo, 0)
        end = most(begin - 1, least(hi, n - 1))
        if not first.fixed:
            return (Part({}, begin),), end - begin + 1
        moving, size = first.moving(self.radix), hi - lo + 1
        follows = moving & (size < n)
        new = np.where(moving, np.where(size < n, size, n), end - begin + 1)
        const = np.where(follows, lo, np.where(moving, 0, begin))
        all_follow = bool(follows.all())
        terms = [
            {d: c if all_follow else c * follows for d, c in p.terms.items()} for p in first.fixed
        ]
        parts = [p._replace(terms=t) for p, t in zip(first.fixed, terms, strict=True)]
        return add((Part({}, const),), tuple(parts)), new

    # --- loops ---

    def _loops(
        self, stage: schedule.Stage, extents: dict[tensor.Axis, Num]
    ) -> tuple[dict[tensor.Axis, tuple[int, ...]], dict[tensor.Axis, dict[int, Num]]]:
        """Add to `extents` the axes that splits and fuses make; return the digits of each loop.

        Also returns how far each digit moves each root axis.
        """
        extents |= dict.fromkeys(schedule.singletons(stage), 1)
        roots = list(extents)
        pieces: dict[tensor.Axis, list[_Piece]] = {a: [_Piece(a, 1, extents[a])] for a in roots}
        for r in stage.relations:
            if isinstance(r, schedule.FuseRelation):
                extents[r.fused] = extents[r.outer] * extents[r.inner]
                pieces[r.fused] = [*pieces[r.outer], *pieces[r.inner]]
            else:
                self._split(stage, r, extents, pieces)
        digits: dict[tensor.Axis, tuple[int, ...]] = {}
        moves: dict[tensor.Axis, dict[int, Num]] = {a: {} for a in roots}
        for leaf in stage.leaves:
            begin = len(self.radix)
            for piece in pieces[leaf]:
                moves[piece.root][len(self.radix)] = piece.step
                self.radix.append(piece.radix)
            digits[leaf] = tuple(range(begin, len(self.radix)))
        return digits, moves

    def _split(
        self,
        stage: schedule.Stage,
        r: schedule.SplitRelation,
        extents: dict[tensor.Axis, Num],
        pieces: dict[tensor.Axis, list[_Piece]],
    ) -> None:
        """Split an axis: give the inner loop as many of its innermost digits as fit in it.

        If a fused loop is split inside a digit, that digit is divided too, and the extents are
        rounded as if the split were aligned with the digits.
        """
        n = extents[r.parent]
        step = r.factor if r.factor is not None else r.nparts
        size: Num = self.numbers[self.plan.factors[r]] if r in self.plan.factors else int(step)  # type: ignore[arg-type]
        part = r.inner if r.factor is not None else r.outer
        if not stage.note(part).thread:
            size = most(1, least(size, n))
        inner, outer = (size, ceildiv(n, size))
        if r.factor is None:
            inner, outer = outer, inner
        extents[r.inner], extents[r.outer] = inner, outer
        if len(pieces[r.parent]) == 1:
            (p,) = pieces[r.parent]
            pieces[r.inner] = [p._replace(radix=inner)]
            pieces[r.outer] = [_Piece(p.root, p.step * inner, outer)]
            return
        left: Num = inner
        pieces[r.inner], pieces[r.outer] = [], []
        for p in reversed(pieces[r.parent]):
            radix = least(p.radix, left)
            left = most(1, left // radix)
            pieces[r.inner].insert(0, p._replace(radix=radix))
            pieces[r.outer].insert(0, _Piece(p.root, p.step * radix, ceildiv(p.radix, radix)))

    # --- memory ---

    def _memory(
        self, stage: schedule.Stage, op: tensor.ComputeOp, domain: Domain
    ) -> tuple[tuple[Num, ...], tuple[Num, ...]]:
        """Return the shape and the strides of the buffer that holds the stage's region."""
        shape: list[Num] = [domain.extents[a] for a in op.axis]
        if stage.scope == "local" and not stage.is_output:
            shape = [self._reach(without(domain.values[a], domain.start[a])) for a in op.axis]
        if stage.layout is not None:
            radix: list[Num] = list(shape)  # digit d is the index in dimension d
            at: tuple[Index, ...] = tuple((Part({d: 1}),) for d in range(len(shape)))
            indices = self.placed(stage, at)
            shape = [1 if i is None else _size_of(i, radix) for i in indices]
        strides: list[Num] = []
        alignment = {d: (factor, offset) for d, factor, offset in stage.aligns}
        step: Num = 1
        for d in reversed(range(len(shape))):
            factor, offset = alignment.get(d, (1, 0))
            step = step + (offset - step) % factor
            strides.insert(0, step)
            step = step * shape[d]
        return tuple(shape), tuple(strides)

    def _reach(self, index: Index) -> Num:
        """Return the size of the range that an index covers: greatest - least value + 1."""
        return sum((span(p, self.radix, frozenset())[1] for p in index), start=0) + 1

    def placed(self, stage: schedule.Stage, at: tuple[Index, ...]) -> list[Index | None]:
        """Return the indices in memory of an element of the stage's region."""
        if stage.layout is None:
            return list(at)
        names, formulas = stage.layout
        parameter: Num = 0
        if stage.name in self.plan.layouts:
            formulas, where = self.plan.layouts[stage.name]
            parameter = self.numbers[where]
        env = dict(zip(names, at, strict=True))
        return [layout_index(f, env, parameter) for f in formulas]


class _Piece(NamedTuple):
    """A digit of an axis: it has `radix` values, and moves the axis `root` by `step` each."""

    root: tensor.Axis
    step: Num
    radix: Num


class _Touched(NamedTuple):
    """The range that one index touches: from fixed + lo to fixed + hi."""

    fixed: Index
    lo: Num
    hi: Num

    @staticmethod
    def by(index: Index, radix: list[Num], fixed: frozenset[int]) -> _Touched:
        """Return the range that an index touches while the `fixed` digits keep their values."""
        fixed_parts: list[Part] = []
        lo: Num = 0
        hi: Num = 0
        for p in index:
            least_, greatest = span(p, radix, fixed)
            terms = {d: c for d, c in p.terms.items() if d in fixed}
            a, b = p.const + least_, p.const + greatest
            if not p.affine:
                a, b = _quotient(p, a, b, terms)
            lo = lo + p.factor * (a if p.factor > 0 else b)
            hi = hi + p.factor * (b if p.factor > 0 else a)
            if terms:
                fixed_parts.append(p._replace(terms=terms, const=0))
        return _Touched(tuple(fixed_parts), lo, hi)

    def moves_like(self, other: _Touched) -> bool:
        """Return whether the fixed digits move both indices equally."""
        return len(self.fixed) == len(other.fixed) and all(
            p.factor == q.factor
            and p.terms.keys() == q.terms.keys()
            and all(equal(p.terms[d], q.terms[d]) for d in p.terms)
            and equal(p.div, q.div)
            and equal(p.mod, q.mod)
            for p, q in zip(self.fixed, other.fixed, strict=True)
        )

    def moving(self, radix: list[Num]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return for which candidates a fixed digit moves the index."""
        mask = np.False_
        for p in self.fixed:
            for d, c in p.terms.items():
                mask = mask | ((np.asarray(radix[d]) > 1) & (np.asarray(c) != 0))
        return np.atleast_1d(mask)


def _quotient(p: Part, a: Num, b: Num, fixed: dict[int, Num]) -> tuple[Num, Num]:
    """Apply `// div % mod` of `p` to the range a .. b; return offsets if there are fixed digits."""
    if fixed:
        common = p.div
        for c in fixed.values():
            common = np.gcd(common, c)
        a, b = 0, (b - a + p.div - common) // p.div
    else:
        a, b = a // p.div, b // p.div
    if isinstance(p.mod, int) and p.mod == 0:
        return a, b
    is_constant = np.asarray((a // p.mod) == (b // p.mod))
    return np.where(is_constant, a % p.mod, 0), np.where(is_constant, b % p.mod, p.mod - 1)


def _size_of(index: Index, radix: list[Num]) -> Num:
    """Return one more than the greatest value of an index."""
    return _Touched.by(index, radix, frozenset()).hi + 1


def _shared(thread: str, scope: str) -> bool:
    """Return whether all iterations of a loop bound to `thread` share one memory of `scope`."""
    return bool(thread) and schedule.is_shared_by(scope, thread)
