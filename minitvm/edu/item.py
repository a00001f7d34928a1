"""The records of an exercise: items, their parts, and the outcome of checking one.

An item asks for one function of a fixed name. Each of its parts checks one aspect:

    correctness   does it compute the right thing?       40 %, required for the rest
    property      misses, cycles, facts of the loops     40 %, deterministic
    speed         wall clock against a reference         20 %, a ratio within one process
"""

from __future__ import annotations

import copy
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from minitvm import driver, te, tir, topi, vta
from minitvm.base import ArgumentError, TVMError, as_tuple

Rng: TypeAlias = np.random.Generator
Kind: TypeAlias = Literal["correctness", "property", "speed"]
Status: TypeAlias = Literal["passed", "failed", "not started", "inconclusive", "skipped"]

# the names that the source of a problem may use, in the grader and in the student's process
VOCABULARY: dict[str, Any] = {
    "np": np, "te": te, "tir": tir, "topi": topi, "vta": vta,
    "lower": driver.lower, "build": driver.build,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of checking one part.

    score      0 .. 1
    message    an id for tests and statistics, such as "wrong-value" or "too-many-misses"
    expected   what was expected; `got`: what the answer gave instead; both as short texts
    where      the first difference: indices, a line or a case
    why        the usual cause of this failure
    case       the call or program that was checked
    value      what a challenge counts, such as cache misses
    """

    status: Status
    score: float
    message: str = ""
    expected: str = ""
    got: str = ""
    where: str = ""
    why: str = ""
    case: str = ""
    value: float | None = None


PASSED = Outcome("passed", 1.0)


def failed(
    message: str, expected: str = "", got: str = "", *, where: str = "", why: str = "",
    case: str = "", score: float = 0.0,
) -> Outcome:  # fmt: skip
    """Return the outcome of a part that failed, or was only partly right: 0 <= score < 1."""
    return Outcome("failed", score, message, expected, got, where, why, case)


class AnswerError(TVMError):
    """Raised if the student's function gives no usable answer; args: message id, reason."""


class StartError(Exception):
    """Raised if a process behind the wall does not start, which is not the student's fault."""


class Picture(Protocol):
    """What can be shown as text and as a picture, such as every widget of viz."""

    def ascii(self) -> str: ...
    def svg(self) -> str: ...
    def png(self) -> bytes: ...


class Answer(Protocol):
    """A call of the student's function that returns data; grading runs it in another process.

    Arguments are plain data, arrays and problems. A schedule that the function returns is replayed
    on the grader's own copy of the problem. Raises AnswerError if there is no usable result.
    """

    def __call__(self, *arguments: Any) -> Any: ...


Check: TypeAlias = Callable[[Answer, Rng], Outcome]


@dataclass(frozen=True, slots=True)
class Part:
    """One check of an item; its share of the points is `weight` / the sum of all weights.

    required   whether later parts are skipped if this one fails, as after a "correctness" part
    """

    kind: Kind
    title: str
    weight: float
    check: Check
    required: bool = False


def required(part: Part) -> Part:
    """Return a copy of the part with required=True: if it fails, later parts are skipped."""
    return replace(part, required=True)


@dataclass(frozen=True, slots=True)
class Item:
    """One question with one answer: the function called `answer`.

    parts     in the order of checking; a failed correctness part stops the rest
    hints     hints, from small to nearly the answer; a graded item has three
    section   what to read, for example "notebook 03, section 2"
    """

    id: str
    title: str
    points: float
    answer: str
    parts: tuple[Part, ...]
    hints: tuple[str, ...]
    section: str

    @property
    def grade_id(self) -> str:
        """The id for nbgrader, without dots: for example, ex03-2."""
        return self.id.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A function in a notebook that lacks one line. It is for practice and earns no points.

    answer      the name of the function. For a schedule it takes `s` and any tensors of the problem
                by their names, and changes `s`: def one_miss_a_line(s, B)
    parts       what must hold, as for an item
    example     draws the arguments for the picture and for the cost. An answer that is wrong, but
                right there, is drawn for arguments of the parts
    reference   the function with its line, which is drawn before the student has written one
    of          "schedule", or "value" for a function that gets all arguments and returns something
    picture     picture(value, tensors or arguments) returns what to show; cost() returns a number
    """

    id: str
    title: str
    answer: str
    parts: tuple[Part, ...]
    example: Callable[[Rng], tuple[Any, ...]]
    reference: Callable[..., Any]
    hints: tuple[str, ...]
    section: str
    of: Literal["schedule", "value"] = "schedule"
    picture: Callable[[Any, Sequence[Any]], Picture] | None = None
    cost: Callable[[Any, Sequence[Any]], float] | None = None
    unit: str = "cache misses"

    @property
    def item(self) -> Item:
        """The puzzle as an item without points."""
        return Item(self.id, self.title, 0, self.answer, self.parts, self.hints, self.section)

    @property
    def has_one_answer(self) -> bool:
        """Whether the parts ask only for the reference's value, so no answer is a better one."""
        return self.of == "value" and all(part.kind == "correctness" for part in self.parts)


@dataclass(frozen=True, slots=True)
class Challenge:
    """An open question: a right answer has a value, such as cycles, and a better one has a better.

    score        score(answer, rng) draws an instance and returns the value of a right answer, a
                 positive number, or the outcome of a wrong one. Notebooks show one instance,
                 leaderboards others
    stub         the function as students get it, `reference` a good one
    best_known   the best value that we know for the instance of notebooks
    minutes      an estimate for a student who has done the exercise
    """

    id: str
    title: str
    answer: str
    unit: str
    score: Callable[[Answer, Rng], float | Outcome]
    stub: Callable[..., Any]
    reference: Callable[..., Any]
    best_known: float
    hints: tuple[str, ...]
    section: str
    lower_is_better: bool = True
    minutes: int = 45

    @property
    def item(self) -> Item:
        """The challenge as an item without points; the outcome of its part has the value."""
        part = Part("property", self.unit, 1.0, self.check)
        return Item(self.id, self.title, 0, self.answer, (part,), self.hints, self.section)

    def check(self, answer: Answer, rng: Rng) -> Outcome:
        """Score an answer twice on the same instance; two different values are a failure."""
        again = copy.deepcopy(rng)
        first = self.score(answer, rng)
        if isinstance(first, Outcome):
            return first
        second = self.score(answer, again)
        if isinstance(second, Outcome):
            return second
        if first != second:
            expected, got = f"the same {self.unit} again", f"{first} and {second}"
            why = "random numbers come from a seed, and nothing is kept between two calls"
            return failed("not-deterministic", expected, got, why=why)
        return replace(PASSED, value=first)

    def value_of(self, answer: Callable[..., Any], rng: Rng) -> float:
        """Return the value of a function of ours; raise ArgumentError if it is wrong."""
        value = self.score(lambda *arguments: answer(*expanded(arguments)), rng)
        if isinstance(value, Outcome):
            raise ArgumentError(f"{self.id}: {answer.__name__}", f"{value.got}: {value.expected}")
        return float(value)

    def rating(self, value: float, stub: float, reference: float) -> float:
        """Return 0 for a value that is no better than the stub's, and 100 for the reference's.

        The rating is linear in the logarithm, so equal ratios are worth the same: with 8000 misses
        for the stub and 2000 for the reference, 4000 misses are worth 50. Values are positive.
        """
        return max(0.0, 100 * math.log(stub / value) / math.log(stub / reference))


@dataclass(frozen=True, slots=True)
class Exercise:
    """The items of one notebook, whose file is `id`_`name`.ipynb, and what is not graded."""

    id: str
    name: str
    items: tuple[Item, ...]
    puzzles: tuple[Puzzle, ...] = ()
    challenge: Challenge | None = None

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)

    @property
    def stem(self) -> str:
        """The file name without suffix, for example ex03_split_tile_reorder."""
        return f"{self.id}_{self.name}"

    @property
    def ungraded(self) -> tuple[Item, ...]:
        """The puzzles and the challenge, as items without points."""
        challenges = (self.challenge,) if self.challenge else ()
        return tuple(x.item for x in (*self.puzzles, *challenges))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Arguments of a student's function that are built twice: here and in the student's process.

    values   the tensors, loop programs and tensor intrinsics that the function `name` in `source`
             returned for `arguments`. They are passed to the student's function in this order.
    """

    source: str
    name: str
    arguments: tuple[Any, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Plain data that the student's function must not change."""

    value: Any


class ChangedError(Exception):
    """Raised if the student's function changed an argument that is Kept."""


def expanded(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments, with each problem replaced by the values in Problem.values."""
    values: list[Any] = []
    for a in arguments:
        values += a.values if isinstance(a, Problem) else [a]
    return values


def called(f: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call the student's function with the values of problems, and with copies of what is Kept."""
    plain = [copy.deepcopy(a.value) if isinstance(a, Kept) else a for a in expanded(arguments)]
    value = f(*plain)
    for a, after in zip(expanded(arguments), plain, strict=True):
        before = a.value if isinstance(a, Kept) else after
        if before is not after and before != after:
            raise ChangedError(f"its argument {before} was {after} after the call")
    return value


def problem(builder: Callable[..., Any], *arguments: Any) -> Problem:
    """Call builder(*arguments), and keep its source so that the student's process can repeat it.

    The builder is a plain function at the top level of a file of checks. It may use its arguments
    and the names np, te, tir, topi, vta, lower and build; `arguments` are plain data.
    """
    if "<locals>" in builder.__qualname__ or builder.__name__ == "<lambda>":
        raise ArgumentError(f"problem({builder.__qualname__})", "not at the top level of a file")
    source = textwrap.dedent(inspect.getsource(builder))
    values = values_of(source, builder.__name__, arguments)
    return Problem(source, builder.__name__, arguments, values)


def values_of(source: str, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call the function `name` in `source` with only the names in VOCABULARY; return a tuple."""
    scope = dict(VOCABULARY)
    exec(compile(source, f"problem {name}", "exec"), scope)
    return as_tuple(scope[name](*arguments))
