"""The configuration of a workload that has not been tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minitvm.base import ArgumentError, divisors

from .entities import Entity, SplitEntity
from .policies import VirtualAxis
from .space import Config, ConfigSpace


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
        entity, left, sizes = self[name], self.lengths.get(name), list[int]()
        if left is None or len(constraints) != len(entity.size):
            why = f"knob {name!r} does not split a loop into {len(constraints)} parts"
            raise ArgumentError("fallback_split", why)
        for limit in reversed(constraints):
            most = left if limit == -1 else limit
            sizes.append(max(d for d in divisors(left) if d <= most))
            left //= sizes[-1]
        self.chosen[name] = SplitEntity(tuple(reversed(sizes)))

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Any, Any]]) -> None:
        """Take the options of the best-fitting measured configuration; call this after the knobs.

            if cfg.is_fallback:
                cfg.fallback_with_reference_log(autotvm.record.load_from_file("other.log"))

        ref_log   (MeasureInput, MeasureResult) of the same template, mostly of other workloads;
                  those of other templates are ignored
        The best-fitting configuration has the most options that exist here too; operations per
        second decide between equal ones. A split that does not exist here becomes an upper bound,
        as in `fallback_split`.
        """
        tags = {name: e.tag for name, e in self.chosen.items()}
        measured = [
            (i, r)
            for i, r in ref_log
            if not r.error_no and tags == {name: e.tag for name, e in i.config.chosen.items()}
        ]
        if not measured:
            why = "no measurement in it has succeeded and has the knobs of this template"
            raise ArgumentError("fallback_with_reference_log", why, "a log of this template")

        def options(cfg: Config) -> dict[str, Entity]:
            """Return the options of a configuration that exist in these knobs too."""
            knobs = self.space.space_map
            return {name: e for name, e in cfg.chosen.items() if e in knobs[name].entities}

        def fit(i: Any, r: Any) -> tuple[int, float]:
            return len(options(i.config)), i.task.flops / min(r.costs)

        best = max(measured, key=lambda m: fit(*m))[0].config
        self.chosen |= options(best)
        for name, entity in best.chosen.items():
            if isinstance(entity, SplitEntity) and name not in options(best):
                self.fallback_split(name, (-1, *entity.size[1:]))
