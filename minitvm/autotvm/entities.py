"""The options of knobs: one way to split, reorder or annotate loops, or one value.

Each has TVM's name, applies itself to a schedule, and is written to JSON as TVM writes it:
["tile_x", "sp", [-1, 8]], ["order", "re", [1, 0]], ["ann", "an", ["vec"]], ["step", "ot", 16]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from minitvm import te
from minitvm.base import ArgumentError


class Errors(Protocol):
    """The method of a configuration that records an error found by a template."""

    def raise_error(self, message: str) -> None: ...


class Stages(Protocol):
    """The method of a schedule that options use: it finds a stage."""

    def __getitem__(self, key: Any) -> te.StageView: ...


class _Listed:
    """An option whose only field is a tuple, which JSON stores as a list."""

    __slots__ = ()
    __match_args__: tuple[str, ...]

    def __post_init__(self) -> None:
        name = self.__match_args__[0]
        object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def json(self) -> Any:
        """Return the value for JSON."""
        return list(getattr(self, self.__match_args__[0]))


@dataclass(frozen=True, slots=True)
class SplitEntity(_Listed):
    """Split a loop into nested loops.

    size    the number of iterations of each loop, outermost first; -1 means as many as needed
    """

    size: tuple[int, ...]
    tag: ClassVar[str] = "sp"

    def apply(self, sch: Stages, op: Any, axis: te.Axis) -> list[te.Axis]:
        """Split `axis` of the stage `op`; return the loops, outermost first."""
        outers = list[te.Axis]()
        for i in range(1, len(self.size)):
            outer, axis = sch[op].split(axis, factor=math.prod(self.size[i:]))
            outers.append(outer)
        return [*outers, axis]


@dataclass(frozen=True, slots=True)
class ReorderEntity(_Listed):
    """Nest loops in another order; perm[n] is the former position of the n-th loop."""

    perm: tuple[int, ...]
    tag: ClassVar[str] = "re"

    def apply(self, sch: Stages, op: Any, axes: Sequence[te.Axis]) -> list[te.Axis]:
        """Reorder the loops `axes` of the stage `op`; return them in their new order."""
        order = [axes[i] for i in self.perm if i < len(axes)]
        sch[op].reorder(*order)
        return order


@dataclass(frozen=True, slots=True)
class AnnotateEntity(_Listed):
    """Annotate loops with "none", "unroll" or "vec", or choose loops at which to compute caches.

    anns    for the policy locate_cache, the numbers of loops, one for each cache
    """

    anns: tuple[str | int, ...]
    tag: ClassVar[str] = "an"

    def apply(
        self,
        sch: Stages,
        op: Any,
        axes: Sequence[te.Axis],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Errors | None = None,
        source: Sequence[Sequence[te.Tensor]] | None = None,
    ) -> list[te.Axis]:
        """Annotate the loops `axes` of the stage `op`; return them.

        axis_lens    the extents of the loops, which max_unroll and vec_size refer to
        max_unroll   the extent of the longest loop that may be unrolled
        vec_size     the lengths that vectors may have
        cfg          the configuration that records an error if max_unroll or vec_size is violated
        source       a list of tensors for each cache: only compute them at the chosen loops
        """
        if source is not None:
            for tensors, position in zip(source, self.anns, strict=True):
                for t in tensors:
                    sch[t].compute_at(sch[op], axes[int(position)])
            return list(axes)
        for i, (axis, ann) in enumerate(zip(axes, self.anns, strict=True)):
            length = axis_lens[i] if axis_lens is not None else None
            if ann == "unroll":
                if max_unroll and length is not None and length > max_unroll:
                    _refuse(cfg, f"{length} iterations are too many to unroll")
                sch[op].unroll(axis)
            elif ann == "vec":
                if vec_size and length is not None and length not in vec_size:
                    _refuse(cfg, f"a vector must not have {length} lanes")
                sch[op].vectorize(axis)
        return list(axes)


@dataclass(frozen=True, slots=True)
class OtherOptionEntity:
    """Any value that JSON can store."""

    val: Any
    tag: ClassVar[str] = "ot"

    @property
    def json(self) -> Any:
        """Return the value for JSON."""
        return self.val


Entity: TypeAlias = SplitEntity | ReorderEntity | AnnotateEntity | OtherOptionEntity
ENTITIES: dict[str, type[Entity]] = {
    e.tag: e for e in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)
}


def entity_from_json(tag: str, value: Any) -> Entity:
    """Return the entity with this tag and this value of `json`; ArgumentError for unknown tags."""
    if tag not in ENTITIES:
        why = "no such kind of knob"
        raise ArgumentError(f"knob of kind {tag!r}", why, f"one of {', '.join(ENTITIES)}")
    return ENTITIES[tag](value)


def _refuse(cfg: Errors | None, message: str) -> None:
    if cfg is None:
        raise ArgumentError("annotation", message, "apply(..., cfg=cfg) records it instead")
    cfg.raise_error(message)
