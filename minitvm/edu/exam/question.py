"""A question of an exam, and helpers to draw one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from minitvm import te

from ..item import Rng

T = TypeVar("T")
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """One question of an exam, with its entry in the key.

    title     the topic
    text      what the question is about, in sentences
    code      a program or a table that is printed as it is; may be empty
    asks      what students have to find, printed as a), b), c)
    answers   the answers, one for each of `asks`
    working   how the answers come about, in one line
    section   where the course explains it, for example "notebook 02, section 4"
    """

    title: str
    text: str
    code: str
    asks: tuple[str, ...]
    answers: tuple[str, ...]
    working: str
    section: str
    points: int

    @property
    def is_trivial(self) -> bool:
        """Whether an answer is 0, 1 or a number that the sentences show."""
        shown = {"0", "1", *NUMBER.findall(" ".join((self.text, *self.asks)))}
        return not shown.isdisjoint(self.answers)


def pick(rng: Rng, options: Sequence[T]) -> T:
    """Return one of the options."""
    return options[int(rng.integers(len(options)))]


def shuffled(rng: Rng, values: Sequence[T]) -> list[T]:
    """Return the values in another order."""
    return [values[n] for n in rng.permutation(len(values))]


def divisor(rng: Rng, n: int) -> int:
    """Return a divisor of `n` other than 1 and n."""
    return pick(rng, [d for d in range(2, n) if n % d == 0])


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run the program of a question as it is printed, and return its names.

    names   what the program may use beside `te`
    """
    scope: dict[str, Any] = {"te": te, **names}
    exec(compile(code, "question", "exec"), scope)
    return scope


def joined(numbers: Sequence[int]) -> str:
    """Return 3, 4 and 5 as "3 x 4 x 5"."""
    return " x ".join(map(str, numbers))
