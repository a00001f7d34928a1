"""Match a formula with a pattern, and find which part of a tensor each pattern tensor matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from minitvm import tensor, tir

Base: TypeAlias = tuple[tir.Index, ...]  # the index at which a part of a tensor begins
Parts: TypeAlias = dict[tensor.Tensor, tuple[tensor.Tensor, Base]]
SWAPPED = ("add", "mul", "min", "max", "and", "or", "bitand", "bitor", "bitxor")


class Difference(Exception):  # noqa: N818  caught, and shown in a LoweringError
    """Raised at the first parts of two formulas that differ; contains these parts as strings."""

    def __init__(self, provided: Any, pattern: Any) -> None:
        super().__init__(provided, pattern)
        self.provided = f"a {type(provided).__name__}" if provided is None else _text(provided)
        self.pattern = _text(pattern)


def _text(e: Any) -> str:
    return tir.text(e) if isinstance(e, int | tir.Expr) else str(e)


def unify(provided: Sequence[tir.Expr], pattern: Sequence[tir.Expr], op: tensor.ComputeOp) -> Parts:
    """Map each tensor of `pattern` to a tensor of `provided` and the index where its part begins.

    With these parts put in, both formulas are equal. `op` is the operation of the pattern; both
    formulas use its axes in indices. The operands of commutative operators such as + may be in
    either order. Raises Difference if the formulas do not match.
    """
    if len(provided) != len(pattern):
        raise Difference(f"{len(provided)} formulas", f"{len(pattern)} formulas")
    matcher = _Matcher(op)
    for e, p in zip(provided, pattern, strict=True):
        matcher.match(e, p)
    return matcher.parts


class _Matcher:
    def __init__(self, op: tensor.ComputeOp) -> None:
        self.axes = (*op.axis, *op.reduce_axis)
        self.parts: Parts = {}

    def match(self, e: tir.Index, p: tir.Index) -> None:
        """Match the expression `e` with the pattern `p`; raise Difference if they do not match."""
        if tir.is_index(e) and tir.is_index(p):
            if not tir.prove_equal(e, p):
                raise Difference(e, p)
            return
        match e, p:
            case tir.Load(), tir.Load():
                self._load(e, p)
            case tir.Const(a, t), tir.Const(b, u) if (a, t) == (b, u):
                return
            case tir.Binary(op, a, b), tir.Binary(its, c, d) if (op, e.dtype) == (its, p.dtype):
                self._pair(op, (a, b), (c, d))
            case tir.Compare(op, a, b), tir.Compare(its, c, d) if op == its:
                self._all((a, b), (c, d))
            case tir.Cast(a, t), tir.Cast(b, u) if t is u:
                self.match(a, b)
            case tir.Not(a), tir.Not(b):
                self.match(a, b)
            case tir.Call(f, args), tir.Call(g, others) if (f, len(args)) == (g, len(others)):
                self._all(args, others)
            case (tir.Select(c, a, b), tir.Select(d, x, y)) | (
                tir.IfThenElse(c, a, b),
                tir.IfThenElse(d, x, y),
            ):
                self._all((c, a, b), (d, x, y))
            case _:
                raise Difference(e, p)

    def _all(self, a: Sequence[tir.Index], b: Sequence[tir.Index]) -> None:
        for e, p in zip(a, b, strict=True):
            self.match(e, p)

    def _pair(self, op: str, a: tuple[tir.Expr, tir.Expr], b: tuple[tir.Expr, tir.Expr]) -> None:
        before = dict(self.parts)
        try:
            self._all(a, b)
        except Difference:
            if op not in SWAPPED:
                raise
            first_try, self.parts = self.parts, before
            try:
                self._all(a, b[::-1])
                return
            except Difference:
                self.parts = first_try
            raise

    def _load(self, e: tir.Load, p: tir.Load) -> None:
        """Record the index in e's tensor where the part begins that corresponds to p's tensor."""
        buffer, parameter = e.buffer, p.buffer
        if not isinstance(buffer, tensor.Tensor) or not isinstance(parameter, tensor.Tensor):
            if buffer.name != parameter.name or buffer.dtype is not parameter.dtype:
                raise Difference(e, p)
            return
        lead = len(e.indices) - len(p.indices)
        if lead < 0 or e.dtype is not p.dtype:
            raise Difference(f"{e.dtype} {tir.text(e)}", f"{p.dtype} {tir.text(p)}")
        tail = [tir.sub(i, j) for i, j in zip(e.indices[lead:], p.indices, strict=True)]
        base = (*e.indices[:lead], *tail)
        if not all(tir.free_of(i, self.axes) for i in base):
            raise Difference(e, p)
        known, start = self.parts.setdefault(parameter, (buffer, base))
        if known != buffer or not all(map(tir.prove_equal, start, base)):
            raise Difference(e, p)
