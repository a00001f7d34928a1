"""Split boxes of main memory into the 2-D transfers that one LOAD or STORE can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from minitvm.base import BuildError, Reason, raise_first

MAX_PADDING = 15  # rows or columns on one side: four bits of an instruction
MAX_STRIDE = (1 << 16) - 1  # limit of the stride, the rows and the row length: 16 bits each


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a box: n steps of `stride`, and zeros around them; n <= 0 if all are zeros."""

    n: int
    stride: int
    before: int = 0
    after: int = 0

    @property
    def padded(self) -> bool:
        """Return whether there are zeros before or after the steps."""
        return bool(self.before or self.after)

    @property
    def total(self) -> int:
        """Return the number of steps that the buffer on chip receives, zeros included."""
        return self.before + self.n + self.after


@dataclass(frozen=True, slots=True)
class Rows:
    """A 2-D transfer of y rows of x elements, from `dram` on in the box and from `sram` on chip."""

    sram: int
    dram: int
    y: Dim
    x: Dim


def transfers(what: str, dims: tuple[Dim, ...], size: int) -> Iterator[Rows]:
    """Yield the 2-D transfers of a box.

    `dims` count single numbers; an element has `size` numbers.

    Contiguous dimensions are merged. Dimensions beyond two, and rows too far apart, become separate
    transfers. A box that is all padding is one row of padding and reads nothing.
    Raises BuildError for boxes that split elements, and for padding that a transfer cannot do.
    """
    merged = _joined(_in_elements(what, dims, size))
    if is_zeros(tuple(merged)):
        count = prod(d.total for d in merged)
        y, x = Dim(0, 0, before=1), Dim(count, 1)
        raise_first(BuildError, what, _about_sizes(y, x))
        yield Rows(0, 0, y, x)
        return
    if not merged or merged[-1].stride != 1:
        merged.append(Dim(1, 1))
    if len(merged) == 1 or (merged[-2].stride > MAX_STRIDE and not merged[-2].padded):
        merged.insert(-1, Dim(1, merged[-1].n))
    *outer, y, x = merged
    raise_first(BuildError, what, _about(outer, y, x))
    step = y.total * x.total
    for number, at in enumerate(product(*(range(d.n) for d in outer))):
        dram = sum(i * d.stride for i, d in zip(at, outer, strict=True))
        yield Rows(number * step, dram, y, x)


def is_zeros(dims: tuple[Dim, ...]) -> bool:
    """Return whether the box is all padding."""
    return min((d.total for d in dims), default=0) > 0 and any(d.n < 1 for d in dims)


def _in_elements(what: str, dims: tuple[Dim, ...], size: int) -> list[Dim]:
    """Convert dims that count numbers into dims that count elements of `size` numbers.

    For size 16, the dims (n, stride) = (16, 16), (16, 1) become (16, 1).
    """
    left, elements_inside = list(dims), 1
    while elements_inside < size:
        last = left.pop() if left else Dim(1, 0)
        if last.padded:
            why = "it pads inside an element, and a transfer moves whole elements"
            fix = "pad rows and columns; pad channels when the data is packed"
            raise BuildError(what, why, fix)
        if last.n == 1 and left:
            continue
        reach = last.n * elements_inside
        if last.stride != elements_inside or max(reach, size) % min(reach, size):
            raise BuildError(
                what,
                f"the {size} numbers of an element are not contiguous in main memory: a dimension "
                f"has {last.n} of them, {last.stride} apart",
                "pack the data so that its last dimensions are those of an element; for 1 x 16: "
                "a.reshape(m, 1, n, 16).transpose(0, 2, 1, 3)",
            )
        if reach > size:
            left.append(Dim(reach // size, size))
        elements_inside = min(reach, size)
    uneven = [d for d in left if d.stride % size and d.n > 1]
    if uneven:
        why = f"its rows are {uneven[0].stride} numbers apart, and an element has {size}"
        raise BuildError(what, why, "pack the data")
    return [replace(d, stride=d.stride // size) for d in left if d.n != 1 or d.padded]


def _joined(dims: list[Dim]) -> list[Dim]:
    """Merge neighbouring dims that have no gap between them."""
    merged: list[Dim] = []
    for d in dims:
        if (
            merged
            and not merged[-1].padded
            and not d.padded
            and merged[-1].stride == d.n * d.stride
        ):
            merged[-1] = Dim(merged[-1].n * d.n, d.stride)
        else:
            merged.append(d)
    return merged


def _about(outer: list[Dim], y: Dim, x: Dim) -> Iterator[Reason]:
    """Yield each reason why no instruction can do these transfers, with what to try."""
    if any(d.padded for d in outer):
        fix = "smaller tiles in the other dimensions, or a padded copy of the data"
        yield "it pads a dimension other than rows and columns", fix
    if any(d.n < 1 for d in (*outer, y, x)):
        yield "it has no elements", "larger tiles"
    most = max(y.before, y.after, x.before, x.after)
    if most > MAX_PADDING:
        why = f"it adds {most} rows or columns of zeros on one side; the limit is {MAX_PADDING}"
        yield why, "a padded copy of the data"
    yield from _about_sizes(y, x)


def _about_sizes(y: Dim, x: Dim) -> Iterator[Reason]:
    """Yield a reason and what to try if a size does not fit into a field of an instruction."""
    if max(y.stride, y.n, x.n) > MAX_STRIDE:
        why = f"{y.n} rows of {x.n} elements, {y.stride} apart; the limit is {MAX_STRIDE}"
        yield why, "smaller tiles"
