"""Convert a tensor's formula to Python source and back, so that IndexLens can edit it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from minitvm import te, tensor, tir, topi
from minitvm.base import ArgumentError, as_tuple

UNBOUNDED = 1 << 40  # the extent of an axis before it is known
CONNECTIVES = {"and": "te.all", "or": "te.any"}


class Source(tir.Printer):
    """Prints expressions as Python source, such as te.if_then_else(i < 7, te.exp(A[i]), 0.0)."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[tensor.Tensor, tensor.Tensor] = {}

    def name(self, x: tir.Var | tir.Buffer) -> str:
        """Return the printed name of `x`; equal tensors share one name."""
        return super().name(self.tensors.setdefault(x, x) if isinstance(x, tensor.Tensor) else x)

    def _value(self, e: tir.Expr) -> tuple[str, int]:
        match e:
            case tir.IfThenElse(cond, a, b):
                return self._call("te.if_then_else", cond, a, b)
            case tir.Select(cond, a, b):
                return self._call("tir.Select", cond, a, b)
            case tir.Binary(op, a, b) if op in CONNECTIVES:
                return self._call(CONNECTIVES[op], *_flat(op, a), *_flat(op, b))
            case tir.Binary("min" | "max" | "truncdiv" | "truncmod" as op, a, b):
                return self._call(f"te.{op}", a, b)
            case tir.Not(a):
                return self._call("tir.negate", a)
            case tir.Call(name, args):
                return self._call(f"te.{name}", *args)
            case tir.Cast(value, dtype) if str(dtype) != "int32" or not tir.is_index(value):
                return f"{self.expr(value, 9)}.astype({str(dtype)!r})", 9
            case tir.Const(value, dtype) if str(dtype) not in ("float32", "int32", "bool"):
                return f"te.const({value!r}, {str(dtype)!r})", 9
            case _:
                return super()._value(e)

    def _call(self, function: str, *args: tir.Index) -> tuple[str, int]:
        return f"{function}({', '.join(self.expr(a) for a in args)})", 9


def _flat(op: str, e: tir.Expr) -> list[tir.Expr]:
    """Return the operands of a chain of `and`, or of `or`."""
    return [*_flat(op, e.a), *_flat(op, e.b)] if isinstance(e, tir.Binary) and e.op == op else [e]


def source_of(t: tensor.Tensor) -> str:
    """Return the formula of `t`, such as "lambda i, j: te.sum(A[i, k] * B[k, j], axis=k)"."""
    op, p = cast("tensor.ComputeOp", t.op), Source()
    inputs = names_of(t, p)
    body = op.body[t.value_index]
    head = " ".join(["lambda", ", ".join(p.name(a) for a in op.axis)]).rstrip()
    if not isinstance(body, tensor.Reduce):
        return f"{head}: {p.expr(body)}"
    axes = ", ".join(n for n, x in inputs.items() if isinstance(x, tensor.Axis))
    sources = ", ".join(p.expr(e) for e in body.sources)
    several = f"[{axes}]" if len(body.axes) > 1 else axes
    where = "" if body.where is tir.TRUE else f", where={p.expr(body.where)}"
    return f"{head}: te.{body.reducer.name}({sources}, axis={several}{where})"


def names_of(t: tensor.Tensor, p: tir.Printer) -> dict[str, Any]:
    """Map the names in the formula of `t` to the tensors that it reads and to its reduce axes."""
    op = cast("tensor.ComputeOp", t.op)
    return {p.name(x): x for x in (*op.input_tensors, *op.reduce_axis)}


def made_from(
    source: str, like: tensor.Tensor, names: Mapping[str, Any], shape: Sequence[int] = ()
) -> tensor.Tensor:
    """Build a tensor from `source`: a lambda for te.compute, or a te.compute(...) call.

    names   the objects that `source` may use by name, in addition to te, tir and topi
    shape   by default the largest shape in which all reads are in bounds; see `fitted`

    `source` is the user's own code: it is evaluated, and its exceptions are not caught.
    """
    formula = eval(  # typed by the user into their own kernel, like any cell
        compile(source.strip(), "<formula>", "eval"),
        {"te": te, "tir": tir, "topi": topi, **names},
    )
    if isinstance(formula, tensor.Tensor):
        return formula
    if not callable(formula):
        why = "it is not a function of the indices"
        raise ArgumentError(f"formula {source.strip()!r}", why, "lambda i: A[i]")
    outputs = te.compute(tuple(shape) or fitted(formula, like), formula, name=like.name)
    return cast("tensor.Tensor", as_tuple(outputs)[0])


def fitted(formula: Callable[..., Any], like: tensor.Tensor) -> tuple[tir.Index, ...]:
    """Return the largest shape in which every read such as A[i] or A[2*i + k] is in bounds.

    If no such read bounds an axis, it is as long as the same dimension of `like`.
    """
    names = list(inspect.signature(formula).parameters)
    axes = [tensor.axis(n, 0, UNBOUNDED, "data") for n in names]
    extents: dict[tir.Var, int] = {}
    sources = [
        tir.operand(source)
        for e in as_tuple(formula(*axes))
        for source in (e.sources if isinstance(e, tensor.Reduce) else (e,))
    ]
    for e, conditions in (load for source in sources for load in tensor.guarded_loads(source)):
        for i, size in zip(e.indices, e.buffer.shape, strict=True):
            terms, const = tir.split_terms(i)
            of_axes = [(a, c) for a, c in terms if any(a is x for x in axes)]
            if conditions or len(of_axes) != 1 or of_axes[0][1] < 1 or not isinstance(size, int):
                continue
            ((a, c),) = of_axes
            top = tir.upper_bound(tir.linear((t for t in terms if t[0] is not a), const))
            if isinstance(a, tir.Var) and isinstance(top, int):
                fits = (size - 1 - top) // c + 1
                extents[a] = min(extents.get(a, UNBOUNDED), fits)
    shape: list[tir.Index] = []
    for d, a in enumerate(axes):
        n = extents.get(a, like.shape[d] if d < len(like.shape) else 0)
        if isinstance(n, int) and n < 1:
            why = "no read bounds it, or every read is out of bounds"
            raise ArgumentError(f"the range of {a.name}", why, "give the shape")
        shape.append(n)
    return tuple(shape)
