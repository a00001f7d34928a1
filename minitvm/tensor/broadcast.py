"""Shapes of two operands that broadcast as in numpy: [3, 1] with [4] gives [3, 4]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import tir
from minitvm.base import ExprError

Shape = tuple[tir.Index, ...]


def broadcast_shape(what: str, a: Shape, b: Shape) -> Shape:
    """Return the shape to which `a` and `b` broadcast; raise ExprError about `what` if none."""
    rank = max(len(a), len(b))
    wide = [(1,) * (rank - len(s)) + s for s in (a, b)]
    shape: list[tir.Index] = []
    for x, y in zip(*wide, strict=True):
        if not (tir.prove_equal(x, 1) or tir.prove_equal(y, 1) or tir.prove_equal(x, y)):
            shown = [f"[{', '.join(tir.text(n) for n in s)}]" for s in (a, b)]
            raise ExprError(f"{what} of {' and '.join(shown)}", "the shapes do not broadcast")
        shape.append(y if tir.prove_equal(x, 1) else x)
    return tuple(shape)


def broadcast_index(shape: Shape, i: Sequence[Any]) -> list[Any]:
    """Return the index into a tensor of this shape for the index `i` of what it broadcasts to."""
    own_index = i[len(i) - len(shape) :]
    return [0 if tir.prove_equal(n, 1) else j for n, j in zip(shape, own_index, strict=True)]
