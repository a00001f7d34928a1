"""What a search may choose in a schedule of topi: the fields of a plan, and their values.

topi.schedule makes a plan for each product, convolution, pooling, sum of rows and softmax: a record
of the numbers in its schedule. By default, this is the plan that should be fastest. The fields of a
plan are the knobs of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Options:
    """The plan of one stage, and the values that a search may choose for its fields.

    stage    the name of the stage
    known    the plan that should be fastest; its values are among those of `fields`
    fields   the values of each field in ascending order: numbers, truth values, strings or tuples
    """

    stage: str
    known: Any
    fields: Mapping[str, Sequence[Any]]

    def plan(self, values: Mapping[str, Any]) -> Any:
        """Return the known plan with other values of some fields; a list stands for a tuple."""
        changes = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return replace(self.known, **changes)


Choose: TypeAlias = Callable[[Options], Any]  # returns the plan of a stage


def options_of(stage: str, known: Any, **fields: Iterable[Any]) -> Options:
    """Return the options of a stage; the values of `known` are added to those of the fields.

    Fields with one value are left out, unless all are such fields.
    """
    choices = {n: sorted({*values, getattr(known, n)}) for n, values in fields.items()}
    return Options(stage, known, {n: v for n, v in choices.items() if len(v) > 1} or choices)
