"""Limits on sizes: indices have 64 bits, and buffers must fit into addressable memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard

from minitvm.base import ArgumentError, LoweringError

from .func import PrimFunc
from .index import elements, split_terms
from .nodes import AsIndex, Atom, Buffer, Index, Linear, Product, Var
from .stmt import Allocate, Stmt
from .walk import every, substitute, variables, walk

ADDRESSABLE = 2**56  # bytes: the address space of a process with 5-level page tables
OVERFLOW = 2**63


def largest_sum(e: Index) -> int:
    """Return an upper bound on |e| and on every partial sum that occurs while computing `e`.

    An atom of unknown range, such as a symbolic size or an int64 from data, is assumed to be 1.
    """
    terms, const = split_terms(e)
    return abs(const) + sum(abs(c) * _largest(a) for a, c in terms)


def _largest(a: Atom) -> int:
    if isinstance(a, Product):
        return _largest(a.a) * _largest(a.b)
    return max([1, *(int(abs(end)) for end in (a.low, a.high) if abs(end) < OVERFLOW - 1)])


def overflows(e: object) -> TypeGuard[Linear | Product]:
    """Return whether computing the index `e` may overflow 64 bits, according to `largest_sum`."""
    return isinstance(e, Linear | Product) and largest_sum(e) >= OVERFLOW


def allocations(s: Stmt) -> Iterator[Buffer]:
    """Yield the buffers that `s` allocates."""
    return (part.buffer for part in every(s) if isinstance(part, Allocate))


def check_buffers(f: PrimFunc) -> None:
    """Raise LoweringError if a buffer of `f` has a constant size above ADDRESSABLE bytes."""
    if f.prepack is not None:
        check_buffers(f.prepack)
    arguments = (p for p in f.params if isinstance(p, Buffer))
    for b in (*arguments, *allocations(f.body)):
        n = elements(b)
        if isinstance(n, int) and n * b.dtype.bytes > ADDRESSABLE:
            fix = "compute it at a loop of its reader (compute_at), which stores only a part"
            raise LoweringError(f"{f.name}: {b.name}", too_large(b, n), fix)


def symbolic_buffers(f: PrimFunc) -> tuple[Buffer, ...]:
    """Return the allocations in `f` whose size depends only on arguments of the call.

    Such arguments are symbolic sizes and scalar parameters. Sizes read from data are excluded.
    """
    known = {id(v) for v in (*f.sizes, *f.params)}

    def follows(n: Index) -> bool:
        vars_only = not any(isinstance(part, AsIndex) for part in walk(n))
        return vars_only and all(id(v) in known for v in variables(n))

    sizes = ((b, elements(b)) for b in allocations(f.body))
    return tuple(b for b, n in sizes if not isinstance(n, int) and follows(n))


def check_symbolic_buffers(
    f: PrimFunc, buffers: Iterable[Buffer], values: Mapping[Var, int]
) -> None:
    """Raise ArgumentError if one of `buffers` exceeds ADDRESSABLE bytes.

    values   the value of each symbolic size and scalar parameter of `f`
    """
    for b in buffers:
        n = substitute(elements(b), values)
        if isinstance(n, int) and n * b.dtype.bytes > ADDRESSABLE:
            sizes = ", ".join(f"{v.name} = {size}" for v, size in values.items())
            what = f"{f.name}: {b.name} with {sizes}"
            raise ArgumentError(what, too_large(b, n), "smaller sizes")


def too_large(b: Buffer, n: int) -> str:
    """Return the sentence of an error message that states how many bytes `b` needs.

    n   the number of elements
    """
    return f"it needs {n * b.dtype.bytes} bytes, and at most {ADDRESSABLE} can be addressed"
