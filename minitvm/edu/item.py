"""What an exercise is made of: items, their parts, and what comes of checking one.

An item asks for one function of a fixed name. Each of its parts looks at one side of it:

    correctness   does it compute the right thing?       40 %, and the gate to the rest
    property      misses, cycles, facts of the loops     40 %, counted, the same on every machine
    speed         wall clock against a reference         20 %, a ratio within one process
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from minitvm import te, tir, topi, vta
from minitvm.base import ArgumentError, TVMError, as_tuple
from minitvm.driver import build, lower

Rng: TypeAlias = np.random.Generator
Kind: TypeAlias = Literal["correctness", "property", "speed"]
Status: TypeAlias = Literal["passed", "failed", "not started", "inconclusive", "skipped"]

# the names that the source of a problem may use, on both sides of the fence
VOCABULARY: dict[str, Any] = {
    "np": np, "te": te, "tir": tir, "topi": topi, "vta": vta, "lower": lower, "build": build,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one part.

    score      0 .. 1
    message    an id for tests and statistics: "wrong-value", "too-many-misses"
    expected   expected and got, in words short enough to stand side by side
    where      the first difference: indices, a line, a case
    why        why it usually happens
    case       for which call, and for which program: what is no difference
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
    message: str, *, expected: str = "", got: str = "", where: str = "", why: str = "",
    case: str = "", score: float = 0.0,
) -> Outcome:  # fmt: skip
    """A part that is not right, or only partly: 0 <= score < 1."""
    return Outcome("failed", score, message, expected, got, where, why, case)


class AnswerError(TVMError):
    """The student's function gave no answer. `args[0]` is the message id, `args[1]` the reason."""


class Answer(Protocol):
    """The student's function, called wherever it lives; what it returns comes back as data.

    Arguments are plain data, arrays and problems. A schedule comes back replayed on the grader's
    own copy of the problem. Raises AnswerError where there is nothing to come back.
    """

    def __call__(self, *arguments: Any) -> Any: ...


Check: TypeAlias = Callable[[Answer, Rng], Outcome]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is looked at. `weight` is its share among the parts of the item."""

    kind: Kind
    title: str
    weight: float
    check: Check


@dataclass(frozen=True, slots=True)
class Item:
    """One question with one answer: the function called `answer`.

    parts     in the order of checking; a failed correctness part stops the rest
    hints     three, from a nudge to nearly the answer
    section   where to read: "notebook 03, section 2"
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
        """Its name among nbgrader's, which have no dots: ex03-2."""
        return self.id.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Exercise:
    """The items that one notebook asks for. Its file is called `id`_`name`.ipynb."""

    id: str
    name: str
    items: tuple[Item, ...]

    @property
    def points(self) -> float:
        return sum(item.points for item in self.items)

    @property
    def stem(self) -> str:
        """ex03_split_tile_reorder"""
        return f"{self.id}_{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What a function of an items file built, and how to build it again elsewhere.

    made   all it returned: tensors, loop programs, tensor intrinsics. They are the arguments of
           the student's function, in this order.
    """

    source: str
    name: str
    arguments: tuple[Any, ...]
    made: tuple[Any, ...]


def problem(builder: Callable[..., Any], *arguments: Any) -> Problem:
    """builder(*arguments), for both sides: the student's process builds it from its source.

    The builder is a plain function at the top of the items file. It may use its arguments and the
    names np, te, tir, topi, vta, lower and build; `arguments` are plain data.
    """
    if "<locals>" in builder.__qualname__ or builder.__name__ == "<lambda>":
        raise ArgumentError(f"problem({builder.__qualname__})", "write it at the top of the file")
    source = textwrap.dedent(inspect.getsource(builder))
    return Problem(source, builder.__name__, arguments, made(source, builder.__name__, arguments))


def made(source: str, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the function `name` in `source` returns, as a tuple. Knows VOCABULARY and no more."""
    scope = dict(VOCABULARY)
    exec(compile(source, f"problem {name}", "exec"), scope)
    return as_tuple(scope[name](*arguments))
