"""The operators that have templates, with the shapes of their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitvm.base import ArgumentError, Target

from ..task import Task, create
from ..templates import TEMPLATES, Template
from .convolutions import conv2d_nchwc, conv2d_nhwc
from .products import dense, matmul
from .rows import softmax, sum_rows
from .windows import depthwise_nhwc


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """An operator that has a template.

    shape    the names of the numbers that make a task; those in brackets may be left out
    """

    template: Template
    shape: str


OPERATORS = {
    o.template.name: o
    for o in (
        Operator(matmul, "m, n, k"),
        Operator(dense, "m, n, k"),
        Operator(conv2d_nhwc, "n, h, w, c, o, kernel, [stride], [pad]"),
        Operator(conv2d_nchwc, "n, h, w, c, o, kernel, [stride], [pad], [block]"),
        Operator(depthwise_nhwc, "n, h, w, c, kernel, [stride], [pad]"),
        Operator(sum_rows, "rows, columns"),
        Operator(softmax, "rows, columns"),
    )
}


def task_for(name: str, shape: Sequence[int], target: str | Target = "llvm") -> Task:
    """Return the task of tuning an operator: task_for("matmul", (512, 512, 512)).

    Raises ArgumentError for another operator, or if the shape has too few or too many numbers.
    """
    if name not in OPERATORS:
        raise ArgumentError(f"operator {name!r}", "it has no template", ", ".join(OPERATORS))
    known, given = OPERATORS[name], tuple(shape)
    names = known.shape.split(", ")
    least = sum(not n.startswith("[") for n in names)
    if not least <= len(given) <= len(names) or any(type(n) is not int or n < 0 for n in given):
        raise ArgumentError(f"shape {given} of {name}", f"it must be {known.shape}")
    TEMPLATES[name] = known.template
    return create(name, complete(name, given), target)


def complete(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a template, with defaults for those that were left out."""
    defaults = OPERATORS[name].template.make.__defaults__ or ()
    every = OPERATORS[name].template.make.__code__.co_argcount
    missing = every - len(args)
    return (*args, *defaults[len(defaults) - missing :]) if missing else args
