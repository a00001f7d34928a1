"""AutoTVM's configuration spaces: knobs that a template defines, and one choice for each.

A ConfigSpace collects the knobs of a tune.Space. A ConfigEntity is a view of a configuration, which
is a row of option numbers; its index is the number of that row, and the first knob varies fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from minitvm import te, tune
from minitvm.base import ArgumentError, TVMError

from .entities import Entity, OtherOptionEntity, SplitEntity, entity_from_json
from .policies import VirtualAxis, annotate_options, part_of, reorder_options, split_options

COUNTED = 1 << 22  # len() applies filters to at most this many configurations
PERMUTED = 1 << 16  # random numbers of smaller ranges are a permutation


class InstantiationError(TVMError):
    """Raised if a template rejects a configuration with cfg.raise_error."""


@dataclass(frozen=True, slots=True, eq=False)
class Knob(tune.Knob):
    """A knob whose options apply themselves to a schedule, and a description of them."""

    entities: tuple[Entity, ...]
    about: str

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
        entity = self[name]
        assert isinstance(entity, SplitEntity)
        return [part_of(name, n) for n in range(len(entity.size))]

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
        values = list(candidate)
        self._add(name, f"OtherOption({values})", lambda: [OtherOptionEntity(v) for v in values])

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
            why = f"it has no knob of this name; its knobs are {known}"
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
    def from_json_dict(values: Mapping[str, Any]) -> ConfigEntity:
        """Make a configuration from the result of to_json_dict; ArgumentError for other values."""
        try:
            chosen = {name: entity_from_json(tag, value) for name, tag, value in values["entity"]}
            return ConfigEntity(int(values["index"]), values.get("code_hash"), chosen)
        except (KeyError, TypeError, ValueError) as e:
            raise ArgumentError("configuration from JSON", f"not a configuration ({e})") from e

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
        entities = tuple(options())
        if not entities:
            why = "no option is left"
            raise ArgumentError(f"knob {name!r}", why, "another filter, max_factor or candidate")
        values = [e.size if isinstance(e, SplitEntity) else e.json for e in entities]
        k = tune.knob_of(name, values)
        self.space_map[name] = Knob(
            name, k.kind, k.options, k.values, k.starts, k.near, entities, about
        )
        self.chosen[name] = entities[0]
        self.__dict__.pop("space", None)  # the cached property is out of date

    @cached_property
    def space(self) -> tune.Space:
        """The space of the knobs, in which a configuration is a row of option numbers."""
        return tune.Space(tuple(self.space_map.values()), self.allowed if self.filters else None)

    def restricted(self, allowed: Callable[[tune.Rows], tune.Mask]) -> ConfigSpace:
        """Return a copy that allows only rows for which allowed(rows) is true, too."""
        copy, whole = ConfigSpace(), self.space
        copy.__dict__.update(self.__dict__)

        def legal(rows: tune.Rows) -> tune.Mask:
            return whole.legal(rows) & allowed(rows)

        copy.__dict__["space"] = replace(whole, allowed=legal)
        return copy

    @property
    def range_length(self) -> int:
        """The number of configurations, including those that a filter rejects."""
        return self.space.size

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
        flags = (all(keep(self.entity(row)) for keep in self.filters) for row in rows.tolist())
        return np.fromiter(flags, np.bool_, len(rows))

    def is_index_valid(self, index: int) -> bool:
        """Return whether the filters allow this configuration."""
        cfg = self.get(index)
        return all(keep(cfg) for keep in self.filters)

    def get(self, index: int) -> ConfigEntity:
        """Return the configuration with this number; raise ArgumentError if it is too large."""
        return self.entity(self.space.row(index))

    def entity(self, row: Sequence[int]) -> ConfigEntity:
        """Return the configuration with the option numbers `row`."""
        pairs = zip(self.space_map.values(), row, strict=True)
        chosen = {knob.name: knob.entities[option] for knob, option in pairs}
        return ConfigEntity(self.space.index(row), self.code_hash, chosen)

    def row(self, cfg: Config) -> tuple[int, ...]:
        """Return the option numbers of a configuration; ArgumentError if it is of another space."""
        strange = [n for n in cfg.chosen if n not in self.space_map]
        if strange:
            why = f"the space has no knob {strange[0]!r}"
            raise ArgumentError("configuration", why, f"one with {', '.join(self.space_map)}")
        return tuple(_option(k, cfg[k.name]) for k in self.space_map.values())

    @property
    def dims(self) -> list[int]:
        """The number of options of each knob."""
        return [len(knob) for knob in self.space_map.values()]

    def point2knob(self, point: int) -> list[int]:
        """Return the option numbers of the configuration with this number."""
        return list(self.space.row(point))

    def knob2point(self, knob: Sequence[int]) -> int:
        """Return the number of the configuration with these option numbers."""
        if len(knob) != len(self.dims) or any(not 0 <= n < m for n, m in zip(knob, self.dims)):  # noqa: B905
            why = f"the knobs have {self.dims} options"
            raise ArgumentError(f"option numbers {list(knob)}", why, "one number for each knob")
        return self.space.index(knob)

    def sample_ints(self, m: int, rng: np.random.Generator | None = None) -> list[int]:
        """Draw the numbers of `m` different allowed configurations; fewer if there are fewer."""
        return list(islice(self._shuffled(0, self.range_length, rng), m))

    def random_walk(self, point: int, rng: np.random.Generator | None = None) -> int:
        """Return a random allowed configuration in which one knob has a neighbouring option.

        Returns `point` if there is none.
        """
        draw = np.random.default_rng() if rng is None else rng
        neighbours = self.space.neighbours(self.space.row(point)).tolist()
        return self.space.index(neighbours[draw.integers(len(neighbours))]) if neighbours else point

    def get_rand_index(
        self,
        start: int | None = None,
        end: int | None = None,
        to_exclude: Iterable[int] = (),
        rng: np.random.Generator | None = None,
    ) -> int | None:
        """Draw an allowed number from `start` on, below `end`; None if `to_exclude` has all."""
        first, last = self._range(start, end)
        excluded = set(to_exclude)
        return next((n for n in self._shuffled(first, last, rng) if n not in excluded), None)

    def get_next_index(
        self, index: int, n: int = 1, start: int | None = None, end: int | None = None
    ) -> int | None:
        """Return the n-th allowed number after `index`, or before it if n < 0.

        None if it is below `start`, or not below `end`.
        """
        first, last = self._range(start, end)
        if n == 0:
            raise ArgumentError("get_next_index", "n is 0", "n=1, or n=-1 for the number before")
        later = range(max(index + 1, first), last)
        earlier = range(min(index, last) - 1, first - 1, -1)
        valid = filter(self.is_index_valid, later if n > 0 else earlier)
        return next(islice(valid, abs(n) - 1, None), None)

    def _range(self, start: int | None, end: int | None) -> tuple[int, int]:
        """Return the limits of a range of numbers, by default those of the space."""
        last = self.range_length if end is None else min(end, self.range_length)
        return max(start or 0, 0), last

    def _shuffled(self, first: int, last: int, rng: np.random.Generator | None) -> Iterator[int]:
        """Yield the allowed numbers of a range in random order."""
        numbers = shuffled(max(last - first, 0), np.random.default_rng() if rng is None else rng)
        yield from (first + n for n in numbers if self.is_index_valid(first + n))

    def __repr__(self) -> str:
        size = f"len={self.range_length}" + (", filtered" if self.filters else "")
        lines = [f"  {n:2d} {k.name}: {k!r}" for n, k in enumerate(self.space_map.values())]
        return "\n".join([f"ConfigSpace ({size}, space_map=", *lines, ")"])


def _option(knob: Knob, entity: Entity) -> int:
    if entity not in knob.entities:
        why = f"knob {knob.name!r} has no option {entity.json}"
        raise ArgumentError("configuration", why, "a configuration of this space")
    return knob.entities.index(entity)


def shuffled(count: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the numbers below `count` in random order, each once."""
    if count <= PERMUTED:
        yield from rng.permutation(count).tolist()
        return
    drawn, size = set[int](), count.bit_length() // 8 + 8
    while len(drawn) < count:
        number = int.from_bytes(rng.bytes(size)) % count
        if number not in drawn:
            drawn.add(number)
            yield number
