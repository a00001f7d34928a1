"""The statements of a sketch for thousands of candidates at once, without building a program.

    for at, batch in statements(sketch).batches(rows):
        ...                         the statements, with arrays of one number per candidate

A statement is a store with the loops around it: for each loop its extent, for each access how far
each loop moves it. Numbers that are the same for all candidates are ints. lowering.infer infers
these numbers for one candidate. The init of a reduction is left out, and so are guards: a loop
split at a size that does not divide its extent counts the extra iterations too.

Approximations: store_at counts as compute_at; if a fused loop is split again inside a part, sizes
are rounded up to whole parts; an index that is read from data touches the whole dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minitvm import lowering, schedule, tensor, tir
from minitvm.base import ArgumentError, ScheduleError

from .affine import Index, Num, index_of, without
from .extents import Domains, Path, Plan, loops_around
from .knob import Ints
from .operations import operations_of
from .sketch import Parameter, Sketch
from .space import Rows, Space

MAX_SHAPES = 64  # the most shapes of a sketch; with more, too few candidates would share each
EXAMPLES = 32  # rows tried until one is a legal schedule


class Loop(NamedTuple):
    """A loop around a statement.

    digits   the digits of its counter, outermost first; a fused loop has several (see affine.py)
    reduce   whether it runs over a reduce axis of its stage
    """

    name: str
    kind: tir.LoopKind
    thread: str
    reduce: bool
    extent: Num
    digits: tuple[int, ...]


class Access(NamedTuple):
    """The accesses of a statement to one buffer whose indices differ only by constants.

    indices   the index in each dimension of the buffer; None if it is not known
    spread    the largest difference of these constants, for each dimension
    shape     of the buffer; strides: from one element to the next in each dimension, in elements
    shared    how many of the outermost loops also contain another statement that accesses this
              buffer, -1 without such a statement; others: the number of such statements
    """

    buffer: str
    bytes: int
    read: bool
    write: bool
    indices: tuple[Index | None, ...]
    spread: tuple[int, ...]
    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    shared: int = -1
    others: int = 0


class Statement(NamedTuple):
    """A store, the loops around it (outermost first), its accesses (the store first).

    bytes         the size of the element that it stores
    operations    arithmetic operations of one execution, by kind as in OPERATIONS
    auto_unroll   the pragma auto_unroll_max_step, and whether it is explicit (1) or LLVM's (0)
    allocated     elements of the buffer it writes, in memory `scope`; 0 if the caller allocates it
    allocated_in  the number of loops around the allocation
    axis          the extent of the axis from which its vectorized loop was split
    """

    stage: str
    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]
    bytes: int
    operations: tuple[int, ...]
    auto_unroll: Num
    explicit: Num
    allocated: Num
    allocated_in: int
    scope: str
    axis: Num


@dataclass(frozen=True, slots=True)
class Batch:
    """The statements of some candidates, producers first; radix: number of values per digit."""

    count: int
    statements: tuple[Statement, ...]
    radix: tuple[Num, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What the candidates of a sketch have in common; at() derives their statements from it."""

    sketch: Sketch
    plan: Plan
    stages: tuple[schedule.Stage, ...]  # the stages that run in every call, producers first

    def at(self, rows: Rows, accesses: bool) -> Batch:
        """Return the statements of candidates."""
        numbers = _numbers(self.sketch, rows)
        domains = Domains(self.plan, numbers)
        domains.infer()
        all_statements = [s for stage in self.stages for s in _statements(domains, stage, accesses)]
        return Batch(len(rows), tuple(_linked(all_statements, self.plan)), tuple(domains.radix))


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """The statements of a sketch's candidates.

    fixed    the knobs that decide steps, or formulas of stages, as rfactor turns the loops of a
             split into axes. Candidates with the same options of these knobs share a Shape
    shapes   options of these knobs -> the Shape, derived when it is first needed
    """

    sketch: Sketch
    fixed: tuple[int, ...]
    shapes: dict[tuple[int, ...], Shape]

    def batches(self, rows: Rows, accesses: bool = True) -> Iterator[tuple[Ints, Batch]]:
        """Group candidates by Shape; yield (positions of the group in `rows`, its statements).

        accesses   whether the accesses of the statements are needed, or only the loops
        """
        keys, groups = np.unique(rows[:, list(self.fixed)], axis=0, return_inverse=True)
        for n in range(len(keys)):
            options = tuple(map(int, keys[n]))
            at = np.flatnonzero(groups.reshape(-1) == n)
            if options not in self.shapes:
                self.shapes[options] = self._derived(options, rows[at[0]].tolist())
            yield at, self.shapes[options].at(rows[at], accesses)

    def _derived(self, options: tuple[int, ...], row: Sequence[int]) -> Shape:
        """Return the shape of candidates with these options; `row` is one of them."""
        sketch = self.sketch.fixed(dict(zip(self.fixed, options, strict=True)))
        try:
            return _shape(sketch, _plan(sketch, row))
        except ScheduleError:
            return _shape(sketch, _example(sketch)[1])

    def at(self, rows: Rows) -> Batch:
        """Return the statements of candidates that all share one Shape."""
        batches = list(self.batches(rows))
        if len(batches) != 1:
            names = ", ".join(self.sketch.space.knobs[n].name for n in self.fixed)
            _refuse(self.sketch, f"candidates that differ in {names} have different formulas")
        return batches[0][1]

    def table(
        self, rows: Rows, of: Callable[[Batch], npt.NDArray[Any]], accesses: bool = True
    ) -> npt.NDArray[Any]:
        """Return the results of of(batch), joined to one array with a row for each of `rows`."""
        batches = list(self.batches(rows, accesses))
        parts = [of(batch) for _, batch in batches]
        order = np.argsort(np.concatenate([at for at, _ in batches]))
        return np.concatenate(parts)[order] if len(parts) > 1 else parts[0]


@lru_cache(maxsize=256)
def statements(sketch: Sketch) -> Statements:
    """Derive what the candidates of a sketch have in common.

    Raises ArgumentError if a size is symbolic, a stage has no loops of its own (te.extern, te.scan,
    tensorize), or knobs decide too many formulas.
    """
    if not sketch.traced:
        _refuse(sketch, "its steps are known only after a call of the template")
    shaping = sketch.space.shaping
    row, plan = _example(sketch)
    relations = {r for s in plan.state.stages for r in s.relations}
    lost = {
        knob
        for r, parameter in plan.factors.items()
        if r not in relations
        for knob, _ in parameter.parts
    }
    knobs = [sketch.space.knobs[knob] for knob in sorted(lost)]
    if math.prod(map(len, knobs)) > MAX_SHAPES:
        names = " and ".join(g.name for g in knobs)
        _refuse(sketch, f"the options of {names} give more than {MAX_SHAPES} different formulas")
    options = {knob: row[knob] for knob in sorted({*shaping, *lost})}
    fixed_sketch = sketch.fixed(options)
    first = _shape(fixed_sketch, _plan(fixed_sketch, row) if lost else plan)
    return Statements(sketch, tuple(options), {tuple(options.values()): first})


def _shape(sketch: Sketch, plan: Plan) -> Shape:
    """Return what all candidates of a sketch have in common."""
    prepacked = set[str]()
    if schedule.from_constants(plan.state):
        prepacked = {s.name for s in lowering.prepack_stages(lowering.allocate(plan.state))[0]}
    stages = [s for s in plan.state.stages if not isinstance(s.op, tensor.PlaceholderOp)]
    for s in stages:
        _check(sketch, s)
    return Shape(sketch, plan, tuple(s for s in stages if s.name not in prepacked))


def _plan(sketch: Sketch, row: Sequence[int]) -> Plan:
    """Apply the steps of `row`; return the schedule, and what its parameters set."""
    state, factors = sketch.initial, dict[schedule.Relation, Parameter]()
    layouts = dict[str, tuple[tuple[str, ...], Parameter]]()
    pragmas = dict[tuple[str, tensor.Axis, str], Parameter]()
    for n, step in enumerate(sketch.filled(row)):
        state = schedule.apply(state, step)
        for parameter in (h for h in sketch.parameters if h.step == n):
            stage, pattern = state.stage(step.stage), sketch.steps[n]
            match pattern, parameter.field:
                case schedule.Split(), "factor" | "nparts":
                    factors[stage.relations[-1]] = parameter
                case schedule.TransformLayout(), "layout":
                    layouts[stage.name] = (pattern.layout, parameter)
                case schedule.Pragma(axis=axis, key=key), "value":
                    (loop,) = (a for a in stage.leaves if stage.names[a] == axis)
                    pragmas[stage.name, loop, key] = parameter
                case _:
                    _refuse(sketch, f"its step {n} has a parameter in {parameter.field!r}")
    plain = lowering.normalize(state)
    return Plan(
        plain, factors, layouts, pragmas, {s.name: loops_around(plain, s) for s in plain.stages}
    )


def _example(sketch: Sketch) -> tuple[tuple[int, ...], Plan]:
    """Return a row whose schedule is legal, of the shape with the first options, and its plan."""
    rng, shaping = np.random.default_rng(0), list(sketch.space.shaping)
    first = np.zeros((1, len(sketch.space.knobs)), np.int32)
    rows = np.concatenate([Space(sketch.space.knobs).sample(rng, EXAMPLES), first])
    rows[:, shaping] = 0
    fixed_sketch = sketch.fixed(dict.fromkeys(shaping, 0))
    *others, last = rows.tolist()
    for row in others:
        try:
            return tuple(row), _plan(fixed_sketch, row)
        except ScheduleError:
            continue
    return tuple(last), _plan(fixed_sketch, last)


def _check(sketch: Sketch, stage: schedule.Stage) -> None:
    if not isinstance(stage.op, tensor.ComputeOp):
        _refuse(sketch, f"{stage.name} is a {type(stage.op).__name__}, not a te.compute")
    assert isinstance(stage.op, tensor.ComputeOp)
    sizes = [*stage.op.shape, *(n for a in stage.op.reduce_axis for n in (a.start, a.extent))]
    if not all(isinstance(n, int) for n in sizes):
        _refuse(sketch, f"{stage.name} has a symbolic size")
    if any(note.intrin is not None for note in stage.notes.values()):
        _refuse(sketch, f"{stage.name} is tensorized")


def _refuse(sketch: Sketch, why: str) -> None:
    raise ArgumentError(f"statements of sketch {sketch.name!r}", why)


def _numbers(sketch: Sketch, rows: Rows) -> dict[Parameter, Num]:
    """Return the values of each parameter."""
    columns: dict[tuple[int, int], Num] = {}
    values: dict[Parameter, Num] = {}
    for parameter in sketch.parameters:
        for knob, part in parameter.parts:
            if (knob, part) not in columns:
                options = np.ascontiguousarray(sketch.space.knobs[knob].values[:, part])
                columns[knob, part] = options[rows[:, knob]]
        first, *others = (columns[p] for p in parameter.parts)
        for n in others:
            first = first * n
        values[parameter] = first
    return values


# --- one stage -----------------------------------------------------------------------------------


def _statements(domains: Domains, stage: schedule.Stage, accesses: bool) -> Iterator[Statement]:
    """Yield the statements of a stage, one for each of its outputs."""
    op, plan = stage.op, domains.plan
    assert isinstance(op, tensor.ComputeOp)
    path = _path(plan, stage)
    loops = tuple(_loop(domains, host, a) for host, a in path)
    domain = domains.stages[stage.name]
    elements: Num = 1
    for n in domain.shape:
        elements = elements * n
    for i in range(len(op.body)):
        yield Statement(
            stage.name,
            loops,
            tuple(_access(domains, stage, uses) for uses in _uses(op, i)) if accesses else (),
            op.dtypes[i].bytes,
            operations_of(_value(op, i)),
            _pragma(domains, path, "auto_unroll_max_step", 0),
            _pragma(domains, path, "unroll_explicit", 1),
            0 if stage.is_output else elements,
            len(plan.around[stage.name]),
            lowering.memory_scope(plan.state, stage),
            _vectorized_axis(stage, domain.extents),
        )


def _loop(domains: Domains, host: schedule.Stage, a: tensor.Axis) -> Loop:
    domain, note = domains.stages[host.name], host.note(a)
    reduce = a.kind == "reduce"
    return Loop(a.name, note.kind, note.thread, reduce, domain.extents[a], domain.digits[a])


def _pragma(domains: Domains, path: Path, key: str, default: int) -> Num:
    """Return the value of the innermost pragma `key` on the loops of a statement."""
    number: Num = default
    for host, a in path:
        for k, value in host.note(a).pragmas:
            if k == key:
                parameter = domains.plan.pragmas.get((host.name, a, key))
                number = int(value) if parameter is None else domains.numbers[parameter]
    return number


def _vectorized_axis(stage: schedule.Stage, extents: Mapping[tensor.Axis, Num]) -> Num:
    """Return the extent of the axis from which the vectorized loop was split, 0 without one."""
    axis = next((a for a in stage.leaves if stage.note(a).kind == "vectorize"), None)
    if axis is None:
        return 0
    for r in reversed(stage.relations):
        if isinstance(r, schedule.FuseRelation):
            if r.fused is axis:
                return extents[axis]
        elif axis is r.outer or axis is r.inner:
            axis = r.parent
    return extents[axis]


@lru_cache(maxsize=1024)
def _value(op: tensor.ComputeOp, i: int) -> tir.Expr:
    """Return the value that output `i` stores; a reduction stores an update of the old value."""
    r = op.reduction
    if r is None:
        return op.body[i]
    outs = [tensor.tensor_of(op, n) for n in range(len(op.body))]
    old = tuple(tir.Load(t, op.axis, t.dtype) for t in outs)
    return r.reducer.combine(old, r.sources)[i]


class _Uses(NamedTuple):
    """The store and the loads of a statement whose indices differ only by constants."""

    result: tensor.Tensor
    read: bool
    write: bool
    indices: tuple[tir.Index, ...]
    spread: tuple[int, ...]


@lru_cache(maxsize=1024)
def _uses(op: tensor.ComputeOp, i: int) -> tuple[_Uses, ...]:
    """Return the accesses of a statement, the store first, merged if they differ by constants."""
    target = tir.Load(tensor.tensor_of(op, i), op.axis, op.dtypes[i])
    loads = [n for n in tir.walk(_value(op, i)) if isinstance(n, tir.Load)]
    groups: dict[tuple[object, ...], list[tir.Load]] = {}
    for n in (target, *loads):
        index_terms = (frozenset((id(a), c) for a, c in tir.split_terms(e)[0]) for e in n.indices)
        groups.setdefault((n.buffer, *index_terms), []).append(n)
    merged: list[_Uses] = []
    for group in groups.values():
        t, indices, write = group[0].buffer, group[0].indices, group[0] is target
        assert isinstance(t, tensor.Tensor)
        consts = [[tir.split_terms(n.indices[d])[1] for n in group] for d in range(len(indices))]
        spread = tuple(max(c) - min(c) for c in consts)
        merged.append(_Uses(t, len(group) > write, write, tuple(indices), spread))
    return tuple(merged)


def _access(domains: Domains, stage: schedule.Stage, uses: _Uses) -> Access:
    t, read, write, exprs, spread = uses
    values = domains.stages[stage.name].values
    indices: list[Index | None] = [index_of(e, values) for e in exprs]
    owner = domains.plan.state.owner(t)
    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
    if isinstance(owner.op, tensor.ComputeOp):
        domain = domains.stages[owner.name]
        shape, strides = domain.shape, domain.strides
        pairs = zip(indices, (domain.start[a] for a in owner.op.axis), strict=True)
        indices = [None if i is None else without(i, start) for i, start in pairs]
        if owner.layout is not None:
            known = tuple(i for i in indices if i is not None)
            missing: list[Index | None] = [None] * len(shape)
            indices = domains.placed(owner, known) if len(known) == len(indices) else missing
            spread = (0,) * len(indices)
    else:
        sizes = tuple(int(n) for n in t.shape)  # type: ignore[arg-type]
        shape, strides = sizes, _dense(sizes)
    return Access(t.name, t.dtype.bytes, read, write, tuple(indices), spread, shape, strides)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape)))


def _linked(every: Sequence[Statement], plan: Plan) -> Iterator[Statement]:
    """Fill in the fields `shared` and `others` of each access; yield the statements."""
    paths = [_path(plan, plan.state.stage(s.stage)) for s in every]
    for n, s in enumerate(every):
        accesses: list[Access] = []
        for a in s.accesses:
            depths = [
                _common(paths[n], paths[m])
                for m, t in enumerate(every)
                if m != n and any(b.buffer == a.buffer for b in t.accesses)
            ]
            accesses.append(a._replace(shared=max(depths, default=-1), others=len(depths)))
        yield s._replace(accesses=tuple(accesses))


def _path(plan: Plan, stage: schedule.Stage) -> Path:
    """Return the loops around a statement of a stage, outermost first."""
    return (*plan.around[stage.name], *((stage, a) for a in stage.leaves))


def _common(a: Path, b: Path) -> int:
    """Return how many outermost loops two statements share."""
    n = 0
    while n < min(len(a), len(b)) and a[n][1] is b[n][1]:
        n += 1
    return n
