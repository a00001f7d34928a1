"""The items of all exercises: what is asked, how it is checked, what helps.

To add an exercise, write items/ex07.py, and name it in EXERCISES below:

    import numpy as np
    from minitvm import te
    from ..checkers import equal, formula
    from ..item import PASSED, Exercise, Item, Part, failed, problem
    from ..schedules import Fact, at_most, facts, misses, schedule_correct, speed, visit_order

    def scaled(n):                                   # a problem: built on both sides of the fence
        A = te.placeholder((n,), name="A")           # from this source; np, te, tir, topi, vta,
        return A, te.compute((n,), lambda i: A[i] * 2.0, name="B")       # lower, build are known

    def sizes(rng):                                  # the arguments of one call of the answer
        return (problem(scaled, int(rng.integers(60, 90))),)

    def reference(A, B):
        s = te.create_schedule(B.op)
        s[B].split(B.op.axis[0], factor=8)
        return s

    EXERCISE = Exercise("ex07", "vectors", (         # exercises/ex07_vectors.ipynb
        Item(
            "ex07.1", "eight at a time", 4, "eight",     # the student writes: def eight(A, B)
            (
                schedule_correct(sizes, weight=0.4, why="a tail of less than eight needs a guard"),
                facts(sizes, (Fact("split", "an inner loop of 8",
                                   lambda s: len(s["B"].leaf_iter_vars) == 2),), weight=0.6),
            ),
            ("A nudge.", "More.", "Nearly the answer."),
            "notebook 07, section 1",
        ),
    ))

`python -m minitvm.edu new ex07` then drafts solutions/ex07_vectors.ipynb; `python -m minitvm.edu
build` makes the exercise of it, `verify ex07` tries to fool it. docs/instructor.md tells the rest.
"""

from minitvm.base import ArgumentError

from ..item import Exercise, Item
from . import ex00, ex01, ex02, ex03, ex04, ex05, ex06, ex08, ex09

EXERCISES: tuple[Exercise, ...] = (
    ex00.EXERCISE,
    ex01.EXERCISE,
    ex02.EXERCISE,
    ex03.EXERCISE,
    ex04.EXERCISE,
    ex05.EXERCISE,
    ex06.EXERCISE,
    ex08.EXERCISE,
    ex09.EXERCISE,
)


def exercise_named(name: str) -> Exercise:
    """The exercise called `name` ("ex03"). Raises ArgumentError if there is none."""
    for exercise in EXERCISES:
        if name in (exercise.id, exercise.stem):
            return exercise
    known = ", ".join(e.id for e in EXERCISES)
    raise ArgumentError(f"exercise {name!r}", "there is no such exercise", f"one of {known}")


def item_of(name: str) -> Item:
    """The item called `name` ("ex03.2"). Raises ArgumentError if there is none."""
    exercise = exercise_named(str(name).partition(".")[0])
    for item in exercise.items:
        if item.id == name:
            return item
    known = ", ".join(i.id for i in exercise.items)
    raise ArgumentError(f"item {name!r}", "there is no such item", f"one of {known}")
