# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 03: the same work in another order."""

from collections import Counter

from minitvm import te
from minitvm.cachesim import Cache
from minitvm.edu import (
    PASSED,
    Answer,
    Exercise,
    Fact,
    Item,
    Outcome,
    Part,
    Rng,
    at_most,
    facts,
    failed,
    misses,
    problem,
    required,
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
    """List indices by blocks, along each row of blocks; inside a block, column by column."""
    n, m = B.shape
    return [
        (i, j)
        for top in range(0, n, rows)
        for left in range(0, m, columns)
        for j in range(left, min(left + columns, m))
        for i in range(top, min(top + rows, n))
    ]


# --- fewer misses --------------------------------------------------------------------------------

SMALL = Cache(8192, 64, 8)
ORDERING = ("split", "fuse", "tile", "reorder")


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


def weights_stay(X, W, Y):
    """Return the reference schedule, which keeps 20 rows of W in the cache for all rows of X."""
    s = te.create_schedule(Y.op)
    s[Y].tile(*s[Y].leaf_iter_vars[:2], Y.shape[0], 20)
    return s


def only_order(s):
    """Return whether a schedule changes only the order: no other stages, no annotated loops."""
    return all(step.primitive in ORDERING for step in s.steps)


# --- reasons -------------------------------------------------------------------------------------

CASES = {  # case -> (the right letter, a question for students who chose another one)
    "1": ("d", "print the loops of C after the split: which of them is called i?"),
    "2": ("a", "does any element of C get other terms, or fewer, than before?"),
    "3": ("c", "of which tensor is the loop, and who runs when?"),
    "4": ("b", "at t = 1, j = 0: which element is read, and when is it written after the swap?"),
    "5": ("a", "at t = 1, j = 1: which element is read, and when is it written after the swap?"),
}


def reasons() -> Part:
    """Make a part that checks a dict case -> letter; it names wrong cases, no right letters."""

    def check(answer: Answer, rng: Rng) -> Outcome:
        got = answer()
        if not isinstance(got, dict) or set(map(str, got)) != set(CASES):
            wanted = ", ".join(f'"{case}": ...' for case in CASES)
            return failed("wrong-type", expected=f"{{{wanted}}}", got=repr(got))
        letters = {str(case): str(letter).strip().lower() for case, letter in got.items()}
        wrong = [case for case, (right, _) in CASES.items() if letters[case] != right]
        if not wrong:
            return PASSED
        first, guess = wrong[0], max(Counter(right for right, _ in CASES.values()).values())
        return failed(
            "wrong-choice",
            expected=f"{len(CASES)} right choices",
            got=f"{len(CASES) - len(wrong)}",
            where=f'case "{first}": not {letters[first]!r}',
            why=CASES[first][1],
            score=max(0.0, 1 - len(wrong) / (len(CASES) - guess)),  # 0 for one letter throughout
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
                    weight=0.0,
                    why="split, reorder and tile leave the result as it is",
                ),
                visit_order(
                    block_order,
                    block_arguments,
                    weight=1.0,
                    why="the index that changes at every visit belongs to the innermost loop, the"
                    " one that changes least to the outermost",
                ),
            ),
            (
                "Four loops: which block in each direction, and which place in it.",
                "Write down the first visits, (0, 0), (1, 0), ...: the index that changes at"
                " every step belongs to the innermost loop.",
                "tile(i, j, rows, columns) gives io, jo, ii, ji. From the outside: the row of"
                " blocks, the column of blocks, the column in the block, the row in it.",
            ),
            "notebook 03, section 5",
        ),
        Item(
            "ex03.2",
            "a tenth of the misses",
            6,
            "tiled",
            (
                schedule_correct(
                    dense_arguments,
                    cases=1,
                    weight=0.0,
                    why="a schedule made of split, tile and reorder cannot be wrong",
                ),
                required(
                    facts(
                        dense_arguments,
                        (
                            Fact(
                                "order",
                                "split, fuse, tile and reorder alone, and no other stage",
                                only_order,
                                "copies and vectors are for later; topi.schedule makes both",
                            ),
                        ),
                        title="the same work in another order, and nothing else",
                        weight=0.0,
                    )
                ),
                at_most(
                    misses(SMALL),
                    naive,
                    dense_arguments,
                    factor=0.35,
                    worst=1.0,
                    weight=0.35,
                    title="at most 0.35 times the misses of the loops as written",
                    why="what is used again must be used again soon: while a block of W stays in"
                    " the cache, several rows of X should meet it",
                ),
                at_most(
                    misses(SMALL),
                    weights_stay,
                    dense_arguments,
                    factor=1.15,
                    worst=1.3,
                    weight=0.65,
                    title="at most 1.15 times the misses of our tiles, a tenth of those as written",
                    why="W is fetched once if a block of its rows stays until all rows of X have"
                    " met it, and X once for each block: few, large blocks, which must fit",
                ),
            ),
            (
                "W is read once for every row of X, and does not fit into the cache. Which loop"
                " brings it back each time?",
                "If several rows of X were done while a few rows of W are in the cache, those few"
                " would be fetched once for all of them. A tile in i and j, say 16 by 16, gets a"
                " third of the points. How often is each row of W fetched then?",
                "Keep a block of W until all rows of X have met it: a tile of all i and some j,"
                " with all of k inside. A row of W has about 220 bytes: how many of them, and one"
                " row of X, fit into 8 KiB, with some room for what passes by?",
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
