# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 00: one formula, and one message."""

import numpy as np

from minitvm import te
from minitvm.base import ScheduleError
from minitvm.edu import Exercise, Item, equal, formula, problem


def factors(n, k, m):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    return A, B


def matmul(n, k, m, name, axis):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name=axis)
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name=name)
    return A, B, C


def sizes(rng):
    return [int(n) for n in rng.integers(2, 9, 3)]


def named(rng):
    """Draw sizes, and the names that the message mentions."""
    return (*sizes(rng), str(rng.choice(list("CDPY"))), str(rng.choice(list("kqrt"))))


def refusal(A, B, C):
    try:
        te.create_schedule(C.op)[C].parallel(C.op.reduce_axis[0])
    except ScheduleError as e:
        return str(e)
    return ""


EXERCISE = Exercise(
    "ex00",
    "start_here",
    (
        Item(
            "ex00.1",
            "a matrix product",
            1,
            "matmul",
            (
                formula(
                    np.matmul,
                    lambda rng: (problem(factors, *sizes(rng)),),
                    why="rows of A go with columns of B: n x k times k x m is n x m",
                ),
            ),
            (
                "Two things are needed: an axis to sum over, and the formula of one element.",
                "k = te.reduce_axis((0, A.shape[1])) is the axis. The shape is that of the result.",
                "te.compute((A.shape[0], B.shape[1]), lambda i, j: te.sum(..., axis=k)), where the"
                " dots are an element of A times an element of B.",
            ),
            "notebook 00, section 'The formula'",
        ),
        Item(
            "ex00.2",
            "read a message",
            1,
            "refusal",
            (
                equal(
                    refusal,
                    lambda rng: (problem(matmul, *named(rng)),),
                    title="the message of the error",
                    cases=4,
                    wrong="other-message",
                    why="the whole message is asked for, of this very step: str(error)",
                ),
            ),
            (
                "Try the step in a cell of its own first, and read what comes.",
                "`try: ... except tvm.ScheduleError as error:` catches the error.",
                "Make a schedule with te.create_schedule(C.op), take the step"
                " s[C].parallel(C.op.reduce_axis[0]) inside `try`, and return str(error).",
            ),
            "notebook 00, section 'A step that is not allowed'",
        ),
    ),
)
