# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 04: how far apart two uses are, tiles that keep them near, and a transposed product."""

from functools import lru_cache

import numpy as np

from minitvm import te, viz
from minitvm.accesses import record
from minitvm.cachesim import Cache, simulate
from minitvm.edu import (
    PASSED,
    Answer,
    Challenge,
    Exercise,
    Item,
    Outcome,
    Part,
    Puzzle,
    Rng,
    at_most,
    equal,
    failed,
    misses,
    misses_picture,
    on_schedule,
    problem,
    right_schedule,
    schedule_correct,
)

# --- reuse distances -----------------------------------------------------------------------------


def traces(rng):
    """Draw a trace of block names, and the lines per block; one trace in five repeats no block."""
    blocks = [f"{name}{n}" for name in "ABC" for n in range(4)]
    lines = {
        block: int(n) for block, n in zip(blocks, rng.integers(1, 9, len(blocks)), strict=True)
    }
    if rng.integers(0, 5) == 0:
        return [str(x) for x in rng.permutation(blocks)], lines
    some = int(rng.integers(2, len(blocks)))
    return [blocks[n] for n in rng.integers(0, some, int(rng.integers(8, 40)))], lines


def reuse_distance(trace, lines):
    """Return the reuse distances: A B C A -> -1 -1 -1, then the lines of B plus those of C."""
    found = []
    for now, block in enumerate(trace):
        before = [n for n in range(now) if trace[n] == block]
        between = set(trace[before[-1] + 1 : now]) if before else set()
        found.append(sum(lines[b] for b in between) if before else -1)
    return found


# --- tiles ---------------------------------------------------------------------------------------

N = 96
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96)  # those that divide N
BEST = {4096: ((48, 32, 24), 6336), 32768: ((48, 96, 2), 2304)}  # best_of(500) made this
SLACK, WORST = 1.1, 1.4  # times the misses of BEST: for all points, and for none


@lru_cache(maxsize=64)
def misses_of(tiles: tuple[int, int, int], cache_bytes: int) -> int:
    """Count the misses of the N x N product with these tiles, in a cache with 8 ways."""
    A, B = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    _, _, _, ii, ji, ki = s[C].tile(*s[C].leaf_iter_vars, *tiles)
    s[C].reorder(ii, ki, ji)
    return simulate(Cache(cache_bytes, 64, 8), record(s, [A, B, C])).misses


def best_of(draws: int) -> dict[int, tuple[tuple[int, int, int], int]]:
    """Compute BEST, the tiles with the fewest misses among `draws` random ones (500: ten minutes).

    cd exercises/checks && python -c "from ex04 import best_of; print(best_of(500))"
    """
    found = {b: {t: misses_of(t, b) for t in drawn(draws)} for b in BEST}
    return {b: min(of.items(), key=lambda row: row[1]) for b, of in found.items()}


def drawn(draws: int) -> list[tuple[int, int, int]]:
    """Return the tiles that are drawn, each once."""
    rng = np.random.default_rng(0)
    triples = (rng.choice(SIZES, 3).tolist() for _ in range(draws))
    return sorted({(ti, tj, tk) for ti, tj, tk in triples})


def near_the_best(cache_bytes: int, why: str) -> Part:
    """Make a part for tiles: all points up to SLACK times BEST misses, none from WORST times on."""

    def check(answer: Answer, rng: Rng) -> Outcome:
        got = answer(cache_bytes)
        sizes = got if isinstance(got, list | tuple) else ()
        whole = [n for n in sizes if type(n) is int and 1 <= n <= N]
        if len(whole) != 3 or len(sizes) != 3:
            wanted = f"(ti, tj, tk), three whole numbers from 1 to {N}"
            return failed("wrong-type", expected=wanted, got=repr(got))
        ti, tj, tk = whole
        misses, best = misses_of((ti, tj, tk), cache_bytes), BEST[cache_bytes][1]
        bound = SLACK * best
        if misses <= bound:
            return PASSED
        score = max(0.0, (WORST * best - misses) / (WORST * best - bound))
        expected, found = f"at most {bound:,.0f} misses", f"{misses:,} misses"
        case = f"tiles {(ti, tj, tk)} in a cache of {cache_bytes} bytes"
        return failed(
            "too-many-misses", expected=expected, got=found, case=case, why=why, score=score
        )

    title = f"{cache_bytes >> 10} KiB: at most {SLACK:g} times the misses of the best of 500"
    return Part("property", title, 0.5, check)


# --- puzzles -------------------------------------------------------------------------------------

EIGHT = Cache(512, 64, 8)  # lines, in one set
COLUMN = Cache(4096, 64, 8)  # the cache `small` of the notebook: 8 sets


def column_sums(rows, columns):
    A = te.placeholder((rows, columns), name="A")
    i = te.reduce_axis((0, rows), name="i")
    return A, te.compute((columns,), lambda j: te.sum(A[i, j], axis=i), name="B")


def some_matrix(rng):
    return (problem(column_sums, 8 * int(rng.integers(3, 7)), 16 * int(rng.integers(2, 6))),)


def one_matrix(rng):
    return (problem(column_sums, 32, 64),)


def along_the_rows(s, B):
    s[B].reorder(s[B].op.reduce_axis[0], s[B].op.axis[0])


def some_width(rng):
    return (int(rng.integers(17, 400)),)


def padded(columns):
    """Return the least width of whole lines, an odd number of them, that holds `columns`."""
    lines = -(-columns // 16)
    return 16 * (lines + 1 - lines % 2)


def walk_down(width):
    """Count the misses of a walk down 32 columns of 32 rows, in rows of `width` numbers."""
    rows, columns = np.meshgrid(np.arange(32), np.arange(32), indexing="ij")
    return simulate(COLUMN, ((rows * width + columns) * 4).T.ravel()).misses


def walks(width, arguments):
    """Draw the misses of the walk with this width beside those without padding."""
    counts = {f"width {n}": float(walk_down(n)) for n in (int(width), arguments[0])}
    return viz.ScoreBars(counts, "misses of the walk down")


def some_distance(rng):
    return int(rng.integers(-1, 9)), int(rng.integers(1, 9))


def hits(distance, lines):
    return 0 <= distance < lines


# --- the challenge -------------------------------------------------------------------------------

SMALL = Cache(2048, 64, 4)


def transposed(rows, columns, depth):
    A, B = te.placeholder((depth, rows), name="A"), te.placeholder((columns, depth), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((rows, columns), lambda i, j: te.sum(A[k, i] * B[j, k], axis=k), name="C")
    return A, B, C


def transposed_misses(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the misses of the schedule; drawn sizes are multiples of 8."""
    rows, columns, depth = (8 * int(n) for n in rng.integers(5, 9, 3))
    s, tensors = right_schedule(answer, (problem(transposed, rows, columns, depth),), rng)
    return misses(SMALL)(s, tensors)


def as_written(A, B, C):
    return te.create_schedule(C.op)


def in_tiles(A, B, C):
    s = te.create_schedule(C.op)
    io, jo, ko, ii, ji, ki = s[C].tile(*C.op.axis, *C.op.reduce_axis, 8, 8, 16)
    s[C].reorder(io, jo, ko, ji, ki, ii)
    return s


EXERCISE = Exercise(
    "ex04",
    "memory_hierarchy",
    (
        Item(
            "ex04.1",
            "the reuse distance",
            5,
            "reuse_distance",
            (
                equal(
                    reuse_distance,
                    traces,
                    cases=10,
                    title="the distance of every use, for random traces of blocks",
                    why="between two uses of a block each *other* block counts once, with all its"
                    " lines, however often it is used",
                ),
            ),
            (
                "Go through the trace and remember for each block when it was used last.",
                "What lies between the last use and this one is a slice of the trace; a set of it"
                " keeps each block once. Then add up their lines.",
                "last = {}; for now, block in enumerate(trace): if block in last, the distance is"
                " sum(lines[b] for b in set(trace[last[block] + 1 : now])), otherwise -1; then"
                " last[block] = now.",
            ),
            "notebook 04, section 4",
        ),
        Item(
            "ex04.2",
            "tiles for two caches",
            6,
            "choose",
            (
                near_the_best(
                    4096,
                    "64 lines: most of them for one block that stays, and its rows should be whole"
                    " lines of 16 numbers. If cost(...) tells of conflicts: rows of 96 numbers are"
                    " 6 lines apart; which of the 8 sets does a block use that is one line wide?",
                ),
                near_the_best(
                    32768,
                    "512 lines hold a large part of a matrix, but no whole one: which block, kept"
                    " longest, saves most?",
                ),
            ),
            (
                "Count lines: a block of B has tk rows of tj / 16 lines, one of C has ti rows of"
                " tj / 16. One of the two has to fit, with room for what passes by.",
                "In the small cache keep a block of B: about 48 lines of the 64, nearly square in"
                " numbers, with tj a multiple of 16, and many rows of A for it. In the large one"
                " keep a block of C instead.",
                "4 KiB: 32 is a good tj, 24 a good tk, and ti should be large. 32 KiB: if half"
                " of C stays (ti = 48, tj = 96), A and C are fetched once and B twice. What passes"
                " by must be small, tk = 4 or less: larger blocks of B, and the lines of A beside"
                " them, push lines of C out of their sets. Try the neighbours with cost().",
            ),
            "notebook 04, section 5",
        ),
    ),
    puzzles=(
        Puzzle(
            "04.columns",
            "one miss a line",
            "one_miss_a_line",
            (
                schedule_correct(some_matrix),
                at_most(
                    misses(EIGHT),
                    on_schedule(along_the_rows),
                    some_matrix,
                    why="the innermost loop should take the neighbour in the same line",
                ),
            ),
            one_matrix,
            along_the_rows,
            ("Which of the two loops has to be the innermost one: s[B].reorder(outer, inner)?",),
            "notebook 04, section 1",
            picture=misses_picture(EIGHT),
            cost=misses(EIGHT),
        ),
        Puzzle(
            "04.padding",
            "rows that share no set",
            "padded",
            (equal(padded, some_width, why="an even number of lines apart, rows skip some sets"),),
            lambda rng: (64,),
            padded,
            (
                "In a cache with 8 sets, rows an odd number of lines apart use all of them.",
                "lines = -(-columns // 16) lines hold a row; if that is even, add one.",
            ),
            "notebook 04, section 2",
            of="value",
            picture=walks,
            cost=lambda width, arguments: walk_down(int(width)),
        ),
        Puzzle(
            "04.hits",
            "a hit by its distance",
            "hits",
            (
                equal(
                    hits,
                    some_distance,
                    cases=40,
                    why="-1 is a first use, and the line itself takes a place",
                ),
            ),
            lambda rng: (3, 4),
            hits,
            ("The line itself has to fit, too: 3 other lines and this one are 4.",),
            "notebook 04, section 4",
            of="value",
        ),
    ),
    challenge=Challenge(
        "04.challenge",
        "a transposed product in a small cache",
        "product",
        "cache misses",
        transposed_misses,
        as_written,
        in_tiles,
        best_known=4212,  # 400 random tiles and orders: 64 x 56 x 56
        hints=(
            "Both inputs are read across their lines. Which order of i, j and k reads one of them"
            " along its lines, and how many lines of the other stay?",
            "Tiles with a side of 16 numbers use whole lines; 32 lines are two such tiles.",
        ),
        section="notebook 04, section 5",
    ),
)
