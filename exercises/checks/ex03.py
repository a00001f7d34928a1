# pyright: basic
# (problems are sent to students' processes as they stand, without types)

"""Exercise 03: the same work in another order."""

from minitvm import te
from minitvm.cachesim import Cache
from minitvm.edu import (
    PASSED,
    Answer,
    Exercise,
    Item,
    Outcome,
    Part,
    Rng,
    at_most,
    failed,
    misses,
    problem,
    schedule_correct,
    visit_order,
)

# --- an order to reach ---------------------------------------------------------------------------


def transposed(n, m):
    A = te.placeholder((m, n), name="A")
    return A, te.compute((n, m), lambda i, j: A[j, i], name="B")


def block_arguments(rng):
    n, m = (int(x) for x in rng.integers(6, 14, 2))
    rows, columns = (int(x) for x in rng.permutation([2, 3, 4, 5])[:2])
    return problem(transposed, n, m), rows, columns


def block_order(A, B, rows, columns):
    """List indices by blocks, down each column of blocks; inside a block, column by column."""
    n, m = B.shape
    return [
        (i, j)
        for left in range(0, m, columns)
        for top in range(0, n, rows)
        for j in range(left, min(left + columns, m))
        for i in range(top, min(top + rows, n))
    ]


# --- fewer misses --------------------------------------------------------------------------------

SMALL = Cache(8192, 64, 8)


def dense(n, m, size):
    X = te.placeholder((n, size), name="X")
    W = te.placeholder((m, size), name="W")
    k = te.reduce_axis((0, size), name="k")
    Y = te.compute((n, m), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")
    return X, W, Y


def dense_arguments(rng):
    """Draw sizes where neither X nor W fits into the cache: each has 10 KiB or more."""
    n, m, size = (int(x) for x in rng.integers(51, 63, 3))
    return (problem(dense, n, m, size),)


def naive(X, W, Y):
    return te.create_schedule(Y.op)


# --- reasons -------------------------------------------------------------------------------------

CASES = {  # case -> the letter that fits, and what to think of if it was not found
    "1": ("d", "print the loops of C after the split: which of them is called i?"),
    "2": ("a", "does any element of C get other terms, or fewer, than before?"),
    "3": ("c", "of which tensor is the loop, and who runs when?"),
    "4": ("b", "at t = 1, j = 0: which element is read, and when is it written after the swap?"),
    "5": ("a", "at t = 1, j = 1: which element is read, and when is it written after the swap?"),
}


def reasons() -> Part:
    """Check a dict from case to letter; name the wrong case, but not the right letter."""

    def check(answer: Answer, rng: Rng) -> Outcome:
        got = answer()
        if not isinstance(got, dict) or set(map(str, got)) != set(CASES):
            wanted = ", ".join(f'"{case}": ...' for case in CASES)
            return failed("wrong-type", expected=f"{{{wanted}}}", got=repr(got))
        letters = {str(case): str(letter).strip().lower() for case, letter in got.items()}
        wrong = [case for case, (right, _) in CASES.items() if letters[case] != right]
        if not wrong:
            return PASSED
        first = wrong[0]
        return failed(
            "wrong-choice",
            expected=f"{len(CASES)} right choices",
            got=f"{len(CASES) - len(wrong)}",
            where=f'case "{first}": not {letters[first]!r}',
            why=CASES[first][1],
            score=1 - len(wrong) / len(CASES),
        )

    return Part("property", "the reason in each case", 1.0, check)


EXERCISE = Exercise(
    "ex03",
    "split_tile_reorder",
    (
        Item(
            "ex03.1",
            "an order to reach",
            4,
            "blocks",
            (
                schedule_correct(
                    block_arguments,
                    weight=0.1,
                    why="split, reorder and tile leave the result as it is",
                ),
                visit_order(
                    block_order,
                    block_arguments,
                    weight=0.9,
                    why="the index that changes at every visit belongs to the innermost loop, the"
                    " one that changes least to the outermost",
                ),
            ),
            (
                "Four loops: which block in each direction, and which place in it.",
                "Write down the first visits, (0, 0), (1, 0), ...: the index that changes at"
                " every step belongs to the innermost loop.",
                "tile(i, j, rows, columns) gives io, jo, ii, ji. From the outside: the column of"
                " blocks, the row of blocks, the column in the block, the row in it.",
            ),
            "notebook 03, section 5",
        ),
        Item(
            "ex03.2",
            "a third of the misses",
            6,
            "tiled",
            (
                schedule_correct(
                    dense_arguments,
                    cases=1,
                    weight=0.1,
                    why="a schedule made of split, tile and reorder cannot be wrong",
                ),
                at_most(
                    misses(SMALL),
                    naive,
                    dense_arguments,
                    factor=0.35,
                    weight=0.9,
                    title="at most 0.35 times the misses of the loops as written",
                    why="what is used again must be used again soon: while a block of W stays in"
                    " the cache, several rows of X should meet it",
                ),
            ),
            (
                "W is read once for every row of X, and does not fit into the cache. Which loop"
                " brings it back each time?",
                "If several rows of X were done while a few rows of W are in the cache, those few"
                " would be fetched once for all of them.",
                "A tile in i and j, say 16 by 16, its two inner loops inside of the outer ones, and"
                " all of k inside: 16 rows of W and one of X, 240 bytes each, fit into 8 KiB.",
            ),
            "notebook 03, section 6",
        ),
        Item(
            "ex03.3",
            "may they be swapped?",
            2,
            "swaps",
            (reasons(),),
            (
                "Ask of two turns of the loops: does one of them need what the other one writes?",
                "If one does, it must come later in the new order as well. Draw a small grid, and"
                " an arrow from each element to the one it reads.",
                "In case 4 the element read lies one row up and one column to the right, in case 5"
                " one row up and one column to the left. Now walk down the columns.",
            ),
            "notebook 03, section 7",
        ),
    ),
)
