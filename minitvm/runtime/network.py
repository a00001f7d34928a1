"""Networks as data: which kernels run in which order, and where their arguments are in memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeAlias

from minitvm import tir
from minitvm.base import BuildError, DType, brief

from .aligned import CACHE_LINE
from .constants import constant_size
from .function import Function, address_of

Space: TypeAlias = Literal["arena", "block", "input", "output", "param", "constant", "size"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The name, the shape and the element type of a tensor.

    limits   the least and the greatest value of its elements; None if they are not limited
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    limits: tuple[int, int] | None = None

    @property
    def bytes(self) -> int:
        """The number of bytes in memory."""
        return math.prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an argument of a call in memory.

    space   the arena, which holds all intermediate tensors; or one of the inputs, the outputs, the
            parameters or the packed constants. In networks with a dynamic size also a block, which
            is a part of the arena, and "size", which is this size itself
    at      the offset in bytes in the arena, a multiple of 64; in other spaces a number from 0
    """

    space: Space
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """The call of a kernel.

    kernel      its number in the library
    args        the places of its arguments, in the order of its parameters
    name        what it computes, such as "layer1.conv2"
    operations  how many arithmetic operations it takes, for profiles; 0 if unknown
    """

    kernel: int
    args: tuple[Place, ...]
    name: str = ""
    operations: int = 0


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """A network: its tensors, its calls in the order of execution, and the size of its arena.

    Parameters are set before the first run. Constants are packed when they are set, not when a
    kernel runs; the executor adds the places of the packed constants to the calls.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    params: tuple[TensorSpec, ...]
    calls: tuple[Call, ...]
    arena_bytes: int

    __repr__ = brief

    def spec(self, place: Place) -> TensorSpec | None:
        """Return the input, output or parameter at `place`; None if `place` is in another space."""
        tensors = {"input": self.inputs, "output": self.outputs, "param": self.params}
        return tensors[place.space][place.at] if place.space in tensors else None


@dataclass(frozen=True, slots=True)
class Library:
    """The kernels of a network.

    None of them has symbolic sizes. In a network with a dynamic size, this is their only scalar
    parameter; in other networks they have none.
    """

    kernels: tuple[Function, ...]

    __repr__ = brief

    @property
    def is_native(self) -> bool:
        """Whether all kernels are machine code."""
        return all(address_of(f) is not None for f in self.kernels)


Packing: TypeAlias = tuple[int, tuple[int, ...]]  # a kernel, and the parameters that it packs


def packings(calls: Sequence[Call], lib: Library) -> tuple[dict[Packing, int], tuple[Call, ...]]:
    """Return the packings of a network, and its calls with packed constants as last arguments.

    The number of a packing is that of its first packed constant; the others have the numbers after
    it. Calls of one kernel with the same parameters share the packed constants.
    """
    first: dict[Packing, int] = {}
    complete: list[Call] = []
    count = 0
    for call in calls:
        func = lib.kernels[call.kernel].func
        pairs = zip(func.params, call.args, strict=True)
        params = tuple(place.at for p, place in pairs if func.is_constant(p))
        key = call.kernel, params
        if func.packed and key not in first:
            first[key] = count
            count += len(func.packed)
        packed = (Place("constant", first[key] + n) for n in range(len(func.packed)))
        complete.append(replace(call, args=(*call.args, *packed)))
    return first, tuple(complete)


def byte_size(b: tir.Buffer | tir.Var) -> int:
    """Return the number of bytes of a kernel's buffer, all of which have constant shapes."""
    return constant_size(b) * b.dtype.bytes


# --- checks --------------------------------------------------------------------------------------


def check_plan(plan: NetworkPlan, lib: Library) -> None:
    """Raise BuildError unless every argument of every call is in bounds and has the right type."""
    what = f"network {plan.name}"
    for name, count in Counter(s.name for s in (*plan.inputs, *plan.params)).items():
        if count > 1:
            raise BuildError(f"{what}: {name}", f"{count} inputs or parameters have this name")
    for n, call in enumerate(plan.calls):
        if not 0 <= call.kernel < len(lib.kernels):
            why = f"the library has {len(lib.kernels)} kernels, but no kernel {call.kernel}"
            raise BuildError(f"{what}: call {n}", why)
        func = lib.kernels[call.kernel].func
        for why in chain(_about_count(func, call), _about_places(plan, func, call)):
            raise BuildError(f"{what}: call {n} of {func.name}", why)
    written = {place for call in plan.calls for place in call.args}
    for n, spec in enumerate(plan.outputs):
        if Place("output", n) not in written:
            raise BuildError(f"{what}: output {spec.name}", "no call computes it")


def _about_count(func: tir.PrimFunc, call: Call) -> Iterator[str]:
    if func.sizes or not all(isinstance(p, tir.Buffer) for p in func.params):
        yield "it has symbolic sizes or scalar parameters"
    if len(call.args) != len(func.params):
        yield f"it takes {len(func.params)} arguments, not {len(call.args)}"


def _about_places(plan: NetworkPlan, func: tir.PrimFunc, call: Call) -> Iterator[str]:
    """Yield an error for each argument that does not fit, and each output that overlaps another."""
    written = {id(p) for p in func.outputs}
    for p, place in zip(func.params, call.args, strict=True):
        assert isinstance(p, tir.Buffer)
        yield from _about_place(plan, func, p, place)
        if id(p) in written and place.space not in ("arena", "output"):
            yield f"it writes {p.name} to a place of space {place.space!r}"
    ranges = [
        (p, place.space, *_range(p, place))
        for p, place in zip(func.params, call.args, strict=True)
        if isinstance(p, tir.Buffer)
    ]
    for p, space, begin, end in ranges:
        for q, other_space, first, last in ranges:
            if (
                id(p) in written
                and q is not p
                and space == other_space
                and begin < last
                and first < end
            ):
                yield f"{p.name}, which it writes, overlaps with {q.name}"


def _about_place(
    plan: NetworkPlan, func: tir.PrimFunc, p: tir.Buffer, place: Place
) -> Iterator[str]:
    if func.is_constant(p) and place.space != "param":
        yield f"{p.name} is constant, but not a parameter of the network"
    if place.space == "arena":
        if place.at < 0 or place.at % CACHE_LINE or _range(p, place)[1] > plan.arena_bytes:
            yield f"{p.name} is at byte {place.at} of an arena of {plan.arena_bytes}"
        return
    tensors = {"input": plan.inputs, "output": plan.outputs, "param": plan.params}
    if place.space not in tensors or not 0 <= place.at < len(tensors[place.space]):
        yield f"{p.name} is {place.space} {place.at}, which does not exist"
        return
    spec = tensors[place.space][place.at]
    if spec.dtype is not p.dtype or spec.bytes != byte_size(p):
        yield f"{p.name} of {p.dtype}[{', '.join(map(str, p.shape))}] is given {spec}"


def _range(p: tir.Buffer, place: Place) -> tuple[int, int]:
    """Return (begin, end) of a place: bytes in the arena, or elsewhere numbers of tensors."""
    return place.at, place.at + (byte_size(p) if place.space == "arena" else 1)
