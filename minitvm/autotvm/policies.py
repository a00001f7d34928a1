"""The policies by which knobs enumerate their options, in AutoTVM's order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

from minitvm import te
from minitvm.base import ArgumentError, Reason, divisors, raise_first

from .entities import AnnotateEntity, ReorderEntity, SplitEntity

SplitPolicy: TypeAlias = Literal["factors", "power2", "verbose", "candidate"]
ReorderPolicy: TypeAlias = Literal["identity", "all", "interval_all", "candidate", "interleave"]
SPLITS = ("factors", "power2", "verbose", "candidate")
ORDERS = ("identity", "all", "interval_all", "candidate", "interleave")
ANNOTATES = (
    "none",
    "unroll",
    "vec",
    "try_unroll",
    "try_vec",
    "try_unroll_vec",
    "unroll_vec",
    "locate_cache",
)


class VirtualAxis:
    """A loop that only has a length, because spaces are made before any schedule exists.

    length    None if the loop is a part of a loop that a knob splits
    """

    def __init__(self, var: int | te.Axis | VirtualAxis, name: str = "") -> None:
        length = var.length if isinstance(var, VirtualAxis) else _length(var)
        self.length: int | None = length
        self.name = name or getattr(var, "name", "axis")

    def __repr__(self) -> str:
        return f"vaxis({self.name})"


def part_of(name: str, number: int) -> VirtualAxis:
    """Return the n-th loop that the knob `name` makes."""
    part = VirtualAxis(1, f"{name}.{number}")
    part.length = None
    return part


def _length(var: int | te.Axis) -> int:
    """Return the length of a loop; ArgumentError unless it is a constant of at least one."""
    n = var.extent if isinstance(var, te.Axis) else var
    if type(n) is not int or n < 1:
        why = "the length of a loop must be an integer of at least 1"
        raise ArgumentError(f"axis {getattr(var, 'name', var)!r}", why, "a constant shape")
    return n


def power2s(n: int) -> list[int]:
    """Return the powers of two up to n."""
    return [1 << b for b in range(n.bit_length())]


def split_options(
    name: str,
    axis: VirtualAxis,
    policy: str,
    *,
    num_outputs: int | None = None,
    max_factor: int = 1 << 31,
    filter: Callable[[SplitEntity], bool] | None = None,  # TVM's name
    no_tail: bool | None = None,
    candidate: Iterable[Sequence[int]] | None = None,
) -> list[SplitEntity]:
    """Enumerate the ways to split a loop; the innermost part changes slowest, as in AutoTVM.

    The arguments are those of `Config.define_split`.
    """
    raise_first(ArgumentError, f"define_split({name!r})", _about(axis, policy, candidate))
    keep = filter if filter is not None else _any
    if policy == "candidate":
        chosen = [SplitEntity(tuple(c)) for c in candidate or ()]
        for e in chosen:
            raise_first(ArgumentError, f"define_split({name!r})", _about_sizes(e, num_outputs))
        return [e for e in chosen if keep(e)]
    length, parts = cast("int", axis.length), 2 if num_outputs is None else num_outputs
    if parts < 1:
        raise ArgumentError(f"define_split({name!r})", "num_outputs must be at least 1")
    factors = {*(divisors(length) if policy != "power2" else ())}
    factors |= {*(power2s(length) if policy != "factors" else ())}
    exact = policy == "factors" if no_tail is None else no_tail
    usable = sorted(f for f in factors if f <= max_factor)
    entities = (
        SplitEntity((-1, *inner[::-1])) for inner in _parts(length, parts - 1, usable, exact)
    )
    return [e for e in entities if keep(e)]


def _any(entity: SplitEntity) -> bool:
    return True


def _about(axis: VirtualAxis, policy: str, candidate: Any) -> Iterator[Reason]:
    if policy not in SPLITS:
        yield f"no policy is called {policy!r}", f"one of {', '.join(SPLITS)}"
    if (candidate is None) != (policy != "candidate"):
        yield "candidate=[...] belongs to policy='candidate'", ""
    if axis.length is None and policy != "candidate":
        why = f"the length of {axis.name} depends on another knob"
        yield why, "define_split of the whole axis with more num_outputs, or policy='candidate'"


def _about_sizes(e: SplitEntity, parts: int | None) -> Iterator[Reason]:
    if parts is not None and len(e.size) != parts:
        yield f"{list(e.size)} has {len(e.size)} parts, not {parts}", ""
    if any(type(n) is not int for n in e.size) or any(n < 1 for n in e.size[1:]) or not e.size:
        yield f"{list(e.size)} has a part below 1", "only the outermost part may be -1"


def _parts(
    length: int, parts: int, factors: Sequence[int], exact: bool
) -> Iterator[tuple[int, ...]]:
    """Yield sizes, innermost first, whose product divides the length or, if not exact, is at most
    the length."""
    if parts == 0:
        yield ()
        return
    for f in factors:
        if f > length or (exact and length % f):
            continue
        for rest in _parts(length // f, parts - 1, factors, exact):
            yield (f, *rest)


def reorder_options(
    name: str,
    axes: Sequence[Any],
    policy: str,
    *,
    interval: tuple[int, int] | None = None,
    candidate: Iterable[Sequence[Any]] | None = None,
    spatial: Sequence[Sequence[Any]] = (),
    reduce: Sequence[Sequence[Any]] = (),
) -> list[ReorderEntity]:
    """Enumerate orders of the loops `axes`; see `Config.define_reorder`.

    For "interleave", loops of all chains alternate, and each chain keeps its order; the last loops
    of spatial chains are interleaved with the loops of reduce chains.
    """
    positions = range(len(axes))
    match policy:
        case "identity":
            return [ReorderEntity(tuple(positions))]
        case "all":
            return [ReorderEntity(p) for p in itertools.permutations(positions)]
        case "interval_all":
            if interval is None:
                why = "policy 'interval_all' needs the loops to permute"
                raise ArgumentError(f"define_reorder({name!r})", why, "interval=(begin, end)")
            begin, end = interval
            middle = itertools.permutations(positions[begin:end])
            return [ReorderEntity((*positions[:begin], *p, *positions[end:])) for p in middle]
        case "candidate":
            return [_order(name, axes, order) for order in candidate or ()]
        case "interleave":
            data, sums = (
                [_order(name, axes, chain, whole=False).perm for chain in chains]
                for chains in (spatial, reduce)
            )
            outer = _alternating([chain[:-1] for chain in data])
            inner = _alternating([*(chain[-1:] for chain in data), *sums])
            return [_checked_order(name, axes, (*outer, *inner))]
        case _:
            what = f"define_reorder({name!r})"
            raise ArgumentError(what, f"no policy is called {policy!r}", f"one of {ORDERS}")


def _order(
    name: str, axes: Sequence[Any], order: Sequence[Any], whole: bool = True
) -> ReorderEntity:
    """Return the order `order` as an entity; ArgumentError unless its loops are among `axes`."""
    position_of = {id(a): n for n, a in enumerate(axes)}
    if any(id(a) not in position_of for a in order):
        why = "an order contains a loop that is not among the axes"
        raise ArgumentError(f"define_reorder({name!r})", why)
    perm = tuple(position_of[id(a)] for a in order)
    return _checked_order(name, axes, perm) if whole else ReorderEntity(perm)


def _checked_order(name: str, axes: Sequence[Any], perm: tuple[int, ...]) -> ReorderEntity:
    if sorted(perm) != list(range(len(axes))):
        why = f"an order must contain each of the {len(axes)} loops once"
        raise ArgumentError(f"define_reorder({name!r})", why)
    return ReorderEntity(perm)


def _alternating(chains: Sequence[tuple[int, ...]]) -> list[int]:
    """Merge chains: repeatedly take the first loop of the chain with the most loops left."""
    left, order = [list(c) for c in chains], list[int]()
    while any(left):
        order.append(max(left, key=len).pop(0))
    return order


def annotate_options(
    name: str, axes: Sequence[Any], policy: str, *, num_anchor: int | None = None
) -> list[AnnotateEntity]:
    """Enumerate annotations of the loops `axes`; see `Config.define_annotate`."""
    what = f"define_annotate({name!r})"
    if policy.startswith("bind_gpu"):
        why = f"policy {policy!r} binds loops to threads, which a template does itself"
        raise ArgumentError(what, why, "s[C].bind(loop, te.thread_axis('threadIdx.x'))")
    if policy not in ANNOTATES:
        raise ArgumentError(what, f"no policy is called {policy!r}", f"one of {ANNOTATES}")
    if policy == "locate_cache":
        if num_anchor is None:
            raise ArgumentError(what, "policy 'locate_cache' needs the number of caches")
        positions = itertools.combinations(range(len(axes)), num_anchor)
        return [AnnotateEntity(p) for p in positions]
    kinds = policy.replace("try", "none").split("_")
    combinations = itertools.product(kinds, repeat=len(axes))
    return [AnnotateEntity(anns) for anns in combinations if anns.count("vec") <= 1]
