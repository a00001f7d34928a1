"""States: schedules with open tile sizes, from which sketches are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import NamedTuple, Self, TypeAlias

from minitvm import schedule, te, tensor, tune

from . import text

LEVELS = 4  # how many loops a data axis is split into: S S _ S _ S (a reduce axis: 2 loops)
LONGEST = 64  # the most iterations of an innermost loop
RICH = 6  # if this many innermost sizes divide the length, other sizes are not offered
WASTE = 1.3  # the most iterations of loops that do not divide the length, relative to the length
UNEVEN = range(1, 15)  # innermost sizes that need not divide the length, in vectors or iterations
FEW = (1, 2, 4)  # iterations of the two loops around such an innermost loop


class Tiles(NamedTuple):
    """The loops of a tiled stage.

    spatial   the knobs of the data axes; None for an axis of one iteration
    levels    data loops, outermost level first, of the stage that writes the result; the last level
              has the innermost data loops of the tiled stage itself
    host      the stage that writes the result: a consumer, in whose loops of level `level` the
              tiled stage is computed; or the tiled stage itself, with level 0
    inner     the loops in a register tile of the tiled stage
    copied    the consumer's loops over the elements of one tile; () without a consumer
    """

    spatial: tuple[int | None, ...]
    levels: tuple[tuple[tensor.Axis, ...], ...]
    host: str
    level: int
    inner: tuple[tensor.Axis, ...]
    copied: tuple[tensor.Axis, ...]


Decide: TypeAlias = "Callable[[tuple[int, ...]], State]"


class State:
    """A schedule with open tile sizes: what sketch rules rewrite.

    s       the schedule; it has an example in place of each open size
    knobs   the open decisions; parameters: the fields of steps that they set
    rules   the names of the rules that were applied
    names   how sketches print a loop and its extent: "i.0", "TILE_I0"
    tiles   the loops of tiled stages
    choices the decisions that rules have made, such as "level 2"
    layouts the layouts with open sizes, by the number of the step
    shaping the knobs that decide formulas or steps, not only numbers in steps
    decide  decide(options of all knobs that are choices) returns the state with these decisions;
            None before annotation. The steps of an annotated state are those of the first options
    Rules must change copies of a state, not the state itself.
    """

    def __init__(self, initial: schedule.State) -> None:
        self.s = te.Schedule(initial)
        self.initial = initial
        self.knobs: tuple[tune.Knob, ...] = ()
        self.parameters: tuple[tune.Parameter, ...] = ()
        self.rules: tuple[str, ...] = ()
        self.names: dict[tensor.Axis, tuple[str, str]] = {}
        self.tiles: dict[str, Tiles] = {}
        self.choices: tuple[str, ...] = ()
        self.layouts: dict[int, tuple[str, ...]] = {}
        self.shaping: frozenset[int] = frozenset()
        self.decide: Decide | None = None

    def copy(self) -> Self:
        """Return a copy with the same knobs."""
        new = type(self)(self.initial)
        new.s = te.Schedule(self.s.state)
        new.knobs, new.parameters, new.rules = self.knobs, self.parameters, self.rules
        new.names, new.tiles = dict(self.names), dict(self.tiles)
        new.choices, new.layouts = self.choices, dict(self.layouts)
        new.shaping, new.decide = self.shaping, self.decide
        return new

    def decided(self, row: Mapping[int, int] | Sequence[int]) -> State:
        """Return the state with the decisions of a row: the option of each knob by its number."""
        choices = (n for n, knob in enumerate(self.knobs) if knob.kind == "choice")
        return self.decide(tuple(row[n] for n in choices)) if self.decide else self

    @property
    def stages(self) -> list[str]:
        """Return the names of all stages, producers first."""
        return [s.name for s in self.s.state.stages]

    def op(self, stage: str) -> tensor.ComputeOp:
        """Return the operation of a stage that is a te.compute."""
        op = self.s.state.stage(stage).op
        assert isinstance(op, tensor.ComputeOp)
        return op

    def knob(self, knob: tune.Knob) -> int:
        """Add a knob, or find the knob of the same name, and return its number."""
        for n, known in enumerate(self.knobs):
            if known.name == knob.name:
                return n
        self.knobs = (*self.knobs, knob)
        return len(self.knobs) - 1

    def open(self, field: str, *parts: tuple[int, int]) -> None:
        """Make a field of the last step a parameter: the product of `parts`, (knob, part)."""
        step = len(self.s.steps) - len(self.initial.steps) - 1
        self.parameters = (*self.parameters, tune.Parameter(step, field, parts))

    def split(
        self, stage: str, axis: tensor.Axis, knob: int, parts: Sequence[Sequence[int]]
    ) -> list[tensor.Axis]:
        """Split a loop by parts of a knob; each new loop has the product of its parts as size.

        state.split("C", i, 0, [(0,), (1,), (2, 3)])    three loops, the last one of size 2 x 3
        """
        loops, rest = list[tensor.Axis](), axis
        values = self.knobs[knob].values[0]
        for n in range(1, len(parts)):
            inner = [p for several in parts[n:] for p in several]
            factor = math.prod(int(values[p]) for p in inner)
            outer, rest = self.s[stage].split(rest, factor=factor)
            self.open("factor", *((knob, p) for p in inner))
            loops.append(outer)
        loops.append(rest)
        return loops

    def split_inner(self, stage: str, axis: tensor.Axis, part: tuple[int, int]) -> tensor.Axis:
        """Split a loop by one factor, part[1] of the knob part[0]; return the inner loop."""
        _, inner = self.s[stage].split(axis, factor=int(self.knobs[part[0]].values[0][part[1]]))
        self.open("factor", part)
        return inner

    def store_panels(self, stage: str, dimension: int, width: tuple[int, int]) -> None:
        """Store a stage as panels along a dimension: [k, j] as [j // w, k, j % w].

        width   the part (knob, part) that is `w`
        """
        names = tuple(f"d{n}" for n in range(len(self.op(stage).axis)))
        axis_name = names[dimension]
        others = (n for n in names if n != axis_name)
        layout = (axis_name + " // {}", *others, axis_name + " % {}")
        size = str(self.knobs[width[0]].values[0][width[1]])
        example = tuple(e.replace("{}", size) for e in layout)
        self.s.apply(schedule.TransformLayout(stage, names, example))
        self.open("layout", width)
        self.layouts[self.parameters[-1].step] = layout

    def filled_by(self, sketch: tune.Sketch) -> Self:
        """Return a copy with all steps and parameters of a sketch of the same formulas.

        No decision is left to annotate in the copy.
        """
        new = self.copy()
        for step in sketch.filled([0] * len(sketch.space.knobs)):
            new.s.apply(step)
        new.knobs, new.parameters, new.decide = sketch.space.knobs, sketch.parameters, lambda _: new
        new.layouts = {
            parameter.step: step.layout
            for parameter in sketch.parameters
            if isinstance(step := sketch.steps[parameter.step], schedule.TransformLayout)
        }
        return new

    def sketch(self, name: str, args: Sequence[tensor.Tensor]) -> DecidedSketch:
        """Return the sketch of this state: steps, parameters, and the space of open decisions."""
        steps = self.open_steps()
        space = tune.Space(self.knobs, shaping=tuple(sorted(self.shaping)))
        return DecidedSketch(name, tuple(args), self.initial, steps, self.parameters, space, self)

    def open_steps(self) -> tuple[schedule.Step, ...]:
        """Return the steps since the initial state; layouts with parameters have "{}" in them."""
        steps = list(self.s.steps[len(self.initial.steps) :])
        for n, layout in self.layouts.items():
            steps[n] = replace(steps[n], layout=layout)  # pyright: ignore[reportCallIssue]
        return tuple(steps)

    def program(self, row: Sequence[int]) -> Self:
        """Return a copy in which the options of `row` replace all open sizes."""
        new, decided_state = type(self)(self.initial), self.decided(row)
        new.rules, new.choices = self.rules, self.choices
        for step in self.sketch("", ()).filled(row):
            new.s.apply(step)
        for old, new_stage in zip(decided_state.s.state.stages, new.s.state.stages, strict=True):
            axes = {name: a for a, name in new_stage.names.items()}
            shown = {a: decided_state.names[a] for a in old.names if a in decided_state.names}
            new.names |= {axes[old.names[a]]: names for a, names in shown.items()}
        return new

    def _factors(self) -> dict[tuple[str, str], str]:
        """Return how to print the open fields of steps, by stage and loop or pragma."""
        factors = dict[tuple[str, str], str]()
        steps = self.s.steps[len(self.initial.steps) :]
        for parameter in self.parameters:
            step, shown = steps[parameter.step], list[str]()
            for n, part in parameter.parts:
                number = part if self.knobs[n].kind == "split" else ""
                shown.append(f"{self.knobs[n].name}{number}".upper())
            key = step.key if isinstance(step, schedule.Pragma) else getattr(step, "axis", "")
            factors[step.stage, key] = " * ".join(shown)
        return factors

    def __str__(self) -> str:
        return text.program(self.s.state, self.names, self._factors() if self.knobs else None)


@dataclass(frozen=True, slots=True, eq=False)
class DecidedSketch(tune.Sketch):
    """A sketch whose knobs also decide which steps there are.

    source   gives the steps of other decisions; `steps` are those of the first options
    """

    source: State

    def fixed(self, options: Mapping[int, int]) -> tune.Sketch:
        """Return the sketch of the rows with these options, among them all of space.shaping."""
        new = self.source.decided(options)
        steps, parameters = new.open_steps(), new.parameters
        return tune.Sketch(self.name, self.args, self.initial, steps, parameters, self.space).fixed(
            options
        )

    def filled(self, row: Sequence[int]) -> tuple[schedule.Step, ...]:
        """Return the steps of one candidate."""
        return self.fixed(dict(enumerate(row))).steps


@cache
def data_knob(name: str, length: int, lanes: int) -> tune.Knob:
    """Return the ways to split a data axis into four loops (GetFactorizationSchemes).

    The innermost loop has at most 64 iterations. If few of its sizes divide the length, other sizes
    are offered too; then the last tile is cut off.

    lanes   the lanes of a vector if the innermost loop will be vectorized, otherwise 1; sizes that
            do not divide the length are multiples of it
    """
    options = list(tune.split_knob(name, length, LEVELS, innermost=LONGEST).options)
    if len({o[-1] for o in options if o[-1] % lanes == 0}) < RICH:
        options += _uneven(length, [lanes * n for n in UNEVEN if lanes * n <= LONGEST])
    return tune.sizes_knob(name, options)


@cache
def sum_knob(name: str, length: int) -> tune.Knob:
    """Return the ways to split a reduce axis into two loops."""
    return tune.split_knob(name, length, 2)


def _uneven(length: int, inner: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield splits into four loops that do not divide `length` and waste little."""
    for size, a, b in product(inner, FEW, FEW):
        whole = a * b * size
        iterations = -(-length // whole) * whole
        if length % whole and iterations <= max(WASTE * length, inner[0]):
            yield (-1, a, b, size)
