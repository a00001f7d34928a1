"""Recurrences: te.scan computes each row of a tensor from the rows before it.

    X = te.placeholder((T, n))                                       S[t] = S[t - 1] + X[t]
    state = te.placeholder((T, n))
    first = te.compute((1, n), lambda _, i: X[0, i])
    update = te.compute((T, n), lambda t, i: state[t - 1, i] + X[t, i])
    S = te.scan(first, update, state, inputs=[X])

The formulas that depend on the state are ordinary stages of a schedule. They are computed inside
the loop over time, s[S].op.scan_axis, one row per iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import ExprError, Reason, as_tuple, raise_first
from minitvm.base import dtype as dtype_of

from .checks import dimensions, known_name
from .tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    axis,
    extent_loads,
    loads,
    producers_first,
    tensor_of,
)


def scan_state(shape: Any, dtype: str = "float32", name: str = "state") -> Tensor:
    """Make the placeholder for the rows that a scan has computed so far. Its update reads them.

    A te.placeholder works too, if every read has the form state[t - c, ...].
    """
    known_name("scan_state", name)
    op = PlaceholderOp(name, dimensions(shape, f"scan_state {name}"), (dtype_of(dtype),), True)
    return tensor_of(op, 0)


def scan(
    init: Any, update: Any, state: Any, inputs: Any = None, name: str = "scan", tag: str = ""
) -> Any:
    """Define a tensor: its first rows are `init`, and each later row t is row t of `update`.

    init     the first rows, of shape (t0, ...)
    update   a formula of shape (T, ...) that reads `state` at times before t, directly or through
             other formulas whose first axis is also time
    state    a placeholder with the shape of update, which stands for the rows computed so far
    inputs   ignored, since the tensors that the formulas read are known; TVM needs it

    Lists of inits, updates and states, of equal length, give a list of tensors.
    Raises ExprError if shapes or types do not fit, or if a row depends on itself or a later one.
    """
    del inputs
    known_name("scan", name)
    parts = [as_tuple(x) for x in (init, update, state)]
    if len({len(p) for p in parts}) != 1 or not parts[0]:
        counts = ", ".join(str(len(p)) for p in parts)
        why = f"the numbers of inits, updates and states are {counts}"
        raise ExprError(f"scan {name}", why, "equally many of each")
    for step in zip(*parts, strict=True):
        raise_first(ExprError, f"scan {name}", _about_step(*step))
    inits, updates, states = parts
    start, end = inits[0].shape[0], states[0].shape[0]
    if not all(tir.prove_equal(t.shape[0], start) for t in inits):
        rows = ", ".join(tir.text(t.shape[0]) for t in inits)
        raise ExprError(f"scan {name}", f"the inits have {rows} rows", "as many rows in each")
    if len(set(updates)) < len(updates) or len(set(states)) < len(states):
        raise ExprError(f"scan {name}", "an update or state is given twice", "one for each output")
    time = axis(updates[0].op.axis[0].name, start, tir.sub(end, start), "scan")
    op = ScanOp(name, inits, updates, states, time, tag)
    body = body_of(op)
    for part in body:
        raise_first(ExprError, f"scan {name}: {part.name}", _about_time(part, body, op))
    inside = {*states, *(part.output(0) for part in body)}
    read = (t for part in body for t in part.input_tensors if t not in inside)
    _check_outside(name, (*inits, *read), states)
    outputs = [tensor_of(op, i) for i in range(len(states))]
    return outputs if len(outputs) > 1 else outputs[0]


def _about_step(init: Any, update: Any, state: Any) -> Iterator[Reason]:
    """Yield a reason if init, update and state differ in type, or their shapes do not fit."""
    for t in (init, update, state):
        if not isinstance(t, Tensor):
            yield f"{t!r} is not a tensor", "te.scan(init, update, state)"
    if not isinstance(state.op, PlaceholderOp):
        yield f"the state {state.name} is computed", "te.placeholder(shape, dtype, name)"
    if not state.shape:
        yield f"the state {state.name} has no time dimension", "shape (T, ...)"
    if not isinstance(update.op, ComputeOp):
        yield f"the update {update.name} is not a formula", "te.compute"
    for t in (init, update):
        if t.dtype is not state.dtype:
            yield (f"{t.name} is {t.dtype}, and the state is {state.dtype}",)
    for shape, whole in ((init.shape[1:], state.shape[1:]), (update.shape, state.shape)):
        if len(shape) != len(whole) or not all(map(tir.prove_equal, shape, whole)):
            why = f"the shapes of {init.name}, {update.name} and {state.name} differ"
            yield why, "(t0, n, ...), (T, n, ...) and (T, n, ...)"


def rescan(op: ScanOp, tensors: Mapping[Tensor, Tensor]) -> ScanOp:
    """Return a copy of `op` with inits and updates replaced according to `tensors`."""
    inits, updates = (tuple(tensors.get(t, t) for t in row) for row in (op.inits, op.updates))
    return replace(op, inits=inits, updates=updates)


def states_of(ops: Sequence[Operation]) -> set[Tensor]:
    """Return the placeholders that are states of the scans among `ops`."""
    return {t for op in ops if isinstance(op, ScanOp) for t in op.states}


def check_past(ops: Sequence[Operation]) -> None:
    """Raise ExprError if a formula in `ops` reads earlier rows of a tensor that is not a state.

    A state is the placeholder of a scan in `ops`; every te.scan_state must be a state.
    """
    states = states_of(ops)
    for op in ops:
        if isinstance(op, PlaceholderOp) and op.is_state and op.output(0) not in states:
            what = f"{op.name} is read outside of a scan"
            why = "it stands for the rows that a scan has computed so far"
            raise ExprError(what, why, "schedule the result of te.scan")
        for e in op.past if isinstance(op, ComputeOp) else ():
            if e.buffer not in states:
                i, name = tir.text(e.indices[0]), e.buffer.name
                raise ExprError(
                    f"compute {op.name}: {tir.text(e)} may leave {name}",
                    f"its first index {i} can be negative, and {name} is not the state of a "
                    "te.scan",
                    f"te.if_then_else({i} >= 0, {tir.text(e)}, 0); "
                    f"or te.scan(init, {op.name}, {name})",
                )


# --- what depends on the state -------------------------------------------------------------------


def body_of(op: ScanOp) -> list[ComputeOp]:
    """Return the formulas that the time loop of `op` computes, producers first.

    These are the updates, and the formulas that they read and that depend on a state. Raises
    ExprError if one of them has several outputs.
    """
    states = set(op.states)
    updates = {id(t.op) for t in op.updates}
    known: dict[int, bool] = {}
    body: list[ComputeOp] = []

    def depends(t: Tensor) -> bool:
        if t in states:
            return True
        if not isinstance(t.op, ComputeOp):
            return False
        if id(t.op) not in known:
            inner = [depends(x) for x in t.op.input_tensors]
            known[id(t.op)] = any(inner) or id(t.op) in updates
            if known[id(t.op)]:
                body.append(t.op)
        return known[id(t.op)]

    for t in op.updates:
        depends(t)
    for part in body:
        if len(part.body) > 1:
            what = f"scan {op.name}: {part.name}"
            raise ExprError(what, "it has several outputs", "one compute for each")
    return body


def _about_time(op: ComputeOp, body: list[ComputeOp], scan: ScanOp) -> Iterator[Reason]:
    """Yield a reason if row t of `op` reads a row of a state that is not before row t.

    It may read formulas in `body` only at row t, and the first axis of `op` must be time.
    """
    start, states = scan.scan_axis.start, scan.states
    time = axis("t", start, scan.scan_axis.extent, "data")
    if not op.axis or not tir.prove_equal(op.axis[0].extent, scan.shape[0]):
        yield "its first axis is not time", "lambda t, ...: ..."
    for e in extent_loads(op):
        if e.buffer in states:
            yield (
                f"the range of a reduce axis depends on {tir.text(e)}: the state is computed, and "
                "only inputs are known before the loops run",
                "a fixed range, and where=...",
            )
    for e in loads(op):
        if not isinstance(e.buffer, Tensor) or not e.indices:
            continue
        at = tir.substitute(e.indices[0], {op.axis[0]: time})
        if e.buffer in states and not (
            tir.nonneg(tir.sub(tir.sub(time, 1), at)) and tir.lower_bound(at) >= 0
        ):
            why = f"it reads {tir.text(e)}, which for t >= {tir.text(start)} is not a row before t"
            yield why, f"init with more rows, or {e.buffer.name}[t - 1, ...]"
        if any(e.buffer.op is other for other in body) and not tir.prove_equal(at, time):
            yield (
                f"it reads {tir.text(e)}: {e.buffer.name} depends on the state, and only its row t "
                "exists",
                f"{e.buffer.name}[t, ...]",
            )


def _check_outside(name: str, tensors: Iterable[Tensor], states: tuple[Tensor, ...]) -> None:
    """Raise ExprError if `tensors`, computed outside the scan `name`, depend on a state."""
    tensors = tuple(tensors)
    producers = producers_first(t.op for t in tensors)
    tensors_read = {*tensors, *(t for op in producers for t in op.input_tensors)}
    for t in states:
        if t in tensors_read:
            what = f"scan {name}: {t.name} is read outside of the scan"
            why = "a state exists only while its scan runs"
            raise ExprError(what, why, "read the result of the scan")
