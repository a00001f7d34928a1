"""Limits: indices have 64 bits, and buffers must fit into addressable memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeGuard

from minitvm.base import ArgumentError, LoweringError

from .func import PrimFunc
from .index import elements, split_terms
from .nodes import AsIndex, Atom, Buffer, Index, Linear, Product, Var
from .stmt import Allocate, Stmt
from .walk import children, substitute, variables, walk

ADDRESSABLE = 2**56  # bytes: the address space of a process with 5-level page tables
OVERFLOW = 2**63


def largest_sum(e: Index) -> int:
    """Return a bound on |e| and on every partial sum while `e` is computed.

    An atom whose range is not known, such as a symbolic size or an int64 from data, counts as 1.
    """
    terms, const = split_terms(e)
    return abs(const) + sum(abs(c) * _largest(a) for a, c in terms)


def _largest(a: Atom) -> int:
    if isinstance(a, Product):
        return _largest(a.a) * _largest(a.b)
    return max([1, *(int(abs(end)) for end in (a.low, a.high) if abs(end) < OVERFLOW - 1)])


def overflows(e: object) -> TypeGuard[Linear | Product]:
    """Return whether computing the index `e` may overflow 64 bits, as far as ranges are known."""
    return isinstance(e, Linear | Product) and largest_sum(e) >= OVERFLOW


def allocations(s: Stmt) -> Iterator[Buffer]:
    """Yield the buffers that `s` allocates."""
    waiting = [s]
    while waiting:
        s = waiting.pop()
        if isinstance(s, Allocate):
            yield s.buffer
        waiting += [part for part in children(s) if isinstance(part, Stmt)]


def check_buffers(f: PrimFunc) -> None:
    """Raise LoweringError if a buffer of constant size is larger than memory can be."""
    arguments = (p for p in f.params if isinstance(p, Buffer))
    for b in (*arguments, *allocations(f.body)):
        n = elements(b)
        if isinstance(n, int) and n * b.dtype.bytes > ADDRESSABLE:
            fix = "compute_at a loop, to store only a part of it"
            raise LoweringError(f"{f.name}: {b.name}", too_large(b, n), fix)


def symbolic_buffers(f: PrimFunc) -> tuple[Buffer, ...]:
    """Return the buffers of `f` whose size follows from sizes and scalars known at the call."""
    known = {id(v) for v in (*f.sizes, *f.params)}

    def follows(n: Index) -> bool:
        vars_only = not any(isinstance(part, AsIndex) for part in walk(n))
        return vars_only and all(id(v) in known for v in variables(n))

    sizes = ((b, elements(b)) for b in allocations(f.body))
    return tuple(b for b, n in sizes if not isinstance(n, int) and follows(n))


def check_symbolic_buffers(
    f: PrimFunc, buffers: Iterable[Buffer], values: Mapping[Var, int]
) -> None:
    """Raise ArgumentError if, with these values of sizes, one of `buffers` exceeds memory."""
    for b in buffers:
        n = substitute(elements(b), values)
        if isinstance(n, int) and n * b.dtype.bytes > ADDRESSABLE:
            given = ", ".join(f"{v.name} = {size}" for v, size in values.items())
            what = f"{f.name}: {b.name} with {given}"
            raise ArgumentError(what, too_large(b, n), "smaller sizes")


def too_large(b: Buffer, n: int) -> str:
    """Say how much memory `n` elements of `b` need."""
    return f"it needs {n * b.dtype.bytes} bytes, and at most {ADDRESSABLE} can be addressed"
