"""The operators that the command line can tune, in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitvm import autotvm, tune
from minitvm.base import ArgumentError, TVMError


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that has a template.

    sizes     the names of its sizes, as --shape lists them
    formula   for people
    """

    sizes: tuple[str, ...]
    formula: str


OPERATORS = {
    "matmul": Operator(("m", "n", "k"), "C[m, n] = sum of A[m, k] * B[k, n]"),
    "dense": Operator(("m", "n", "k"), "C[m, n] = sum of data[m, k] * weight[n, k]"),
}


def task_of(name: str, shape: Sequence[int], target: str) -> tune.Task:
    """Return the task of an operator in float32."""
    what = f"tuning of {name}"
    if name not in OPERATORS:
        raise ArgumentError(what, "no such operator", f"one of {', '.join(OPERATORS)}")
    sizes = OPERATORS[name].sizes
    if len(shape) != len(sizes):
        why = f"it has {len(sizes)} sizes, and {len(shape)} are given"
        raise ArgumentError(what, why, f"--shape {','.join(sizes)}")
    if any(n < 1 for n in shape):
        raise ArgumentError(what, f"a size of {min(shape)}", "sizes of at least 1")
    return autotvm.task.create(name, tuple(shape), target)


def task_of_key(key: str, target: str) -> tune.Task:
    """Return the task that a log names; ArgumentError if its operator is not known."""
    try:
        name, *arguments = json.loads(key)
        return autotvm.task.create(name, _tuples(arguments), target)
    except (TVMError, TypeError, ValueError) as e:
        why = f"no operator of this program makes it ({e})"
        raise ArgumentError(f"task {key} of the log", why) from e


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples in place of lists, as templates take arguments."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
