"""Recurrences: te.scan, whose loop over time is written out from formulas.

    X = te.placeholder((T, n))                                       S[t] = S[t - 1] + X[t]
    state = te.scan_state((T, n))
    first = te.compute((1, n), lambda _, i: X[0, i])
    update = te.compute((T, n), lambda t, i: state[t - 1, i] + X[t, i])
    S = te.scan(first, update, state, inputs=[X])

A scan is an operation with a statement of its own (ExternOp): what is around it can be scheduled,
its loops run as the formulas are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minitvm.base import ExprError, as_tuple
from minitvm.base import dtype as dtype_of
from minitvm.tir import (
    TRUE,
    Allocate,
    Buffer,
    DeclaredBuffer,
    Expr,
    For,
    If,
    Index,
    Load,
    Stmt,
    Store,
    Var,
    add,
    compare,
    high,
    low,
    nonneg,
    rewrite_expr,
    same,
    seq,
    sub,
    substitute,
    text,
)

from .compute import dimensions
from .extern import check_body, symbols
from .tensor import Axis, ComputeOp, ExternOp, PlaceholderOp, Tensor, axis, loads, tensor_of


def scan_state(shape: Any, dtype: str = "float32", name: str = "state") -> Tensor:
    """What a scan has computed so far, to be read in its update at earlier times."""
    op = PlaceholderOp(name, dimensions(shape, f"scan_state {name}"), (dtype_of(dtype),), True)
    return tensor_of(op, 0)


def scan(
    init: Any, update: Any, state: Any, inputs: Any = None, name: str = "scan", tag: str = ""
) -> Any:
    """The tensor whose first rows are `init`, and every other row t the row t of `update`.

    init     of shape (t0, ...): the rows that are given
    update   of shape (T, ...): a formula that reads `state` at times before t, directly or through
             other formulas, whose first axis is time too
    state    made by te.scan_state, of the shape of update
    inputs   what the formulas read besides; found by itself, and accepted for TVM's sake

    Lists of as many inits, updates and states make a list of tensors.
    Raises ExprError if shapes or types do not fit, or if a row depends on itself or a later one.
    """
    del inputs
    parts = [as_tuple(x) for x in (init, update, state)]
    if len({len(p) for p in parts}) != 1 or not parts[0]:
        counts = ", ".join(str(len(p)) for p in parts)
        raise ExprError(f"scan {name}", f"{counts} inits, updates and states", "as many of each")
    steps = [_Step(name, *each) for each in zip(*parts, strict=True)]
    start, end = steps[0].init.shape[0], steps[0].state.shape[0]
    body = _body(name, steps)
    for op in body:
        _check_time(name, op, body, steps)
    outer = [t for op in body for t in op.input_tensors]
    own = {*(s.state for s in steps), *(op.output(0) for op in body)}
    read = tuple(dict.fromkeys([*(s.init for s in steps), *(t for t in outer if t not in own)]))
    for t in read:
        _check_outside(name, t, {s.state for s in steps})
    ins = {t: DeclaredBuffer(t.name, t.shape, t.dtype) for t in read}
    names = [name] if len(steps) == 1 else [f"{name}.v{i}" for i in range(len(steps))]
    outs = [
        DeclaredBuffer(n, s.state.shape, s.state.dtype) for n, s in zip(names, steps, strict=True)
    ]
    statement = _statement(steps, body, ins, outs, start, end)
    given = list(ins.values())
    check_body(f"scan {name}", given, outs, statement, symbols((*given, *outs)))
    shapes, kinds = tuple(b.shape for b in outs), tuple(b.dtype for b in outs)
    op = ExternOp(name, read, shapes, kinds, tuple(given), tuple(outs), statement, tag)
    made = [tensor_of(op, i) for i in range(len(steps))]
    return made if len(made) > 1 else made[0]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One state with what begins and what continues it."""

    name: str
    init: Tensor
    update: Tensor
    state: Tensor

    def __post_init__(self) -> None:
        what = f"scan {self.name}"
        for t in (self.init, self.update, self.state):
            if not isinstance(t, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ExprError(f"{what}: {t!r}", "not a tensor", "te.scan(init, update, state)")
        if not isinstance(self.state.op, PlaceholderOp) or not self.state.op.is_state:
            fix = "te.scan_state(shape, dtype, name)"
            raise ExprError(f"{what}: {self.state.name}", "it is no state", fix)
        if not isinstance(self.update.op, ComputeOp):
            raise ExprError(f"{what}: update {self.update.name}", "it is no formula", "te.compute")
        for t in (self.init, self.update):
            if t.dtype is not self.state.dtype:
                raise ExprError(
                    f"{what}: {t.name} is {t.dtype}", f"the state is {self.state.dtype}"
                )
        pairs = ((self.init.shape[1:], self.state.shape[1:]), (self.update.shape, self.state.shape))
        for mine, wanted in pairs:
            if len(mine) != len(wanted) or not all(map(same, mine, wanted)):
                raise ExprError(
                    f"{what}: shapes of {self.init.name}, {self.update.name}, {self.state.name}",
                    "they differ",
                    "(t0, n, ...), (T, n, ...) and (T, n, ...)",
                )


# --- what depends on the state -------------------------------------------------------------------


def _body(name: str, steps: list[_Step]) -> list[ComputeOp]:
    """The formulas that depend on a state, producers first; updates are among them."""
    states = {s.state for s in steps}
    updates = [s.update.op for s in steps]
    known: dict[int, bool] = {}
    found: list[ComputeOp] = []

    def depends(t: Tensor) -> bool:
        if t in states:
            return True
        op = t.op
        if not isinstance(op, ComputeOp):
            return False
        if id(op) not in known:
            inner = [depends(x) for x in op.input_tensors]
            known[id(op)] = any(inner)
            if any(inner) or any(op is u for u in updates):
                found.append(op)
        return known[id(op)]

    for s in steps:
        depends(s.update)
    for op in found:
        if len(op.body) > 1:
            raise ExprError(f"scan {name}: {op.name}", "it has several outputs", "one for each")
    return found


def _check_time(name: str, op: ComputeOp, body: list[ComputeOp], steps: list[_Step]) -> None:
    """Formulas of the body are read at their own time, states at earlier ones."""
    start, end = steps[0].init.shape[0], steps[0].state.shape[0]
    now = axis("t", start, sub(end, start), "data")
    states = {s.state for s in steps}
    if not op.axis or not same(op.axis[0].extent, end):
        raise ExprError(
            f"scan {name}: {op.name}", "its first axis is not time", "lambda t, ...: ..."
        )
    for e in loads(op):
        if not isinstance(e.buffer, Tensor) or not e.indices:
            continue
        at = substitute(e.indices[0], {op.axis[0]: now})
        if e.buffer in states and not (nonneg(sub(sub(now, 1), at)) and low(at) >= 0):
            raise ExprError(
                f"scan {name}: {op.name} reads {text(e)}",
                f"for t from {text(start)} on, that is not a row before t",
                f"init with more rows, or {e.buffer.name}[t - 1, ...]",
            )
        if any(e.buffer.op is other for other in body) and not same(at, now):
            raise ExprError(
                f"scan {name}: {op.name} reads {text(e)}",
                f"{e.buffer.name} depends on the state, and only its row t is there",
                f"{e.buffer.name}[t, ...]",
            )


def _check_outside(name: str, t: Tensor, states: set[Tensor]) -> None:
    """What comes from outside does not depend on a state."""
    if t in states:
        raise ExprError(
            f"scan {name}: {t.name} is read outside of the scan",
            "it exists while the scan runs",
            "read the result of the scan",
        )
    for source in () if isinstance(t.op, PlaceholderOp) else t.op.input_tensors:
        _check_outside(name, source, states)


# --- the loops -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Where tensors live during the scan.

    whole   tensors with all their rows
    now     tensors of which only the row of this time is there
    time    the time, as an index
    """

    whole: Mapping[Tensor, Buffer]
    now: Mapping[Tensor, Buffer]
    time: Index

    def read(self, e: Expr, values: Mapping[Axis, Index]) -> Expr:
        """The formula `e` at the point `values`."""

        def rule(n: Any) -> Any:
            if not isinstance(n, Load) or not isinstance(n.buffer, Tensor):
                return n
            if n.buffer in self.now:
                return Load(self.now[n.buffer], n.indices[1:], n.dtype)
            return Load(self.whole[n.buffer], n.indices, n.dtype)

        return rewrite_expr(substitute(e, values), rule)

    def target(self, t: Tensor, at: tuple[Index, ...]) -> tuple[Buffer, tuple[Index, ...]]:
        """Where element `at` of this time's row of `t` is stored."""
        return (self.now[t], at) if t in self.now else (self.whole[t], (self.time, *at))


def _statement(
    steps: list[_Step],
    body: list[ComputeOp],
    ins: Mapping[Tensor, Buffer],
    outs: list[DeclaredBuffer],
    start: Index,
    end: Index,
) -> Stmt:
    """First rows copied; then, for each time, the formulas in order."""
    results = dict(zip((s.update for s in steps), outs, strict=True))
    states = dict(zip((s.state for s in steps), outs, strict=True))
    inner = [op.output(0) for op in body if op.output(0) not in results]
    rows = {t: Buffer(t.name, t.shape[1:], t.dtype) for t in inner}
    counter = _counter("t", sub(end, start))
    where = _Rows({**ins, **states, **results}, rows, add(counter, start))
    once = seq(*(_formula(op, where) for op in body))
    for b in reversed(rows.values()):
        once = Allocate(b, once)
    copies = [_copy(ins[s.init], b) for s, b in zip(steps, outs, strict=True)]
    return seq(*copies, For(counter, sub(end, start), once))


def _counter(name: str, extent: Index) -> Var:
    last = sub(extent, 1)
    return Var(name, 0, high(last), None if isinstance(last, int) else last)


def _loops(axes: tuple[tuple[str, Index], ...], body: Callable[[tuple[Index, ...]], Stmt]) -> Stmt:
    """Loops over (name, extent) around what `body` makes of their counters."""
    counters = tuple(_counter(name, n) for name, n in axes)
    made = body(counters)
    for v, (_, n) in reversed(list(zip(counters, axes, strict=True))):
        made = For(v, n, made)
    return made


def _copy(source: Buffer, target: Buffer) -> Stmt:
    """target[i, ...] = source[i, ...] for all of `source` that fits: time may end before."""
    named = tuple((f"i{d}", n) for d, n in enumerate(source.shape))

    def element(at: tuple[Index, ...]) -> Stmt:
        store = Store(target, at, Load(source, at, source.dtype))
        fits = compare("<", at[0], target.shape[0])
        return store if fits is TRUE else If(fits, store)

    return _loops(named, element)


def _formula(op: ComputeOp, rows: _Rows) -> Stmt:
    """The row of `op` at this time."""
    named = tuple((a.name, a.extent) for a in op.axis[1:])

    def element(at: tuple[Index, ...]) -> Stmt:
        values: dict[Axis, Index] = dict(zip(op.axis, (rows.time, *at), strict=True))
        target, place = rows.target(op.output(0), at)
        r = op.reduction
        if r is None:
            return Store(target, place, rows.read(op.body[0], values))
        begin = (r.init or r.reducer.identity((r.sources[0].dtype,)))[0]
        first = Store(target, place, rows.read(begin, values))
        return seq(first, _fold(op, rows, values, target, place))

    return _loops(named, element)


def _fold(
    op: ComputeOp,
    rows: _Rows,
    values: dict[Axis, Index],
    target: Buffer,
    place: tuple[Index, ...],
) -> Stmt:
    """target[place] = combine(target[place], source), over all reduce axes."""
    r = op.reduction
    assert r is not None
    named = tuple((a.name, substitute(a.extent, values)) for a in op.reduce_axis)

    def term(at: tuple[Index, ...]) -> Stmt:
        starts = [substitute(a.start, values) for a in op.reduce_axis]
        here = [add(s, i) for s, i in zip(starts, at, strict=True)]
        point = values | dict(zip(op.reduce_axis, here, strict=True))
        old = Load(target, place, target.dtype)
        (new,) = r.reducer.combine((old,), (rows.read(r.sources[0], point),))
        counts = rows.read(r.where, point)
        store = Store(target, place, new)
        return store if counts is TRUE else If(counts, store)

    return _loops(named, term)
