# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 03: the same work in another order."""

from collections import Counter

from minitvm import te, viz
from minitvm.cachesim import Cache
from minitvm.edu import (
    PASSED,
    Answer,
    Challenge,
    Exercise,
    Fact,
    Item,
    Outcome,
    Part,
    Puzzle,
    Rng,
    at_most,
    equal,
    facts,
    failed,
    misses,
    misses_picture,
    on_schedule,
    problem,
    required,
    right_schedule,
    schedule_correct,
    visit_order,
    visits_picture,
)

# --- an order to reach ---------------------------------------------------------------------------


def transposed(n, m):
    A = te.placeholder((m, n), name="A")
    return A, te.compute((n, m), lambda i, j: A[j, i], name="B")


def nested(*levels):
    """Return a function that draws a matrix and blocks in so many levels, one of `levels`."""

    def arguments(rng):
        count = int(rng.choice(levels))
        smallest = [int(x) for x in rng.permutation([2, 3, 4])[:2]]
        sizes = [smallest]
        for _ in range(count - 1):
            times = [int(x) for x in rng.permutation([2, 3])]
            sizes = [[a * b for a, b in zip(sizes[0], times, strict=True)], *sizes]
        shape = [
            2 * size + int(rng.integers(1, least + 1))
            for size, least in zip(sizes[0], smallest, strict=True)
        ]
        return problem(transposed, *shape), sizes

    return arguments


def block_order(A, B, sizes):
    """List indices by blocks of blocks; inside the smallest blocks, column by column."""
    whole = [(i, j) for i in range(B.shape[0]) for j in range(B.shape[1])]

    def order(at):
        i, j = at
        places = []
        for rows, columns in sizes:
            places += [i // rows, j // columns]
            i, j = i % rows, j % columns
        return *places, j, i

    return sorted(whole, key=order)


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


# --- puzzles -------------------------------------------------------------------------------------

SIXTEEN = Cache(1024, 64, None)  # lines, in one set


def even_rows(rng):
    return (problem(transposed, 2 * int(rng.integers(2, 7)), int(rng.integers(4, 9))),)


def two_rows(s, B):
    i, j = s[B].op.axis
    io, ii = s[B].split(i, factor=2)
    s[B].reorder(io, j, ii)


def two_rows_order(A, B):
    n, m = B.shape
    return [(i, j) for top in range(0, n, 2) for j in range(m) for i in (top, top + 1)]


def some_cores(rng):
    return tuple(int(n) for n in (*rng.integers(3, 40, 2), rng.integers(2, 9)))


def busiest(rows, columns, cores):
    return -(-rows * columns // cores)


def beside_rows(most, arguments):
    """Draw the iterations of the busiest core, with the loops fused and by whole rows."""
    rows, columns, cores = arguments
    scores = {"fused": float(most), "whole rows": float(-(-rows // cores) * columns)}
    return viz.ScoreBars(scores, "iterations of the busiest core")


def crossed(n):
    P, Q = te.placeholder((n, n), name="P"), te.placeholder((n, n), name="Q")
    k = te.reduce_axis((0, n), name="k")
    R = te.compute((n, n), lambda i, j: te.sum(P[i, k] * Q[j, k], axis=k), name="R")
    return P, Q, R


def some_crossed(rng):
    return (problem(crossed, 4 * int(rng.integers(6, 9))),)


def along_lines(s, R):
    (i, j), (k,) = s[R].op.axis, s[R].op.reduce_axis
    jo, ji = s[R].split(j, factor=4)
    s[R].reorder(jo, i, ji, k)


# --- the challenge -------------------------------------------------------------------------------


def mirrored(n):
    A = te.placeholder((n, n), name="A")
    return A, te.compute((n, n), lambda i, j: A[i, j] + A[j, i], name="B")


def mirrored_misses(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the misses of the schedule; the drawn size is a multiple of 8."""
    given = problem(mirrored, 8 * int(rng.integers(6, 10)))
    s, tensors = right_schedule(answer, (given,), rng)
    return misses(SIXTEEN)(s, tensors)


def row_by_row(A, B):
    return te.create_schedule(B.op)


def in_squares(A, B):
    s = te.create_schedule(B.op)
    s[B].tile(*B.op.axis, 4, 4)
    return s


EXERCISE = Exercise(
    "ex03",
    "split_tile_reorder",
    (
        Item(
            "ex03.1",
            "blocks of blocks",
            4,
            "blocks",
            (
                schedule_correct(
                    nested(1, 2, 3),
                    weight=0.0,
                    why="split, reorder and tile leave the result as it is",
                ),
                visit_order(
                    block_order,
                    nested(2),
                    title="two levels: the order in which elements are visited",
                    weight=0.5,
                    why="the index that changes at every visit belongs to the innermost loop, the"
                    " one that changes least to the outermost",
                ),
                visit_order(
                    block_order,
                    nested(3),
                    title="three levels",
                    weight=0.5,
                    why="there are as many levels as sizes: each of them splits the inner loops"
                    " that the level before it has left",
                ),
            ),
            (
                "How many loops do two levels need? For each level, which block in each direction;"
                " and at the end, which place in the smallest block.",
                "Write down the first visits, (0, 0), (1, 0), ...: the index that changes at"
                " every step belongs to the innermost loop. A loop over `sizes` can collect the"
                " outer loops in a list while it splits the inner ones again.",
                "For each level: io, i = split(i, rows), the same for j and columns, and io, jo go"
                " to the list. After the last level, reorder(*list, j, i).",
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
                "Take two iterations of the loops: does one of them need what the other writes?",
                "If one does, it must come later in the new order as well. Draw a small grid, and"
                " an arrow from each element to the one it reads.",
                "In case 4 the element read lies one row up and one column to the right, in case 5"
                " one row up and one column to the left. Now walk down the columns.",
            ),
            "notebook 03, section 7",
        ),
    ),
    puzzles=(
        Puzzle(
            "03.two-rows",
            "two rows at a time",
            "two_rows",
            (
                schedule_correct(even_rows),
                visit_order(
                    two_rows_order,
                    even_rows,
                    why="the row in the pair changes first, then the column, then the pair",
                ),
            ),
            lambda rng: (problem(transposed, 6, 8),),
            two_rows,
            ("The visits are (0, 0), (1, 0), (0, 1), (1, 1), ...: which index changes each time?",),
            "notebook 03, section 4",
            picture=visits_picture,
        ),
        Puzzle(
            "03.cores",
            "a fair share",
            "busiest",
            (equal(busiest, some_cores, why="48 iterations for 5 cores: one of them has 10"),),
            lambda rng: (6, 8, 4),
            busiest,
            (
                "The fused loop has rows * columns iterations.",
                "-(-n // cores) is n / cores, rounded up.",
            ),
            "notebook 03, section 3",
            of="value",
            picture=beside_rows,
            cost=lambda most, arguments: float(most),
            unit="iterations of the busiest core",
        ),
        Puzzle(
            "03.strip",
            "rows that stay",
            "along_lines",
            (
                schedule_correct(some_crossed),
                at_most(
                    misses(SIXTEEN),
                    on_schedule(along_lines),
                    some_crossed,
                    why="four rows of Q fit into the cache, beside two rows of P",
                ),
            ),
            lambda rng: (problem(crossed, 32),),
            along_lines,
            (
                "Both matrices are read along their rows if k is the innermost loop.",
                "All rows of P should pass while the four rows of Q stay.",
            ),
            "notebook 03, section 6",
            picture=misses_picture(SIXTEEN),
            cost=misses(SIXTEEN),
        ),
    ),
    challenge=Challenge(
        "03.challenge",
        "a matrix and its mirror image",
        "mirrored",
        "cache misses",
        mirrored_misses,
        row_by_row,
        in_squares,
        best_known=1200,  # the best of 50,000 tiles in two levels: 16 x 8, two rows at a time
        hints=(
            "A tile of h x w reads h rows of A, and w rows of its mirror image: how many lines is"
            " each, and how long does each have to stay?",
            "Tiles need not be squares, and each loop can be split again.",
        ),
        section="notebook 03, section 6",
    ),
)
