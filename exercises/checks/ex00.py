# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 00: one formula, and one message."""

import numpy as np

from minitvm import te, viz
from minitvm.base import ScheduleError
from minitvm.cachesim import Cache
from minitvm.edu import (
    Answer,
    Challenge,
    Exercise,
    Item,
    Outcome,
    Puzzle,
    Rng,
    at_most,
    equal,
    formula,
    misses,
    misses_picture,
    on_schedule,
    problem,
    right_schedule,
    schedule_correct,
)


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


# --- puzzles -------------------------------------------------------------------------------------

SIXTEEN = Cache(bytes=1024, line=64, ways=None)  # 16 lines, fully associative


def both_across(rows, columns, depth):
    A, B = te.placeholder((depth, rows), name="A"), te.placeholder((depth, columns), name="B")
    k = te.reduce_axis((0, depth), name="k")
    D = te.compute((rows, columns), lambda i, j: te.sum(A[k, i] * B[k, j], axis=k), name="D")
    return A, B, D


def some_product(rng):
    return (problem(both_across, *(16 * int(n) for n in rng.integers(2, 4, 3))),)


def one_product(rng):
    return (problem(both_across, 32, 32, 32),)


def along_the_rows(s, D):
    i, j, k = s[D].leaf_iter_vars
    s[D].reorder(k, i, j)


def some_tile(rng):
    return tuple(int(n) for n in rng.integers(1, 9, 2))


def loads(rows, vectors):
    return (rows + vectors) / (rows * vectors)


def loads_of_tiles(value, arguments):
    """Draw the value of an answer for 4 x 4 beside two other tiles."""
    others = {"16 x 1": loads(16, 1), "1 x 16": loads(1, 16)}
    return viz.ScoreBars({"4 x 4": abs(float(value)), **others}, "loads per multiply-add")


# --- the challenge -------------------------------------------------------------------------------


def product_misses(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the misses of the schedule; drawn sizes are multiples of 8."""
    sizes = (8 * int(n) for n in rng.integers(4, 9, 3))
    s, tensors = right_schedule(answer, (problem(matmul, *sizes, "C", "k"),), rng)
    return misses(SIXTEEN)(s, tensors)


def as_written(A, B, C):
    return te.create_schedule(C.op)


def in_tiles(A, B, C):
    s = te.create_schedule(C.op)
    _, _, _, i, j, k = s[C].tile(*s[C].leaf_iter_vars, 4, 16, 8)
    s[C].reorder(k, i, j)
    return s


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
                    why="return the whole message of this step: str(error)",
                ),
            ),
            (
                "Try the step in a separate cell first, and read the message.",
                "`try: ... except tvm.ScheduleError as error:` catches the error.",
                "Make a schedule with te.create_schedule(C.op), take the step"
                " s[C].parallel(C.op.reduce_axis[0]) inside `try`, and return str(error).",
            ),
            "notebook 00, section 'What a schedule may do'",
        ),
    ),
    puzzles=(
        Puzzle(
            "00.order",
            "along the rows",
            "along_the_rows",
            (
                schedule_correct(some_product),
                at_most(
                    misses(SIXTEEN),
                    on_schedule(along_the_rows),
                    some_product,
                    why="two orders have j innermost; in one of them the next loop goes along a row"
                    " of A, too",
                ),
            ),
            one_product,
            along_the_rows,
            (
                "Write down for each of i, j, k which matrices it walks through along a row, and"
                " which down a column.",
                "k walks down a column of A and of B, so it should be the outermost loop:"
                " s[D].reorder(outer, middle, inner).",
            ),
            "notebook 00, step 1",
            picture=misses_picture(SIXTEEN),
            cost=misses(SIXTEEN),
        ),
        Puzzle(
            "00.loads",
            "loads of a tile",
            "loads",
            (
                equal(
                    loads,
                    some_tile,
                    rtol=1e-9,
                    why="for each k there are rows + vectors loads; how many multiply-adds?",
                ),
            ),
            lambda rng: (4, 4),
            loads,
            ("A tile of 2 rows and 3 vectors does 6 multiply-adds for each k, with 5 loads.",),
            "notebook 00, step 3",
            of="value",
            picture=loads_of_tiles,
            cost=lambda value, arguments: float(value),
            unit="loads per multiply-add",
        ),
    ),
    challenge=Challenge(
        "00.challenge",
        "a product in a tiny cache",
        "product",
        "cache misses",
        product_misses,
        as_written,
        in_tiles,
        minutes=30,
        best_known=3168,  # tiles of 7 x 16, columns of tiles outside
        hints=(
            "The order of step 1 gives a score of 71. What does each row of C have to fetch again?",
            "Tiles of a few rows and 16 columns: which loops go outside, and what stays?",
        ),
        section="notebook 00, steps 1 and 2",
    ),
)
