"""Tensor intrinsics: a small formula, and a statement or instruction that computes it."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from minitvm import tir
from minitvm.base import ExprError, Reason, as_tuple, raise_first

from .checks import known_function, known_name
from .extern import check_body, statement, symbols
from .tensor import ComputeOp, PlaceholderOp, Tensor, loads

FACTOR = "offset_factor"


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """A tensor intrinsic: the formula `op`, and statements on declared buffers that compute it.

    buffers   the buffer of each input and each output of op
    body      the statement that sets the outputs to the formula; None to reset, then update, them
    reset     the statement that sets the outputs to the identity of the reduction; or None
    update    the statement that adds the formula to the outputs; or None
    """

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    buffers: Mapping[Tensor, tir.DeclaredBuffer]
    body: tir.Stmt | None
    reset: tir.Stmt | None
    update: tir.Stmt | None

    def __repr__(self) -> str:
        return f"tensor intrinsic {self.name}"


def decl_tensor_intrin(
    op: Any,
    fcompute: Callable[[list[tir.DeclaredBuffer], list[tir.DeclaredBuffer]], Any],
    binds: Mapping[Tensor, tir.DeclaredBuffer] | str | None = None,
    name: str | Mapping[Tensor, tir.DeclaredBuffer] = "tensor_intrin",
    scalar_params: Any = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """Declare an intrinsic that computes the formula of `op`, for s[C].tensorize(axis, intrin).

    fcompute(ins, outs) gets a declared buffer for each input and output. It returns a statement or
    a call that computes the formula, or three of them, (body, reset, update): reset
    initializes a reduction, and update adds to it. If reset is None, body initializes it. If body
    is None, all results are reset in loops of their own before the first update.

    binds   maps tensors to buffers, made by tir.decl_buffer with strides, an alignment or a scope;
            the other tensors get contiguous buffers.
            As in TVM, name may come before binds.

    Raises ExprError if the formula reads only part of an input, or a statement breaks a law.
    """
    if isinstance(op, Tensor):
        op = op.op
    bound, name = _in_order(binds, name)
    what = f"tensor intrinsic {name}"
    if scalar_params is not None:
        raise ExprError(what, "scalar parameters are not supported", "an input of shape (1,)")
    if not isinstance(op, ComputeOp):
        raise ExprError(f"{what} of {op!r}", "not a te.compute", "pass y.op")
    known_function(what, fcompute, "lambda ins, outs: ...")
    raise_first(ExprError, what, _about_formula(op))
    outputs = tuple(op.output(i) for i in range(len(op.body)))
    factor = _offset_factor(what, default_buffer_params)
    buffers = {t: bound.get(t) or _buffer(t, factor) for t in (*op.input_tensors, *outputs)}
    for t, b in buffers.items():
        raise_first(ExprError, what, _about_buffer(t, b))
    ins, outs = [buffers[t] for t in op.input_tensors], [buffers[t] for t in outputs]
    parts = _statements(fcompute(ins, outs), what)
    sizes = symbols((*ins, *outs))
    for part in parts:
        if part is not None:
            check_body(what, ins, outs, part, sizes)
    body, reset, update = parts
    if body is None and op.reduction is None:
        raise ExprError(what, "body is None, but the formula is no reduction", "return the body")
    return TensorIntrin(name, op, op.input_tensors, outputs, buffers, body, reset, update)


def _in_order(binds: Any, name: Any) -> tuple[Mapping[Tensor, tir.DeclaredBuffer], str]:
    """Return the arguments as (binds, name); users may pass them in either order."""
    if isinstance(binds, str):
        binds, name = None if isinstance(name, str) else name, binds
    if not isinstance(binds, Mapping | None):
        raise ExprError(f"tensor intrinsic: binds={binds!r}", "not a dict", "binds={y: buffer}")
    known_name("tensor intrinsic", name)
    return dict(cast("Mapping[Tensor, tir.DeclaredBuffer]", binds or {})), name


def _offset_factor(what: str, params: Any) -> int:
    """Return the offset_factor in `params`, the argument default_buffer_params; by default 1."""
    params = {} if params is None else params
    mapping: Any = {} if params is None else params
    known = cast("Mapping[str, Any]", mapping if isinstance(mapping, Mapping) else {FACTOR: 0})
    factor = known.get(FACTOR, 1)
    if type(factor) is not int or factor < 1:
        shown = f"default_buffer_params={reprlib.repr(params)}"
        raise ExprError(f"{what}: {shown}", "not a dict with a size >= 1", '{"offset_factor": 8}')
    return factor


def _buffer(t: Tensor, offset_factor: int) -> tir.DeclaredBuffer:
    return tir.DeclaredBuffer(t.name, t.shape, t.dtype, offset_factor=offset_factor)


def _statements(
    returned: Any, what: str
) -> tuple[tir.Stmt | None, tir.Stmt | None, tir.Stmt | None]:
    """Return (body, reset, update) from `returned`, the result of fcompute.

    Missing statements are None.
    """
    parts = [None if p is None else statement(p, what) for p in as_tuple(returned)]
    if not 1 <= len(parts) <= 3:
        why = f"fcompute returns {len(parts)} parts"
        raise ExprError(what, why, "body, or (body, reset, update)")
    body, reset, update = (*parts, None, None)[:3]
    if body is None and (reset is None or update is None):
        why = "fcompute returns None instead of the statement that computes the formula"
        raise ExprError(what, why, "return ib.get(); or return body, reset, update")
    return body, reset, update


def _about_formula(op: ComputeOp) -> Iterator[Reason]:
    """Yield each reason why `op` cannot be the formula of an intrinsic.

    It must read whole inputs: the statement may do so, but bounds are inferred from the formula.
    """
    for t in op.input_tensors:
        if not isinstance(t.op, PlaceholderOp):
            yield f"its input {t.name} is computed", "one formula over placeholders"
    if any(not isinstance(n, int) for n in op.shape):
        yield f"its shape is {', '.join(map(tir.text, op.shape))}", "constant extents"
    if op.reduction is not None and op.reduction.init:
        yield "its reduction starts from a given value", "leave out init="
    for t in op.input_tensors:
        indices = [e.indices for e in loads(op) if isinstance(e.buffer, Tensor) and e.buffer == t]
        for d, n in enumerate(t.shape):
            least = min(tir.lower_bound(at[d]) for at in indices)
            most = max(tir.upper_bound(at[d]) for at in indices)
            if least != 0 or not isinstance(n, int) or most != n - 1:
                yield (
                    f"the formula does not read all of {t.name}: dimension {d} has {tir.text(n)} "
                    f"elements, and {least} .. {most} are read",
                    "an input that is only as large as what is read",
                )


def _about_buffer(t: Tensor, b: Any) -> Iterator[Reason]:
    """Yield a reason if `b` is not a declared buffer with the shape and type of `t`."""
    if not isinstance(b, tir.DeclaredBuffer):
        yield f"{t.name} is bound to {b!r}, which is not a buffer", "tir.decl_buffer(y.shape)"
        return
    fits = len(b.shape) == len(t.shape) and all(map(tir.prove_equal, b.shape, t.shape))
    if not fits or b.dtype is not t.dtype:
        yield (
            f"buffer {b.name} is {b.dtype}[{', '.join(map(tir.text, b.shape))}], "
            f"but {t.name} is {t.dtype}[{', '.join(map(tir.text, t.shape))}]",
        )
