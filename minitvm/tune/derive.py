"""Derive the sketches of a template by comparing the steps of configurations.

A template is a Python function, and each call takes milliseconds. Most of its knobs only change
numbers in its steps: the factor of a split, the value of a pragma. Such numbers become parameters,
which rows of integers set without a call. Knobs that change the steps themselves (an order, an
annotation, `if cfg["pack"].val:`) give one sketch for each combination of their options.

A number that varies becomes a product of parts of knobs if it equals this product in all compared
configurations; further configurations check the result. If that fails, candidates are made by
calling the template.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import schedule, te, tensor, tir
from minitvm.base import TVMError

from .knob import Ints, knob_of
from .sketch import Parameter, Sketch
from .space import Mask, Rows, Space
from .task import Candidate

MAX_SKETCHES = 64  # if more combinations of options change steps, the template is called
LISTED = 64  # a knob with more options than this, or a split, has only FEW options compared
FEW = 6
DRAWN = 32  # configurations that are drawn, to choose SAMPLES from them
SAMPLES = 5  # configurations that are compared, to find the parameters of a sketch
CHECKS = 2  # further configurations whose steps must equal the steps of the sketch
ROUNDS = 4  # attempts; each one also compares the configurations of earlier checks
DIGITS = re.compile(r"(?<![\w.])\d+")

Row: TypeAlias = tuple[int, ...]
Skeleton: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The schedule and the arguments that a template made from one configuration."""

    taken: te.Schedule
    args: tuple[te.Tensor, ...]

    @property
    def steps(self) -> tuple[schedule.Step, ...]:
        """Return the steps that the template took."""
        return self.taken.steps[len(self.taken.initial.steps) :]


Make: TypeAlias = Callable[[Row], Made]  # raises TVMError if a configuration is not valid


@dataclass(frozen=True, slots=True, eq=False)
class CalledSketch(Sketch):
    """A sketch without parameters: its template is called for each candidate.

    make    returns the schedule of a row of the sketch
    """

    make: Make

    @property
    def traced(self) -> bool:
        """Return False, because the steps of a candidate are known only after a call."""
        return False

    def filled(self, row: Sequence[int]) -> tuple[schedule.Step, ...]:
        """Return the steps of one candidate; () if the template rejects it."""
        schedule_made = _try(self.make, tuple(row))
        return () if schedule_made is None else schedule_made.steps

    def scheduled(self, row: Sequence[int]) -> te.Schedule:
        """Return the schedule of one candidate; TVMError if the template rejects it."""
        return self.make(tuple(row)).taken


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """The sketches of a template.

    classes    for each knob, its options in lists (classes), whose steps differ only in numbers
    sketches   one for each combination of classes; the class of the first knob varies fastest
    """

    sketches: tuple[Sketch, ...]
    classes: tuple[tuple[tuple[int, ...], ...], ...]

    def candidate(self, row: Sequence[int]) -> Candidate:
        """Return the candidate that corresponds to a row of the whole space."""
        number, scale, positions = 0, 1, list[int]()
        for option, lists in zip(row, self.classes, strict=True):
            list_number = next(n for n, options in enumerate(lists) if option in options)
            number += list_number * scale
            scale *= len(lists)
            positions.append(lists[list_number].index(option))
        return Candidate(number, tuple(positions))

    def parts(self, rows: Rows) -> Iterator[tuple[int, Ints, Rows]]:
        """Group rows of the space by sketch; yield (its number, positions in `rows`, its rows)."""
        number, scale = np.zeros(len(rows), np.int64), 1
        positions = np.empty_like(rows)
        for n, lists in enumerate(self.classes):
            list_numbers, position = _lookup(lists)
            number += list_numbers[rows[:, n]] * scale
            scale *= len(lists)
            positions[:, n] = position[rows[:, n]]
        for sketch in np.unique(number).tolist():
            at = np.flatnonzero(number == sketch)
            yield sketch, at, positions[at]

    def row(self, candidate: Candidate) -> Row:
        """Return the row of the whole space that corresponds to a candidate."""
        return tuple(self.rows(candidate.sketch, np.array([candidate.row], np.int32))[0].tolist())

    def rows(self, sketch: int, rows: Rows) -> Rows:
        """Convert rows of a sketch to rows of the whole space."""
        whole, number = np.empty_like(rows), sketch
        for n, lists in enumerate(self.classes):
            number, list_number = divmod(number, len(lists))
            whole[:, n] = np.array(lists[list_number])[rows[:, n]]
        return whole


def _lookup(lists: tuple[tuple[int, ...], ...]) -> tuple[Ints, Ints]:
    """Return, for each option of a knob, the number of its list and its position in the list."""
    count = sum(map(len, lists))
    which, position = np.empty(count, np.int64), np.empty(count, np.int64)
    for n, options in enumerate(lists):
        which[[*options]], position[[*options]] = n, range(len(options))
    return which, position


def derive(name: str, space: Space, first: Made, make: Make, rng: np.random.Generator) -> Derived:
    """Return the sketches of a template with this space; make(row) calls the template.

    first    what the template made while it defined its knobs
    """
    bases = [tuple(r) for r in space.sample(rng, FEW).tolist()]
    base = next((r for r in bases if _try(make, r) is not None), bases[0])
    classes = tuple(_classes(space, knob, base, make) for knob in range(len(space.knobs)))
    count = int(np.prod([len(lists) for lists in classes], dtype=object))
    if count > MAX_SKETCHES:
        return called(name, space, first, make)
    last_first = itertools.product(*(range(len(lists)) for lists in reversed(classes)))
    sketches = list[Sketch]()
    for list_numbers in last_first:
        options = [lists[n] for lists, n in zip(classes, reversed(list_numbers), strict=True)]
        part = _Part(f"{name}.{len(sketches)}", space, tuple(options), first, make)
        sketches.append(traced(part.name, part.space, part.make, rng) or part.called())
    return Derived(tuple(sketches), classes)


def called(name: str, space: Space, first: Made, make: Make) -> Derived:
    """Return a single sketch, which calls the template for each candidate."""
    options = tuple(tuple(range(len(g))) for g in space.knobs)
    part = _Part(f"{name}.0", space, options, first, make)
    return Derived((part.called(),), tuple((all_options,) for all_options in options))


def _try(make: Make, row: Row) -> Made | None:
    try:
        return make(row)
    except TVMError:
        return None


def _classes(space: Space, knob: int, base: Row, make: Make) -> tuple[tuple[int, ...], ...]:
    """Group the options of a knob whose steps differ only in numbers."""
    g = space.knobs[knob]
    all_options = range(len(g))
    is_sampled = g.kind == "split" or len(g) > LISTED
    examined = (
        sorted({round(n) for n in np.linspace(0, len(g) - 1, FEW)}) if is_sampled else all_options
    )
    groups = _grouped(knob, examined, base, make)
    if len(groups) > 1 and len(examined) < len(g) <= LISTED:
        groups = _grouped(knob, all_options, base, make)
    elif len(groups) == 1 or len(examined) < len(g):
        groups = [tuple(all_options)]
    return tuple(groups)


def _grouped(knob: int, options: Sequence[int], base: Row, make: Make) -> list[tuple[int, ...]]:
    groups: dict[Skeleton | None, list[int]] = {}
    for option in options:
        instance = _try(make, (*base[:knob], option, *base[knob + 1 :]))
        groups.setdefault(None if instance is None else skeleton(instance), []).append(option)
    return [tuple(group) for group in groups.values()]


def skeleton(instance: Made) -> Skeleton:
    """Return the formulas and the steps of a template, without the numbers in the steps."""
    formulas = tuple(map(_formula, instance.taken.initial.stages))
    steps = (
        (s.primitive, *(_blank(getattr(s, f.name)) for f in fields(s))) for s in instance.steps
    )
    return formulas, tuple(steps), tuple(a.name for a in instance.args)


def _formula(stage: schedule.Stage) -> tuple[Any, ...]:
    op = stage.op
    body = op.body if isinstance(op, tensor.ComputeOp) else (op,)
    shown = (tir.text(b) if isinstance(b, tir.Expr) else str(b) for b in body)
    axes = getattr(op, "axis", ()), getattr(op, "reduce_axis", ())
    extents = tuple(str(a.extent) for several in axes for a in several)
    return stage.name, stage.is_output, tuple(shown), extents


def _blank(value: Any) -> Any:
    """Return a field of a step without its numbers; a layout is a tuple of strings."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            return "{}"
        case tuple():
            return tuple(DIGITS.sub("{}", text) for text in cast("tuple[str, ...]", value))
        case _:
            return repr(value)


def numbers(step: schedule.Step) -> dict[str, tuple[int, ...]]:
    """Return the numbers in each field of a step."""
    values = dict[str, tuple[int, ...]]()
    for f in fields(step):
        value = getattr(step, f.name)
        if type(value) is int:
            values[f.name] = (value,)
        elif isinstance(value, tuple):
            texts = "\n".join(cast("tuple[str, ...]", value))
            values[f.name] = tuple(map(int, DIGITS.findall(texts)))
    return values


class TraceError(TVMError):
    """Raised if no sketch can describe the steps of a template."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A part of a space, with some options of each knob; one sketch may describe it."""

    name: str
    whole: Space
    options: tuple[tuple[int, ...], ...]
    first: Made
    call: Make

    @property
    def space(self) -> Space:
        knobs = tuple(
            g
            if len(options) == len(g)
            else knob_of(g.name, [g.options[n] for n in options], g.kind)
            for g, options in zip(self.whole.knobs, self.options, strict=True)
        )
        return Space(knobs, None if self.whole.allowed is None else self.allowed)

    def allowed(self, rows: Rows) -> Mask:
        columns = [np.array(options)[rows[:, n]] for n, options in enumerate(self.options)]
        return self.whole.legal(np.stack(columns, axis=1).astype(np.int32))

    def make(self, row: Row) -> Made:
        """Call the template for a row of this part."""
        return self.call(tuple(options[n] for options, n in zip(self.options, row, strict=True)))

    def called(self) -> CalledSketch:
        """Return a sketch that calls the template for each row."""
        args, start = self.first.args, self.first.taken.initial
        return CalledSketch(self.name, args, start, (), (), self.space, self.make)


def traced(name: str, space: Space, make: Make, rng: np.random.Generator) -> Sketch | None:
    """Return the sketch whose candidates have the steps of make(row), or None if that fails.

    The steps of a few rows are compared. Rows may change the numbers in the steps, not the steps.
    """
    instances, rows = list[Made](), _samples(space, space.sample(rng, DRAWN))
    try:
        for _ in range(ROUNDS):
            rows += [tuple(r) for r in space.sample(rng, CHECKS).tolist()]
            instances += [make(r) for r in rows[len(instances) :]]
            sketch = _with_parameters(name, space, rows[:-CHECKS], instances[:-CHECKS])
            checks = zip(rows[-CHECKS:], instances[-CHECKS:], strict=True)
            if all(sketch.filled(row) == m.steps for row, m in checks):
                return sketch
    except TVMError:
        pass
    return None


def _with_parameters(name: str, space: Space, rows: list[Row], instances: list[Made]) -> Sketch:
    """Return the sketch with a parameter for each number that differs; TraceError if that fails."""
    if len({skeleton(m) for m in instances}) != 1:  # no skeleton, or several
        raise TraceError("sketch")
    known = list(_products(space, np.array(rows, np.int32)))
    steps, parameters = list(instances[0].steps), list[Parameter]()
    for at, same_steps in enumerate(zip(*(m.steps for m in instances), strict=True)):
        fields_of = [numbers(s) for s in same_steps]
        for field in fields_of[0]:
            columns = list(zip(*(n[field] for n in fields_of), strict=True))
            varied_columns = {c for c in columns if len(set(c)) > 1}
            if not varied_columns:
                continue
            if len(varied_columns) > 1:
                raise TraceError("sketch")
            values = varied_columns.pop()
            parameters.append(Parameter(at, field, _explained(values, known)))
            marks = [c == values for c in columns]
            steps[at] = replace(steps[at], **{field: _marked(getattr(steps[at], field), marks)})
    return Sketch(
        name, instances[0].args, instances[0].taken.initial, tuple(steps), tuple(parameters), space
    )


def _marked(value: Any, marks: list[bool]) -> Any:
    """Put {} in place of each marked number in a string field; return other fields unchanged."""
    if isinstance(value, int):
        return value
    left = iter(marks)
    return tuple(DIGITS.sub(lambda m: "{}" if next(left) else m[0], v) for v in value)


Parts: TypeAlias = tuple[tuple[int, int], ...]


def _products(space: Space, rows: Rows) -> Iterator[tuple[Parts, tuple[int, ...]]]:
    """Yield the products of neighbouring parts of each knob, innermost first, with their values.

    Leaves out the outermost part of a split if it may be -1, "as many iterations as needed".
    """
    for n, knob in enumerate(space.knobs):
        if knob.kind == "choice":
            continue
        values, count = space.values(rows, n), knob.values.shape[1]
        first = 1 if knob.kind == "split" and (knob.values[:, 0] < 0).any() else 0
        for end in range(count, first, -1):
            for begin in range(end - 1, first - 1, -1):
                product = np.multiply.reduce(values[:, begin:end], axis=1)
                yield tuple((n, p) for p in range(begin, end)), tuple(product.tolist())


def _samples(space: Space, rows: Rows) -> list[Row]:
    """Choose a few of `rows` in which each product varies and no two products are always equal."""
    products = np.array([values for _, values in _products(space, rows)], np.int64)
    if not products.size:
        return [tuple(r) for r in rows[:SAMPLES].tolist()]
    alike, chosen = np.unique(products[:, 0], return_inverse=True)[1], [0]
    varied = np.zeros(len(products), np.bool_)
    for _ in range(min(SAMPLES, len(rows)) - 1):
        groups = [np.unique(alike << 32 | column, return_inverse=True)[1] for column in products.T]
        changes = varied[:, None] | (products != products[:, :1])
        differences = np.array([int(g.max()) for g in groups]) + np.count_nonzero(changes, axis=0)
        chosen.append(int(differences.argmax()))
        alike, varied = groups[chosen[-1]], changes[:, chosen[-1]]
    return [tuple(r) for r in rows[chosen].tolist()]


def _explained(values: tuple[int, ...], known: list[tuple[Parts, tuple[int, ...]]]) -> Parts:
    """Return parts of one knob or of two knobs whose product gives `values`."""
    for parts, product in known:
        if product == values:
            return parts
    for (a, x), (b, y) in itertools.combinations(known, 2):
        if a[0][0] != b[0][0] and all(p * q == v for p, q, v in zip(x, y, values, strict=True)):
            return (*a, *b)
    raise TraceError("sketch")
