# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 04: how far apart two uses are, and tiles that keep them near."""

from functools import lru_cache

import numpy as np

from minitvm import te
from minitvm.accesses import record
from minitvm.cachesim import Cache, simulate
from minitvm.edu import PASSED, Answer, Exercise, Item, Outcome, Part, Rng, equal, failed

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
                "4 KiB: 32 is a good tj, 24 a good tk, and ti wants to be large. 32 KiB: if half"
                " of C stays (ti = 48, tj = 96), A and C are fetched once and B twice; tk is"
                " small. Try the neighbours with cost().",
            ),
            "notebook 04, section 5",
        ),
    ),
)
