"""Operators that move elements: transpose, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm import te
from minitvm.base import ExprError
from minitvm.te import Tensor

INJECTIVE = "injective"


def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """x with its dimensions permuted; reversed if no order is given."""
    order = list(axes) if axes is not None else list(reversed(range(x.ndim)))
    if sorted(order) != list(range(x.ndim)):
        raise ExprError(
            f"topi.transpose of {x.name} by {order}", f"not an order of its {x.ndim} dimensions"
        )

    def body(*i: Any) -> Any:
        source: list[Any] = [0] * x.ndim
        for at, d in zip(i, order, strict=True):
            source[d] = at
        return x(*source)

    return te.compute([x.shape[d] for d in order], body, name="T_transpose", tag=INJECTIVE)


def pad(
    x: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float = 0.0,
    name: str = "T_pad",
) -> Tensor:
    """x surrounded by pad_value: pad_before[d] before, pad_after[d] after dimension d."""
    after = pad_before if pad_after is None else pad_after
    if (
        len(pad_before) != x.ndim
        or len(after) != x.ndim
        or min([*pad_before, *after], default=0) < 0
    ):
        raise ExprError(
            f"topi.pad of {x.name} by {list(pad_before)}, {list(after)}",
            f"one amount >= 0 for each of its {x.ndim} dimensions is needed",
        )
    shape = [n + b + a for n, b, a in zip(x.shape, pad_before, after, strict=True)]

    def body(*i: Any) -> Any:
        places = [at - b for at, b in zip(i, pad_before, strict=True)]
        inside = [te.all(p >= 0, p < n) for p, n in zip(places, x.shape, strict=True)]
        return te.if_then_else(te.all(*inside), x(*places), te.const(pad_value, x.dtype))

    return te.compute(shape, body, name=name, tag=INJECTIVE)
