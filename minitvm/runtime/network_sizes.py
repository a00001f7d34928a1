"""Networks with a dynamic size n, such as the batch or the length of a text, as data.

Shapes depend on n, and so do the sizes of the blocks of memory that intermediate tensors share.
Which tensors share a block, and which kernels run in which order, does not depend on n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias

from minitvm import tir
from minitvm.base import ArgumentError, DType, brief

from .aligned import CACHE_LINE, Array
from .function import Function, sized
from .network import Call, Library, NetworkPlan, Place, TensorSpec, byte_size


@dataclass(frozen=True, slots=True, repr=False)
class Extent:
    """An extent of a tensor that depends on the dynamic size n: scale * n + shift."""

    scale: int
    shift: int = 0

    def at(self, n: int) -> int:
        """Return the extent for one value of n."""
        return self.scale * n + self.shift

    def size(self, extent: int) -> int | None:
        """Return the n for which this is `extent`; None if there is no such n of at least 1."""
        n, rest = divmod(extent - self.shift, self.scale)
        return n if rest == 0 and n >= 1 else None

    def __repr__(self) -> str:
        scaled = "n" if self.scale == 1 else f"n*{self.scale}"
        return scaled if self.shift == 0 else f"{scaled} {'+-'[self.shift < 0]} {abs(self.shift)}"


Shape: TypeAlias = tuple[int | Extent, ...]


@dataclass(frozen=True, slots=True)
class DynamicSpec:
    """The name, the shape and the element type of a tensor, as TensorSpec, of any size n."""

    name: str
    shape: Shape
    dtype: DType
    limits: tuple[int, int] | None = None

    def at(self, n: int) -> TensorSpec:
        """Return the tensor for one value of n."""
        return TensorSpec(self.name, shape_at(self.shape, n), self.dtype, self.limits)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class DynamicPlan:
    """A network of any size n >= 1: a NetworkPlan whose shapes and blocks of memory depend on n.

    calls    the calls for all sizes without calls of their own. A Place in the space "block" is
             the start of a block; a block is as large as the largest tensor that a call has in it
    special  by n, the calls of kernels that were compiled for this size
    largest  the largest n
    """

    name: str
    inputs: tuple[DynamicSpec, ...]
    outputs: tuple[DynamicSpec, ...]
    params: tuple[TensorSpec, ...]
    calls: tuple[Call, ...]
    special: Mapping[int, tuple[Call, ...]]
    largest: int

    __repr__ = brief

    def calls_at(self, n: int) -> tuple[Call, ...]:
        """Return the calls for one value of n."""
        return self.special.get(n, self.calls)

    def size_of(self, inputs: Sequence[Array]) -> int:
        """Return the n of these inputs; raise ArgumentError if their shapes do not agree on one."""
        if len(inputs) != len(self.inputs):
            raise self._refused(f"takes {len(self.inputs)} inputs, {len(inputs)} given")
        sizes = [
            extent.size(given)
            for spec, x in zip(self.inputs, inputs, strict=True)
            for extent, given in zip(spec.shape, x.shape, strict=False)
            if isinstance(extent, Extent)
        ]
        n = sizes[0] if sizes else None
        if n is None or any(other != n for other in sizes):
            shapes = ", ".join(str([*x.shape]) for x in inputs)
            raise self._refused(f"no n >= 1 fits the given shapes {shapes}")
        if n > self.largest:
            raise self._refused(f"n is {n}, and {self.largest} is the largest")
        return n

    def _refused(self, why: str) -> ArgumentError:
        return ArgumentError(f"{self.name}({', '.join(map(str, self.inputs))})", why)


def shape_at(shape: Shape, n: int) -> tuple[int, ...]:
    """Return a shape for one value of n."""
    return tuple(extent.at(n) if isinstance(extent, Extent) else extent for extent in shape)


def sized_network(
    plan: DynamicPlan, lib: Library, n: int
) -> tuple[NetworkPlan, Library, list[int]]:
    """Return the plan and the kernels of a network for one value of n, and where blocks begin.

    Raises ArgumentError if a kernel does not work for this n.
    """
    calls = [
        replace(call, args=tuple(place for place in call.args if place.space != "size"))
        for call in plan.calls_at(n)
    ]
    used = {call.kernel for call in calls}
    kernels = [sized(f, n) if k in used else f for k, f in enumerate(lib.kernels)]
    starts, end = _blocks(calls, kernels)
    network = NetworkPlan(
        plan.name,
        tuple(spec.at(n) for spec in plan.inputs),
        tuple(spec.at(n) for spec in plan.outputs),
        plan.params,
        tuple(replace(c, args=tuple(_in_arena(a, starts) for a in c.args)) for c in calls),
        end,
    )
    return network, Library(tuple(kernels)), starts


def _blocks(calls: Sequence[Call], kernels: Sequence[Function]) -> tuple[list[int], int]:
    """Return the offset in bytes of each block in the arena, and the size of the arena."""
    sizes: dict[int, int] = {}
    for block, size in _uses(calls, kernels):
        sizes[block] = max(sizes.get(block, 0), -(-size // CACHE_LINE) * CACHE_LINE)
    count = max(sizes, default=-1) + 1
    *starts, end = accumulate((sizes.get(block, 0) for block in range(count)), initial=0)
    return starts, end


def _uses(calls: Sequence[Call], kernels: Sequence[Function]) -> Iterator[tuple[int, int]]:
    """Yield the number of a block and the bytes that a call uses in it."""
    for call in calls:
        for p, place in zip(kernels[call.kernel].func.params, call.args, strict=False):
            if place.space == "block" and isinstance(p, tir.Buffer):
                yield place.at, byte_size(p)


def _in_arena(place: Place, starts: Sequence[int]) -> Place:
    return Place("arena", starts[place.at]) if place.space == "block" else place
