"""te.extern: operations that are computed by hand-written loops or by a function call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import DType, ExprError, TVMError, as_tuple
from minitvm.base import dtype as dtype_of

from .checks import dimensions, known_function, known_name
from .tensor import ExternOp, Reduce, Tensor, tensor_of


def extern(
    shape: Any,
    inputs: Any,
    fcompute: Callable[[list[tir.DeclaredBuffer], list[tir.DeclaredBuffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    tag: str = "",
) -> Any:
    """Define a tensor of `shape` that a statement computes; for a list of shapes, several.

        te.extern((n,), [A], lambda ins, outs: tir.call_packed("double", ins[0], outs[0]))

    fcompute(ins, outs) gets a buffer for each input and output. It returns a call, or a statement
    made with tir.ir_builder. Either may read all inputs and must write all outputs.

    dtype   the type of all outputs, or a list with one per output; by default the type of the
            inputs, which must then all have the same type

    Raises ExprError if the statement uses other buffers or variables, or writes to an input.
    """
    known_name("extern", name)
    known_function(f"extern {name}", fcompute, "lambda ins, outs: ...")
    tensors = _tensors(inputs, name)
    shapes = _shapes(shape, name)
    kinds = _dtypes(dtype, tensors, len(shapes), name)
    ins = [tir.DeclaredBuffer(t.name, t.shape, t.dtype) for t in tensors]
    names = [name] if len(shapes) == 1 else [f"{name}.v{i}" for i in range(len(shapes))]
    outs = [tir.DeclaredBuffer(*b) for b in zip(names, shapes, kinds, strict=True)]
    body = statement(fcompute(ins, outs), f"extern {name}")
    check_body(f"extern {name}", ins, outs, body, symbols((*ins, *outs)))
    op = ExternOp(name, tensors, shapes, kinds, tuple(ins), tuple(outs), body, tag)
    outputs = [tensor_of(op, i) for i in range(len(shapes))]
    return outputs if len(outputs) > 1 else outputs[0]


def _tensors(inputs: Any, name: str) -> tuple[Tensor, ...]:
    tensors = as_tuple(inputs)
    for t in tensors:
        if not isinstance(t, Tensor):
            shown = tir.text(t) if isinstance(t, tir.Expr) else repr(t)
            raise ExprError(f"extern {name}: input {shown}", "not a tensor", "A, not A[i]")
    return tensors


def _shapes(shape: Any, name: str) -> tuple[tuple[Any, ...], ...]:
    """Return the shapes of the outputs, given one shape or a list of them."""
    sizes = as_tuple(shape)
    several = bool(sizes) and all(isinstance(n, tuple | list) for n in sizes)
    return tuple(dimensions(s, f"extern {name}") for s in (sizes if several else (sizes,)))


def _dtypes(dtype: Any, tensors: tuple[Tensor, ...], n: int, name: str) -> tuple[DType, ...]:
    kinds = tuple(dtype_of(k) for k in as_tuple(dtype)) if dtype is not None else ()
    if not kinds:
        kinds = tuple(dict.fromkeys(t.dtype for t in tensors))
        if len(kinds) != 1:
            raise ExprError(f"extern {name}", "the type of its output is not known", 'dtype="..."')
    if len(kinds) == 1:
        return kinds * n
    if len(kinds) != n:
        raise ExprError(f"extern {name}", f"{n} outputs but {len(kinds)} dtypes", "one for each")
    return kinds


# --- bodies: shared with tensor intrinsics -------------------------------------------------------


def statement(body: Any, what: str) -> tir.Stmt:
    """Return `body`, the result of fcompute, as a statement; a call is wrapped in Evaluate.

    Raises ExprError, with a message that begins with `what`, if `body` is neither.
    """
    if isinstance(body, tir.Expr):
        return tir.Evaluate(body)
    if not isinstance(body, tir.Stmt):
        why = "it must return a statement or a call"
        fix = "return ib.get(), or tir.call_packed(...)"
        raise ExprError(f"{what}: fcompute returns {type(body).__name__}", why, fix)
    return body


def symbols(buffers: tuple[tir.Buffer, ...]) -> tuple[tir.Var, ...]:
    """Return the distinct variables in the shapes, strides and offsets of `buffers`."""
    variables: dict[tir.Var, None] = {}
    for b in buffers:
        offset = (b.elem_offset,) if isinstance(b, tir.DeclaredBuffer) and b.elem_offset else ()
        for n in (*b.shape, *b.strides, *offset):
            variables |= dict.fromkeys(tir.variables(n))
    return tuple(variables)


def check_body(
    what: str,
    ins: list[tir.DeclaredBuffer],
    outs: list[tir.DeclaredBuffer],
    body: tir.Stmt,
    sizes: Any,
) -> None:
    """Raise ExprError if `body` breaks a law of `tir.verify`.

    It may read `ins`, write `outs`, and use the variables `sizes`. `what` begins the message.
    """
    tir.check_depth(body, what)
    if sums := [e for e in tir.walk(body) if isinstance(e, Reduce)]:
        why = "te.sum can be used only in the formula of a te.compute, and this is a statement"
        fix = "an ib.for_range loop that adds one term per iteration"
        raise ExprError(f"{what}: {sums[0]!r}", why, fix)
    try:
        tir.verify(tir.PrimFunc("body", (*ins, *outs), body, tuple(outs), tuple(sizes)))
    except TVMError as e:
        raise ExprError(f"{what}: {e.args[0]}", *e.args[1:]) from e


def bound_to(op: ExternOp, tensors: Mapping[Tensor, Tensor]) -> ExternOp:
    """Return a copy of `op` with its inputs replaced according to `tensors`."""
    return replace(op, inputs=tuple(tensors.get(t, t) for t in op.inputs))
