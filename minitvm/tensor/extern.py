"""Operations whose loops are written by hand, or hidden in a call: te.extern."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from minitvm import tir
from minitvm.base import DType, ExprError, TVMError, as_tuple

from .checks import dimensions, dtype_of, known_function, known_name
from .tensor import ExternOp, Reduce, Tensor, tensor_of


def extern(
    shape: Any,
    inputs: Any,
    fcompute: Callable[[list[tir.DeclaredBuffer], list[tir.DeclaredBuffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    tag: str = "",
) -> Any:
    """Define the tensor of `shape` that a statement computes; a list of shapes gives a list.

        te.extern((n,), [A], lambda ins, outs: tir.call_packed("double", ins[0], outs[0]))

    fcompute(ins, outs) gets a buffer for each input and output. It returns a statement, made with
    tir.ir_builder, or a call, which reads whole inputs and writes whole outputs.
    dtype: of the outputs, one for all or one for each; by default that of the inputs if they agree.

    Raises ExprError if the statement uses what it was not given, or writes to an input.
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
    made = [tensor_of(op, i) for i in range(len(shapes))]
    return made if len(made) > 1 else made[0]


def _tensors(given: Any, name: str) -> tuple[Tensor, ...]:
    tensors = as_tuple(given)
    for t in tensors:
        if not isinstance(t, Tensor):
            shown = tir.text(t) if isinstance(t, tir.Expr) else repr(t)
            raise ExprError(f"extern {name}: input {shown}", "not a tensor", "A, not A[i]")
    return tensors


def _shapes(shape: Any, name: str) -> tuple[tuple[Any, ...], ...]:
    """Return the shapes of the outputs, given one shape or a list of them."""
    given = as_tuple(shape)
    several = bool(given) and all(isinstance(n, tuple | list) for n in given)
    return tuple(dimensions(s, f"extern {name}") for s in (given if several else (given,)))


def _dtypes(given: Any, tensors: tuple[Tensor, ...], n: int, name: str) -> tuple[DType, ...]:
    kinds = tuple(dtype_of(k) for k in as_tuple(given)) if given is not None else ()
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


def statement(made: Any, what: str) -> tir.Stmt:
    """Return `made` as a statement; a call becomes one."""
    if isinstance(made, tir.Expr):
        return tir.Evaluate(made)
    if not isinstance(made, tir.Stmt):
        raise ExprError(
            f"{what}: fcompute returns {type(made).__name__}",
            "it returns a statement or a call",
            "return ib.get(), or tir.call_packed(...)",
        )
    return made


def symbols(buffers: tuple[tir.Buffer, ...]) -> tuple[tir.Var, ...]:
    """Return the variables in shapes, strides and offsets."""
    found: dict[tir.Var, None] = {}
    for b in buffers:
        own = (b.elem_offset,) if isinstance(b, tir.DeclaredBuffer) and b.elem_offset else ()
        for n in (*b.shape, *b.strides, *own):
            found |= dict.fromkeys(tir.variables(n))
    return tuple(found)


def check_body(
    what: str,
    ins: list[tir.DeclaredBuffer],
    outs: list[tir.DeclaredBuffer],
    body: tir.Stmt,
    sizes: Any,
) -> None:
    """Raise ExprError if `body` breaks a law of the loop IR, given these buffers and sizes."""
    tir.check_depth(body, what)
    if sums := [e for e in tir.walk(body) if isinstance(e, Reduce)]:
        raise ExprError(
            f"{what}: {sums[0]!r}",
            "te.sum belongs in a formula, and this is a statement",
            "an ib.for_range loop that adds one term per iteration",
        )
    try:
        tir.verify(tir.PrimFunc("body", (*ins, *outs), body, tuple(outs), tuple(sizes)))
    except TVMError as e:
        raise ExprError(f"{what}: {e.args[0]}", *e.args[1:]) from e


def bound_to(op: ExternOp, tensors: Mapping[Tensor, Tensor]) -> ExternOp:
    """Return `op` with other input tensors."""
    return replace(op, inputs=tuple(tensors.get(t, t) for t in op.inputs))
