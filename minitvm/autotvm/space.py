"""AutoTVM's configuration spaces: knobs that a template defines, and one choice for each.

A ConfigSpace is a tune.Space whose options have names: a configuration is a row of option numbers,
and its index is the number of that row; the first knob varies fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from minitvm import te, tune
from minitvm.base import ArgumentError, TVMError, divisors

from .entities import Entity, OtherOptionEntity, SplitEntity, entity_from_json, flat
from .policies import VirtualAxis, annotate_options, part_of, reorder_options, split_options

COUNTED = 1 << 22  # len() applies filters to at most this many configurations


class InstantiationError(TVMError):
    """Raised if a template rejects a configuration with cfg.raise_error."""


@dataclass(frozen=True, slots=True, eq=False)
class Knob:
    """One decision of a template: its name, its options, and a description of them."""

    name: str
    entities: tuple[Entity, ...]
    about: str
    gene: tune.Gene

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"{self.about} len={len(self)}"


class Config:
    """The configuration that a template gets: it defines knobs, and has an option for each knob.

    While a space is collected, the define_... methods add knobs; later they only return axes.
    cfg["tile_x"] is the option of the knob "tile_x".
    """

    is_fallback = False

    def __init__(self, chosen: Mapping[str, Entity] | None = None) -> None:
        self.chosen: dict[str, Entity] = dict(chosen or {})
        self.errors: list[str] = []
        self.flop = 0.0
        self.code_hash: str | None = None

    @staticmethod
    def axis(var: int | te.Axis | VirtualAxis) -> VirtualAxis:
        """Return a loop that has the length of an axis, or the given length."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(
        self, name: str, axis: Any, policy: str = "factors", **options: Any
    ) -> list[VirtualAxis]:
        """Define a knob that splits a loop; return the parts.

            cfg.define_split("tile_x", x, num_outputs=3)
            xo, xm, xi = cfg["tile_x"].apply(s, C, x)

        axis          a loop of a stage, or its length
        policy        "factors": parts are divisors of the length; "power2": powers of two;
                      "verbose": both; "candidate": the sizes candidate=[[-1, 8], [-1, 16]]
        num_outputs   the number of parts, two if it is not given
        max_factor    the largest part, except for the outermost, which is -1
        filter        filter(entity) returns whether to offer a split
        no_tail       whether the parts must divide the length; by default only with "factors"
        """
        whole = axis if isinstance(axis, VirtualAxis) else VirtualAxis(axis)
        self._add(
            name,
            f"Split(policy={policy}, product={whole.length})",
            lambda: split_options(name, whole, policy, **options),
        )
        found = self[name]
        assert isinstance(found, SplitEntity)
        return [part_of(name, n) for n in range(len(found.size))]

    def define_reorder(
        self, name: str, axes: Sequence[Any], policy: str, **options: Any
    ) -> list[Any]:
        """Define a knob that reorders loops; return them.

            cfg.define_reorder("order", [ko, yi, ki], "interval_all", interval=(0, 2))
            cfg["order"].apply(s, C, [ko, yi, ki])

        policy     "identity": same order; "all": every order; "interval_all": every order of the
                   loops axes[interval[0] : interval[1]]; "candidate": the orders
                   candidate=[[ko, yi, ki], [yi, ko, ki]]; "interleave": the loops of the chains
                   spatial=[[y0, y1], [x0, x1]] and reduce=[[k0, k1]] alternate
        """
        self._add(
            name,
            f"Reorder(policy={policy})",
            lambda: reorder_options(name, axes, policy, **options),
        )
        return list(axes)

    def define_annotate(
        self, name: str, axes: Sequence[Any], policy: str, **options: Any
    ) -> list[Any]:
        """Define a knob that annotates loops; return them.

            cfg.define_annotate("inner", [yi, xi], "try_unroll_vec")
            cfg["inner"].apply(s, C, [yi, xi])

        policy       "none", "unroll", "vec", "unroll_vec", "try_unroll", "try_vec" or
                     "try_unroll_vec": with "try", each loop may also stay as it is; at most one is
                     a vector. "locate_cache": the loops at which to compute num_anchor caches
        """
        self._add(
            name,
            f"Annotate(policy={policy})",
            lambda: annotate_options(name, axes, policy, **options),
        )
        return list(axes)

    def define_knob(self, name: str, candidate: Iterable[Any]) -> None:
        """Define a knob whose options are the values `candidate`; cfg[name].val is one of them.

        cfg.define_knob("unroll", [0, 16, 64])
        s[C].pragma(yo, "auto_unroll_max_step", cfg["unroll"].val)
        """
        given = list(candidate)
        self._add(name, f"OtherOption({given})", lambda: [OtherOptionEntity(v) for v in given])

    def multi_filter(self, keep: Callable[[ConfigEntity], bool]) -> None:
        """Allow only configurations for which keep(cfg) is true."""

    def add_flop(self, flop: float) -> None:
        """Add `flop` to the operations of one call; without any, the formulas are counted."""
        self.flop += float(flop)

    def raise_error(self, message: str) -> None:
        """Record that this configuration must not be used, and why."""
        self.errors.append(message)

    def valid(self) -> bool:
        """Return whether no error is recorded; call this after the template has run."""
        return not self.errors

    def _add(self, name: str, about: str, options: Callable[[], Sequence[Entity]]) -> None:
        """Add a knob if knobs are collected; otherwise check that it has an option."""
        self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self.chosen:
            known = ", ".join(self.chosen) or "none"
            why = f"it has no knob of this name, but {known}"
            raise ArgumentError(f"cfg[{name!r}]", why, "a configuration of this template's space")
        return self.chosen[name]

    def __setitem__(self, name: str, entity: Entity) -> None:
        self.chosen[name] = entity

    def __iter__(self) -> Iterator[str]:
        return iter(self.chosen)

    def __contains__(self, name: object) -> bool:
        return name in self.chosen


class ConfigEntity(Config):
    """A configuration: an option for each knob, and the configuration's number in its space."""

    def __init__(self, index: int, code_hash: str | None, chosen: Mapping[str, Entity]) -> None:
        super().__init__(chosen)
        self.index, self.code_hash = index, code_hash

    def to_json_dict(self) -> dict[str, Any]:
        """Return the configuration as JSON values, in TVM's form."""
        entities = [[name, e.tag, e.json] for name, e in self.chosen.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entities}

    @staticmethod
    def from_json_dict(given: Mapping[str, Any]) -> ConfigEntity:
        """Make a configuration from the result of to_json_dict; ArgumentError for other values."""
        try:
            found = {name: entity_from_json(tag, value) for name, tag, value in given["entity"]}
            return ConfigEntity(int(given["index"]), given.get("code_hash"), found)
        except (KeyError, TypeError, ValueError) as e:
            raise ArgumentError("configuration from JSON", f"not a configuration ({e})") from e

    def get_flatten_feature(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Return all options as one vector, as the feature type "knob" does."""
        numbers = [n for e in self.chosen.values() for n in flat(e)]
        return np.array(numbers, np.float32)

    def get_other_option(self) -> dict[str, Any]:
        """Return the values of the knobs that define_knob defined."""
        found = self.chosen.items()
        return {name: e.val for name, e in found if isinstance(e, OtherOptionEntity)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self.chosen == other.chosen

    __hash__ = None  # type: ignore[assignment]  # options can be replaced

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={e.json}" for name, e in self.chosen.items())
        return f"[{shown}],{self.code_hash},{self.index}"


class ConfigSpace(Config):
    """The knobs of a template. A template adds its knobs if it gets this as its configuration.

    space_map      knobs by name, in the order of their definition
    range_length   the number of configurations, including those that a filter rejects
    """

    def __init__(self) -> None:
        super().__init__()
        self.space_map: dict[str, Knob] = {}
        self.filters: list[Callable[[ConfigEntity], bool]] = []

    def multi_filter(self, keep: Callable[[ConfigEntity], bool]) -> None:
        """Allow only configurations for which keep(cfg) is true."""
        self.filters.append(keep)

    def _add(self, name: str, about: str, options: Callable[[], Sequence[Entity]]) -> None:
        self.collect(name, about, options)

    def collect(self, name: str, about: str, options: Callable[[], Sequence[Entity]]) -> None:
        """Add a knob; raise ArgumentError if it has no options, or if its name is taken."""
        if name in self.space_map:
            raise ArgumentError(f"knob {name!r}", "it is defined twice", "another name")
        found = tuple(options())
        if not found:
            why = "no option is left"
            raise ArgumentError(f"knob {name!r}", why, "another filter, max_factor or candidate")
        self.space_map[name] = Knob(name, found, about, _gene(name, found))
        self.chosen[name] = found[0]
        self.__dict__.pop("rows", None)  # the cached property is out of date

    @cached_property
    def rows(self) -> tune.Space:
        """The same space without names."""
        genes = tuple(k.gene for k in self.space_map.values())
        return tune.Space(genes, self.allowed if self.filters else None)

    @property
    def range_length(self) -> int:
        """The number of configurations, including those that a filter rejects."""
        return self.rows.size

    def __len__(self) -> int:
        """Return the number of allowed configurations."""
        if not self.filters:
            return self.range_length
        if self.range_length > COUNTED:
            why = f"a filter would have to check {self.range_length:,} configurations"
            raise ArgumentError("length of the space", why, "range_length, without filters")
        return sum(self.is_index_valid(i) for i in range(self.range_length))

    def allowed(self, rows: tune.Rows) -> tune.Mask:
        """Return which rows the filters allow."""
        found = (all(keep(self.entity(row)) for keep in self.filters) for row in rows.tolist())
        return np.fromiter(found, np.bool_, len(rows))

    def is_index_valid(self, index: int) -> bool:
        """Return whether the filters allow this configuration."""
        cfg = self.get(index)
        return all(keep(cfg) for keep in self.filters)

    def get(self, index: int) -> ConfigEntity:
        """Return the configuration with this number; raise ArgumentError if it is too large."""
        return self.entity(self.rows.row(index))

    def entity(self, row: Sequence[int]) -> ConfigEntity:
        """Return the configuration with the option numbers `row`."""
        named = zip(self.space_map.values(), row, strict=True)
        chosen = {knob.name: knob.entities[option] for knob, option in named}
        return ConfigEntity(self.rows.index(row), self.code_hash, chosen)

    def row(self, cfg: Config) -> tuple[int, ...]:
        """Return the option numbers of a configuration; ArgumentError if it is of another space."""
        strange = [n for n in cfg.chosen if n not in self.space_map]
        if strange:
            why = f"the space has no knob {strange[0]!r}"
            raise ArgumentError("configuration", why, f"one with {', '.join(self.space_map)}")
        return tuple(_option(k, cfg[k.name]) for k in self.space_map.values())

    def __repr__(self) -> str:
        size = f"len={self.range_length}" + (", filtered" if self.filters else "")
        lines = [f"  {n:2d} {k.name}: {k!r}" for n, k in enumerate(self.space_map.values())]
        return "\n".join([f"ConfigSpace ({size}, space_map=", *lines, ")"])


def _option(knob: Knob, entity: Entity) -> int:
    if entity not in knob.entities:
        why = f"knob {knob.name!r} has no option {entity.json}"
        raise ArgumentError("configuration", why, "a configuration of this space")
    return knob.entities.index(entity)


def _gene(name: str, entities: tuple[Entity, ...]) -> tune.Gene:
    """Return the gene of a knob: sizes of loops, numbers, or options without an order."""
    return tune.gene_of(name, [e.size if isinstance(e, SplitEntity) else e.json for e in entities])


class Measured(Protocol):
    """The attributes of a MeasureInput that a fallback configuration needs."""

    @property
    def task(self) -> tune.Task: ...
    @property
    def config(self) -> Config: ...


class Outcome(Protocol):
    """The attributes of a MeasureResult that a fallback configuration needs."""

    @property
    def costs(self) -> tuple[float, ...]: ...
    @property
    def error_no(self) -> int: ...


class FallbackConfigEntity(Config):
    """The configuration of a workload that has not been tuned: the first option of each knob.

    A template can change it: `if cfg.is_fallback: cfg.fallback_split("tile_x", [-1, 8])`.
    """

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self.space = ConfigSpace()
        self.lengths: dict[str, int | None] = {}

    def define_split(
        self, name: str, axis: Any, policy: str = "factors", **options: Any
    ) -> list[VirtualAxis]:
        """Define a knob that splits a loop; return the parts. See `Config.define_split`."""
        self.lengths[name] = VirtualAxis(axis).length
        return super().define_split(name, axis, policy, **options)

    def _add(self, name: str, about: str, options: Callable[[], Sequence[Entity]]) -> None:
        self.space.collect(name, about, options)
        self.chosen.setdefault(name, self.space.chosen[name])

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose a split whose parts are at most `constraints`; -1 means any size.

        From the innermost part outwards, each part is the largest divisor of the remaining length.
        """
        now, left, sizes = self[name], self.lengths.get(name), list[int]()
        if left is None or len(constraints) != len(now.size):
            why = f"knob {name!r} does not split a loop into {len(constraints)} parts"
            raise ArgumentError("fallback_split", why)
        for limit in reversed(constraints):
            most = left if limit == -1 else limit
            sizes.append(max(d for d in divisors(left) if d <= most))
            left //= sizes[-1]
        self.chosen[name] = SplitEntity(tuple(reversed(sizes)))

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Measured, Outcome]]) -> None:
        """Take the options of the best-fitting measured configuration; call this after the knobs.

            if cfg.is_fallback:
                cfg.fallback_with_reference_log(autotvm.record.load_from_file("other.log"))

        ref_log   measurements of the same template, mostly of other workloads; others are ignored
        The best-fitting configuration has the most options that exist here too; operations per
        second decide between equal ones. A split that does not exist here becomes an upper bound,
        as in `fallback_split`.
        """
        found = [(i, r) for i, r in ref_log if not r.error_no and self._has_knobs_of(i.config)]
        if not found:
            why = "no measurement in it has succeeded and has the knobs of this template"
            raise ArgumentError("fallback_with_reference_log", why, "a log of this template")
        best, _ = max(found, key=lambda m: (self._fit(m[0]), m[0].task.flops / min(m[1].costs)))
        for name, entity in best.config.chosen.items():
            if entity in self.space.space_map[name].entities:
                self.chosen[name] = entity
            elif isinstance(entity, SplitEntity):
                self.fallback_split(name, (-1, *entity.size[1:]))

    def _has_knobs_of(self, cfg: Config) -> bool:
        here, there = ({n: e.tag for n, e in c.chosen.items()} for c in (self, cfg))
        return here == there

    def _fit(self, given: Measured) -> int:
        """Return how many options of a measured configuration exist in these knobs too."""
        knobs = self.space.space_map
        return sum(e in knobs[name].entities for name, e in given.config.chosen.items())
