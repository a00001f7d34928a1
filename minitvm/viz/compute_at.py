"""ComputeAtSlider: how compute_at trades storage against recomputation and locality."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import accesses, cachesim, te, tensor
from minitvm.base import ArgumentError, TVMError

from .blocks import check_schedule, code_links, nest_of
from .boxes import Box, block, column, framed, indented, paragraph, row, sized, text
from .cache_lens import SMALL
from .cache_run import cache_text, check_cache
from .controls import CodeLine, Layout, Panel, Slider, index_in
from .figure import Figure
from .nest import nest_box
from .scene import Scene, marked

NEST, TABLE = 390, 466  # pixels: the widths of the loops and of the table
NAME, COST, BAR = 104, 100, 50  # pixels: the widths of columns, and of the longest bar
COLUMNS = (("bytes kept", "orange"), ("computed", "sky"), ("distance", "pink"))
ABOUT = "distance: other elements touched from the store to the first use"
MAX_EVENTS = 10_000_000  # most accesses and iterations of a recorded run


@dataclass(frozen=True, slots=True, eq=False)
class PlaceCosts:
    """The costs of computing the producer at one place.

    name       "root", "inline", or the loop of the consumer in which the producer is computed
    depth      the depth of that loop; 0 is the outermost
    bytes      the size of the producer's buffer
    recompute  how often each value is computed on average; 1 if nothing is computed twice
    distance   mean number of other elements accessed between the store and first use of a value
    misses     the misses of the whole program in the simulated cache
    """

    name: str
    depth: int
    schedule: te.Schedule
    bytes: int
    recompute: Fraction
    distance: float
    misses: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A place where the producer cannot be computed, and the reason."""

    name: str
    depth: int
    reason: str


class ComputeAtSlider(Figure):
    """Move a producer through the loops of its consumer, and compare the costs of each place.

    The slider goes from root (compute the whole producer first) through each loop of the consumer
    to inline (compute a value at each use). For each place, bars show the bytes of the buffer, how
    often a value is computed on average, and how many other elements are accessed between its store
    and its first use. The producer's loops are yellow. Illegal places are listed with the reason.
    `schedule` has the producer at the chosen place.

    producer, consumer   stages: tensors, operations or names
    cache                the simulated cache that counts the misses of the whole program
    """

    def __init__(
        self, s: te.Schedule, producer: Any, consumer: Any, cache: cachesim.Cache = SMALL
    ) -> None:
        check_schedule("ComputeAtSlider", s)
        self._producer, self._consumer = s[producer].name, s[consumer].name
        self._cache = check_cache(cache)
        self.places, self.refusals = places(s, self._producer, self._consumer, cache)
        self._now = 0
        super().__init__()

    @property
    def schedule(self) -> te.Schedule:
        """The schedule with the producer at the chosen place."""
        return self.places[self._now].schedule

    def title(self) -> str:
        return f"{self._producer} for {self._consumer}"

    def scene(self) -> Scene:
        """Draw the body, with the loops of the producer marked."""
        owners = nest_of(self.schedule).owners.items()
        return marked(
            super().scene(), {k: "now" for k, owner in owners if owner[0] == self._producer}
        )

    def body(self) -> Box:
        """Draw the loops on the left, and the costs of all places as bars on the right."""
        heads = [("computed at", NAME), *((name, COST) for name, _ in COLUMNS)]
        head = row(*(sized(text(name, bold=True), wide) for name, wide in heads), gap=0)
        misses = text("misses", bold=True, width=TABLE - 12 - head.width, anchor="end")
        refusal_lines = (f"not {r.name}: {r.reason}" for r in self.refusals)
        notes = [*refusal_lines, ABOUT, "bars grow with the square root"]
        table = column(
            indented(row(head, misses, gap=0), 8),
            column(*(self._row(n) for n in range(len(self.places))), gap=2),
            column(*(paragraph(note, TABLE - 8, "soft") for note in notes), gap=1),
        )
        loops = nest_box(nest_of(self.schedule), NEST)
        return column(text(self.title(), size=13, bold=True), row(loops, table, gap=14))

    def _row(self, n: int) -> Box:
        """Draw one place: its name, three bars with numbers, its misses."""
        place, is_current, indent = self.places[n], n == self._now, 8 * min(self.places[n].depth, 4)
        name = text(place.name, mono=True, bold=is_current, width=NAME - 4 - indent)
        most = [max(costs) for costs in zip(*map(_costs_of, self.places), strict=True)]
        size = str(place.bytes) if place.bytes < 10_000 else f"{place.bytes / 1024:.3g}k"
        words = size, f"{float(place.recompute):.3g}×", few_digits(place.distance)
        bars = [
            row(block(kind, BAR * share(cost, high), 13), text(shown), gap=4)
            for cost, high, shown, (_, kind) in zip(
                _costs_of(place), most, words, COLUMNS, strict=True
            )
        ]
        costs = row(sized(indented(name, indent), NAME), *(sized(b, COST) for b in bars), gap=0)
        misses = text(str(place.misses), width=TABLE - 12 - costs.width, anchor="end")
        parts = indented(row(costs, misses, gap=0), 4)
        return framed(parts, "line" if is_current else "paper", f"place:{n}", width=TABLE)

    def ascii(self) -> str:
        """Return one line of text per place; * marks the chosen place."""
        head = f"{self._producer} for {self._consumer}, misses in {cache_text(self._cache)}"
        titles = f"  {'place':18}{'bytes':>9}{'computed':>10}{'distance':>10}{'misses':>9}"
        lines = [head, "", titles]
        for n, p in enumerate(self.places[:16]):
            mark, name = "*" if n == self._now else " ", ("  " * p.depth + p.name)[:17]
            lines.append(
                f"{mark} {name:18}{p.bytes:>9}{float(p.recompute):>10.3g}"
                f"{few_digits(p.distance):>10}{p.misses:>9}"
            )
        refusal_lines = [f"not {r.name}: {r.reason}" for r in self.refusals]
        return "\n".join([*lines, *refusal_lines[:6]])

    def layout(self) -> Layout:
        nest = nest_of(self.schedule)
        producer_lines = {  # the lines of the producer: its loops, and its stores without loops
            n
            for b in nest.all()
            if nest.owners.get(b.key, ("",))[0] == self._producer
            or b.label.startswith(f"{self._producer}[")
            for n in range(b.first, b.last + 1)
        }
        lines = tuple(
            CodeLine(text, f"line:{n}", "now" if n in producer_lines else "")
            for n, text in enumerate(nest.lines)
        )
        steps = tuple(map(CodeLine, self.schedule.python().split("\n")))
        last = len(self.places) - 1
        return Layout(
            controls=(Slider("place", "place", 0, last, self._now),) if last else (),
            links=code_links(nest),
            panels=(Panel("loops", lines), Panel("schedule", steps)),
            selectable="place:",
        )

    def on(self, name: str, value: Any) -> str | None:
        """Choose another place, with the slider or by a click on its row."""
        number = index_in(value, "place", len(self.places)) if name == "click" else value
        if number is None:
            return None
        self._now, p = number, self.places[number]
        where = {"root": "at root, before all that reads it", "inline": "inline, at each use"}
        return (
            f"{self._producer} {where.get(p.name, f'in loop {p.name} of {self._consumer}')}: "
            f"it keeps {p.bytes} bytes, computes each value {float(p.recompute):.3g} times, "
            f"touches {few_digits(p.distance)} other elements between store and first use; "
            f"{p.misses} misses in all"
        )


def _costs_of(p: PlaceCosts) -> tuple[float, float, float]:
    """Return the costs that have bars."""
    return float(p.bytes), float(p.recompute), p.distance


def share(value: float, most: float) -> float:
    """Return sqrt(value / most), a bar's relative length, so that small values are visible."""
    return math.sqrt(value / most) if most else 0.0


def few_digits(n: float) -> str:
    """Return a number with three digits and no exponent: 24312.7 -> 24300, 38.24 -> 38.2"""
    return f"{n:.3g}" if n < 999.5 else f"{float(f'{n:.3g}'):.0f}"


# --- what each place costs -----------------------------------------------------------------------


def places(
    s: te.Schedule, producer: str, consumer: str, cache: cachesim.Cache = SMALL
) -> tuple[tuple[PlaceCosts, ...], tuple[Refusal, ...]]:
    """Compute the producer at each place; return the costs of legal places, and the refusals.

    Raises ArgumentError if a stage has no loops to schedule, or the producer is the consumer.
    """
    if producer == consumer:
        why = "both are the same stage"
        raise ArgumentError(f"ComputeAtSlider(s, {producer}, {consumer})", why, "two stages")
    for name in (producer, consumer):
        if not isinstance(s[name].op, tensor.ComputeOp):
            why = "the stage has no loops to schedule"
            raise ArgumentError(f"ComputeAtSlider: {name}", why, "a te.compute")
    stage = s.state.stage(consumer)
    names = list(stage.loops)
    legal: list[PlaceCosts] = []
    refusals: list[Refusal] = []
    uses = Fraction(0)
    for name, depth in [("root", 0), *zip(names, range(len(names)), strict=True), ("inline", 0)]:
        try:
            new = placed(s, producer, consumer, name)
            trace = accesses.record(new, limit=MAX_EVENTS)
        except TVMError as e:
            if name == "root":
                raise
            refusals.append(Refusal(name, depth, str(e.args[1] or e.args[0])))
            continue
        if name == "root":
            loads = trace.index[_uses(trace, producer)]
            uses = Fraction(len(loads), max(1, len(np.unique(loads))))
        legal.append(_costs(name, depth, new, trace, producer, cache, uses))
    return tuple(legal), tuple(refusals)


def placed(s: te.Schedule, producer: str, consumer: str, place: str) -> te.Schedule:
    """Return a copy of the schedule with the producer at "root", "inline", or a named loop."""
    new = s.copy()
    if place == "root":
        new[producer].compute_root()
    elif place == "inline":
        new[producer].compute_inline()
    else:
        axis = next(a for a, n in new.state.stage(consumer).names.items() if n == place)
        new[producer].compute_at(new[consumer], axis)
    return new


def _costs(
    name: str,
    depth: int,
    s: te.Schedule,
    trace: accesses.AccessTrace,
    producer: str,
    cache: cachesim.Cache,
    uses: Fraction,
) -> PlaceCosts:
    """Return the costs of the place `name`; inlining computes each value `uses` times.

    uses   how often other stages load an element, on average
    """
    misses = cachesim.simulate(cache, trace).misses
    if name == "inline":
        return PlaceCosts(name, depth, s, 0, uses, 0.0, misses)
    report = s.explain()[producer]
    if report.recompute is None or report.bytes is None:
        why = "the number of its computations is not known"
        raise ArgumentError(f"ComputeAtSlider: {producer}", why, "constant sizes")
    last = cachesim.previous(trace, 1)
    first = _uses(trace, producer) & (last >= 0)  # the loads whose element was stored just before
    first[first] = trace.write[last[first]]
    distance = float(cachesim.reuse_distances(trace, 1)[first].mean()) if first.any() else 0.0
    return PlaceCosts(name, depth, s, report.bytes, report.recompute, distance, misses)


def _uses(trace: accesses.AccessTrace, producer: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the accesses in which other stages load from the producer's buffer."""
    producer_lines = {p.line for p in trace.sites if p.write and p.buffer.name == producer}
    loads = np.array([not p.write and p.line not in producer_lines for p in trace.sites])
    buffers = np.array([b.name == producer for b in trace.buffers])
    return buffers[trace.buffer] & loads[trace.site]
