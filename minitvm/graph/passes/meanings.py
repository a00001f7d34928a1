"""What integer tensors of a quantised network stand for, and how they are quantised again.

A real tensor of the network may be known as Codes, Sums or a Pair. Each of them can be quantised
without computing the real numbers. All scales are float32 and are rounded in the order of ONNX
Runtime's kernels, so that results are equal to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..node import Array, Node
from ..operators import call
from .fold import add_param

Params: TypeAlias = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How numbers become bytes: rint(x / scale) + zero, limited to the range of dtype."""

    scale: np.float32
    zero: int
    dtype: str

    def limits(self, low: float, high: float) -> dict[str, int]:
        """Return the least and the greatest byte for real numbers from `low` to `high`."""
        kind = np.iinfo(self.dtype)
        ends = {"low": low / float(self.scale), "high": high / float(self.scale)}
        codes = {k: np.rint(x) + self.zero for k, x in ends.items()}
        return {k: int(np.clip(x, kind.min, kind.max)) for k, x in codes.items()}


@dataclass(frozen=True, slots=True)
class Codes:
    """Integers that stand for (node - zero) * scale.

    axis    the dimension along which scale and zero are vectors; None if they are numbers
    """

    node: Node
    scale: Array
    zero: Array
    axis: int | None = None

    @property
    def is_bytes(self) -> bool:
        """Whether the integers are bytes with one scale and one zero point."""
        return self.axis is None and self.node.type.dtype.bytes == 1

    def real(self, params: Params, name: str) -> Node:
        """Return the real numbers."""
        return dequantised(self.node, self.scale, self.zero, self.axis, params, name)

    def same_scaling(self, other: Scaling | Codes) -> bool:
        """Return whether the same bytes of both stand for the same numbers."""
        dtype = other.dtype if isinstance(other, Scaling) else str(other.node.type.dtype)
        mine, others = (self.scale, self.zero), (other.scale, other.zero)
        return self.is_bytes and str(self.node.type.dtype) == dtype and mine == others

    def quantised(self, to: Scaling, params: Params, name: str) -> Node | None:
        """Return the bytes of another scaling; None if the real numbers are needed for that."""
        return self.node if self.same_scaling(to) else None


@dataclass(frozen=True, slots=True)
class Sums:
    """Int32 sums that stand for (node + bias) * scale / count, limited to low .. high.

    bias, scale   int32 and float32 vectors along `axis`
    residual      bytes whose numbers are added before the limits; only the accelerator does that
    """

    node: Node
    bias: Array
    scale: Array
    axis: int
    count: int = 1
    low: float = -math.inf
    high: float = math.inf
    residual: Codes | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there are limits."""
        return (self.low, self.high) != (-math.inf, math.inf)

    def real(self, params: Params, name: str) -> Node:
        """Return the real numbers, without the limits."""
        scale = self.scale / np.float32(self.count)
        return dequantised(self.node, scale, -self.bias, self.axis, params, name)

    def plus(self, bias: Array) -> Sums:
        """Return the sums with more bias."""
        return replace(self, bias=self.bias + bias)

    def quantised(self, to: Scaling, params: Params, name: str) -> Node | None:
        """Return the bytes: rint((node + bias) * (scale / (count * to.scale))) + to.zero."""
        if self.residual is not None:
            return None
        scale = self.scale / (to.scale * np.float32(self.count))
        parts = {"bias": self.bias, "scale": scale}
        vectors = [add_param(params, f"{name or 'sums'}.{k}", v) for k, v in parts.items()]
        attrs = {"zero": to.zero, **to.limits(self.low, self.high), "dtype": to.dtype}
        return call("requantise", self.node, *vectors, name=name, **attrs, axis=self.axis)


@dataclass(frozen=True, slots=True)
class Pair:
    """The sum of the numbers that two tensors of bytes stand for, limited to low .. high."""

    a: Codes
    b: Codes
    low: float = -math.inf
    high: float = math.inf

    def quantised(self, to: Scaling, params: Params, name: str) -> Node | None:
        """Return the bytes: rint(a * ra + (b * rb + rc)); see topi.add_requantised."""
        ra, rb = (np.float32(x.scale / to.scale) for x in (self.a, self.b))
        # one of the two products is not rounded, as by a fused multiply-add
        shift = np.float32(float(ra) * int(self.a.zero) + float(rb * np.float32(self.b.zero)))
        rc = np.float32(to.zero) - shift
        attrs = {"ra": ra, "rb": rb, "rc": rc, **to.limits(self.low, self.high)}
        nodes = self.a.node, self.b.node
        return call("add_requantised", *nodes, name=name, **attrs, dtype=to.dtype)


Meaning: TypeAlias = Codes | Sums | Pair


def dequantised(
    q: Node, scale: Array, zero: Array, axis: int | None, params: Params, name: str
) -> Node:
    """Return the node (q - zero) * scale."""
    if axis is None:
        return call("dequantise", q, name=name, scale=scale, zero=zero)
    parts = {"scale": scale, "zero": zero}
    vectors = [add_param(params, f"{name or 'codes'}.{k}", v) for k, v in parts.items()]
    return call("dequantise", q, *vectors, name=name, axis=axis)
