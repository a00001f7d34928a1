"""The records of an exercise: items, their parts, and the outcome of checking one.

An item asks for one function of a fixed name. Each of its parts checks one aspect:

    correctness   does it compute the right thing?       40 %, required for the rest
    property      misses, cycles, facts of the loops     40 %, deterministic
    speed         wall clock against a reference         20 %, a ratio within one process
"""

from __future__ import annotations

import copy
import inspect
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
    """

    status: Status
    score: float
    message: str = ""
    expected: str = ""
    got: str = ""
    where: str = ""
    why: str = ""
    case: str = ""


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
    hints     three hints, from small to nearly the answer
    section   what to read, for example "notebook 03, section 2"
    """

    id: str
    title: str
    points: float
    answer: str
    parts: tuple[Part, ...]
    hints: tuple[str, str, str]
    section: str

    @property
    def grade_id(self) -> str:
        """The id for nbgrader, without dots: for example, ex03-2."""
        return self.id.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Exercise:
    """The items of one notebook, whose file is `id`_`name`.ipynb."""

    id: str
    name: str
    items: tuple[Item, ...]

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)

    @property
    def stem(self) -> str:
        """The file name without suffix, for example ex03_split_tile_reorder."""
        return f"{self.id}_{self.name}"


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
