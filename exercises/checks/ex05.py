# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 05: where a value is computed, what it costs there, and loops as vectors."""

from minitvm import te, viz
from minitvm.cachesim import Cache
from minitvm.driver import lower
from minitvm.edu import (
    Answer,
    Challenge,
    Exercise,
    Fact,
    Item,
    Outcome,
    Puzzle,
    Rng,
    at_most,
    equal,
    facts,
    misses,
    misses_picture,
    on_schedule,
    problem,
    record,
    required,
    right_schedule,
    schedule_correct,
    speed,
)
from minitvm.tir import Allocate, For, Load, PrimFunc, Store, elements, walk

# --- the problems --------------------------------------------------------------------------------


def filters(rows, height, width):
    """Return an image, a filter for each number in `rows`, and out, which adds so many rows."""
    img = te.placeholder((height + max(rows) - 1, width + 2), name="img")

    def mean(y, x):
        return (img[y, x] + img[y, x + 1] + img[y, x + 2]) / 3

    def slope(y, x):
        return img[y, x + 2] - img[y, x]

    stages = [
        te.compute((height + count - 1, width), (mean, slope)[n % 2], name=f"F{n}")
        for n, count in enumerate(rows)
    ]

    def total(y, x):
        return sum(f[y + k, x] for f, count in zip(stages, rows, strict=True) for k in range(count))

    return img, *stages, te.compute((height, width), total, name="out")


def layer(simple, n, depth, m):
    """Return a product, so many simple stages, the sum of each row, and the centred rows."""
    A = te.placeholder((n, depth), name="A")
    B = te.placeholder((depth, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k, c = te.reduce_axis((0, depth), name="k"), te.reduce_axis((0, m), name="c")

    def step(at, last):
        kinds = (
            lambda i, j: last[i, j] + bias[j],
            lambda i, j: te.max(last[i, j], 0.0),
            lambda i, j: last[i, j] * 0.5,
        )
        return kinds[at]

    stages = [te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]
    for at in range(simple):
        stages.append(te.compute((n, m), step(at, stages[-1]), name=f"S{at}"))
    S = stages[-1]
    R = te.compute((n,), lambda i: te.sum(S[i, c], axis=c), name="R")
    D = te.compute((n, m), lambda i, j: S[i, j] - R[i] / m, name="D")
    return A, B, bias, *stages, R, D


def images(rng):
    """Draw two or three filters, and a budget that is just too small for 48 or 64 columns."""
    rows = [int(n) for n in rng.permutation([1, 2, 3, 5])[: int(rng.integers(2, 4))]]
    budget = 4 * sum(kept(n) for n in rows) * int(rng.choice([48, 64])) - 4
    return budget, problem(filters, rows, int(rng.integers(40, 60)), 192)


def layers(rng):
    """Draw sizes where B does not fit into 8 KiB, and a budget for 4 to 9 rows of C and R."""
    n, depth, m = 48, 16 * int(rng.integers(3, 6)), 16 * int(rng.integers(5, 7))
    rows, simple = int(rng.integers(4, 10)), int(rng.integers(1, 4))
    return 4 * (rows + 1) * (m + 1) - 4, problem(layer, simple, n, depth, m)  # just not one more


def wide_images(rng):
    """Draw a budget that is just too small for 384 or 512 columns, both divisors of the width."""
    rows = [int(n) for n in rng.permutation([2, 3])]
    budget = 4 * sum(kept(n) for n in rows) * int(rng.choice([384, 512])) - 4
    return budget, problem(filters, rows, int(rng.integers(40, 60)), 1536)


def large_image(rng):
    rows = [int(n) for n in rng.permutation([2, 3])]
    budget, height = int(rng.integers(9000, 12288)), 256 + 8 * int(rng.integers(0, 9))
    return budget, problem(filters, rows, height, 1024)


# --- what is counted -----------------------------------------------------------------------------


def memory_between(s, tensors):
    """Count the bytes of all memory that is neither an input nor an output; a budget is its own."""
    if isinstance(s, int):
        return s
    loops = s if isinstance(s, PrimFunc) else lower(s, tensors, until="nest")
    found = [n.buffer for n in walk(loops.body) if isinstance(n, Allocate)]
    return sum(elements(b) * b.dtype.bytes for b in found)


def budget_of(budget, *tensors):
    del tensors
    return budget


def operations(s, tensors):
    """Count the arithmetic operations of one run."""
    del tensors
    return record(s).flops


def in_vectors(loops):
    """Check that every sum of C is in a vectorized loop of at least eight iterations."""
    sums = {id(n) for n in stores(loops) if _adds(n) and n.buffer.name == "C"}
    return bool(sums) and sums <= _widely_stored(loops)


def all_in_vectors(loops):
    """Check that two filters are stored, and every store is in a vector loop of at least eight."""
    stored = {n.buffer.name for n in stores(loops)}  # an inlined stage stores nothing
    return {"F0", "F1"} <= stored and {id(n) for n in stores(loops)} <= _widely_stored(loops)


def stores(loops):
    return [n for n in walk(loops.body) if isinstance(n, Store)]


def _widely_stored(loops):
    """Return the ids of the nodes in vectorized loops of at least eight iterations."""
    wide = [
        n
        for n in walk(loops.body)
        if isinstance(n, For) and n.kind == "vectorize" and n.extent >= 8
    ]
    return {id(n) for loop in wide for n in walk(loop.body)}


def _adds(store):
    """Return whether a store has the form C[i, j] = C[i, j] + ..."""
    return any(isinstance(n, Load) and n.buffer is store.buffer for n in walk(store.value))


# --- references ----------------------------------------------------------------------------------


def kept(rows):
    """Return how many rows a window of `rows` rows is kept in: the next power of two."""
    return 1 << (rows - 1).bit_length()


def strips(budget, img, *stages):
    """Return the reference schedule: strips as wide as the budget allows."""
    *producers, out = stages
    rows = sum(kept(p.shape[0] - out.shape[0] + 1) for p in producers)
    widths = range(16, budget // (4 * rows) + 1, 16)
    s = te.create_schedule(out.op)
    y, x = s[out].leaf_iter_vars
    strip, column = s[out].split(x, factor=max(w for w in widths if out.shape[1] % w == 0))
    s[out].reorder(strip, y, column)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], y)
    return s


def row_blocks(budget, A, B, bias, *stages):
    """Return the reference schedule: as many rows of C and R at a time as fit into the budget."""
    C, *simple, R, D = stages
    s = te.create_schedule(D.op)
    for stage in simple:
        s[stage].compute_inline()
    io, _ = s[D].split(s[D].leaf_iter_vars[0], budget // (4 * (D.shape[1] + 1)))
    for stage in (C, R):
        s[stage].compute_at(s[D], io)
    i, j, k = s[C].leaf_iter_vars
    jo, ji = s[C].split(j, 16)
    s[C].reorder(jo, k, i, ji)
    return s


def naive(budget, img, *stages):
    del budget, img
    return te.create_schedule(stages[-1].op)


CACHE = Cache(8 << 10, 64, 8)  # small, as the images are
ASSOCIATIVE = Cache(8 << 10, 64, 128)

# --- puzzles -------------------------------------------------------------------------------------


def turned_blur(height, width):
    """Return an image, its means over three rows, and the means of three of those in a row."""
    img = te.placeholder((height + 2, width + 2), name="img")
    down = te.compute(
        (height, width + 2),
        lambda y, x: (img[y, x] + img[y + 1, x] + img[y + 2, x]) / 3,
        name="down",
    )
    across = te.compute(
        (height, width),
        lambda y, x: (down[y, x] + down[y, x + 1] + down[y, x + 2]) / 3,
        name="across",
    )
    return img, down, across


def some_turned(rng):
    return (problem(turned_blur, *(int(n) for n in rng.integers(5, 12, 2))),)


def one_turned(rng):
    return (problem(turned_blur, 6, 8),)


def one_row(s, down, across):
    s[down].compute_at(s[across], s[across].op.axis[0])


def bytes_of_down(s, tensors):
    """Draw the memory between the stages beside that of root, which is 6 rows of 10 numbers."""
    return viz.ScoreBars({"down": memory_between(s, tensors), "root": 4 * 6 * 10}, "bytes")


def rows_computed(height, rows):
    return height // rows * (rows + 2)


def some_strips(rng):
    """Draw an image of several strips."""
    rows, count = (int(n) for n in rng.integers(2, 9, 2))
    return rows * count, rows


def rows_of_strips(value, arguments):
    """Draw the rows computed in strips beside those of two other places."""
    height = arguments[0]
    others = {"root": height + 2, "compute_at y": 3 * height}
    return viz.ScoreBars({"strips": abs(int(value)), **others}, "rows of blurx computed")


def second_transposed(n, depth):
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((n, depth), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return A, B, C, D


def some_second(rng):
    return (problem(second_transposed, 16 * int(rng.integers(2, 5)), 64),)


def one_second(rng):
    return (problem(second_transposed, 64, 64),)


def rows_of_b(s, C, D):
    _, jo, _, _ = s[D].tile(*s[D].op.axis, 16, 16)
    s[C].compute_at(s[D], jo)
    (i, j), (k,) = s[C].op.axis, s[C].op.reduce_axis
    s[C].reorder(j, i, k)


# --- the challenge -------------------------------------------------------------------------------


def two_layers(n, depth, m, width):
    """Return two products in a row, with ReLU in between: P = A B, E = max(P, 0), F = E C."""
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    C = te.placeholder((m, width), name="C")
    k, r = te.reduce_axis((0, depth), name="k"), te.reduce_axis((0, m), name="r")
    P = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="P")
    E = te.compute((n, m), lambda i, j: te.max(P[i, j], 0.0), name="E")
    F = te.compute((n, width), lambda i, j: te.sum(E[i, r] * C[r, j], axis=r), name="F")
    return A, B, C, P, E, F


def misses_of_layers(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the misses of the schedule; drawn sizes are multiples of 8."""
    sizes = (8 * int(n) for n in rng.integers(4, 9, 4))
    s, tensors = right_schedule(answer, (problem(two_layers, *sizes),), rng)
    return misses(CACHE)(s, tensors)


def at_root(A, B, C, P, E, F):
    return te.create_schedule(F.op)


def eight_rows(A, B, C, P, E, F):
    s = te.create_schedule(F.op)
    s[E].compute_inline()
    i, j, r = s[F].leaf_iter_vars
    io, ii = s[F].split(i, factor=8)
    s[F].reorder(io, r, ii, j)
    s[P].compute_at(s[F], io)
    i, j, k = s[P].leaf_iter_vars
    s[P].reorder(k, i, j)
    return s


EXERCISE = Exercise(
    "ex05",
    "compute_at_fusion_vectors",
    (
        Item(
            "ex05.1",
            "filters within a budget",
            6,
            "sliding",
            (
                schedule_correct(
                    images, weight=0.0, why="what is kept must cover all rows that out reads"
                ),
                required(
                    at_most(
                        memory_between,
                        budget_of,
                        images,
                        worst=1.5,
                        unit="bytes of memory for the filters",
                        message="too-much-memory",
                        title="the filters together take the budget at most",
                        weight=0.3,
                        why="each filter keeps its window, in a power of two of rows; a row is as"
                        " long as the strip that the loops below store_at work on",
                    )
                ),
                required(
                    at_most(
                        operations,
                        strips,
                        images,
                        factor=1.025,
                        worst=1.3,
                        unit="operations",
                        message="too-much-recompute",
                        title="1.025 times the operations of the naive loops at most",
                        weight=0.3,
                        why="rows are computed again where nothing is kept from one row of out to"
                        " the next",
                    )
                ),
                at_most(
                    misses(CACHE),
                    strips,
                    images,
                    factor=1.1,
                    worst=4.0,
                    title="at most 1.1 times the misses of the widest strips in the budget",
                    weight=0.4,
                    why="the lines at the edge of a strip are fetched twice, so narrow strips fetch"
                    " more; and a walk down the columns fetches each line many times",
                ),
            ),
            (
                "How many rows does out read of each filter? The shapes tell. A window of that many"
                " rows is kept in the next power of two.",
                "All windows are as wide as the strip, so a column of the strip takes 4 bytes times"
                " the sum of their rows. How many columns does the budget allow, in multiples of 16"
                " that divide the width?",
                "rows = 1 << (p.shape[0] - out.shape[0]).bit_length() for each filter p. Then"
                " strip, column = split(x, factor=...); reorder(strip, y, column); and in a loop"
                " over the filters store_at strip and compute_at y.",
            ),
            "notebook 05, section 3",
        ),
        Item(
            "ex05.2",
            "a layer with a mean",
            4,
            "layer",
            (
                schedule_correct(
                    layers, weight=0.0, why="each sum must be complete before a stage reads it"
                ),
                required(
                    at_most(
                        memory_between,
                        budget_of,
                        layers,
                        worst=1.5,
                        unit="bytes between the stages",
                        message="too-much-memory",
                        title="no more than the budget between the stages",
                        weight=0.3,
                        why="a stage at root is stored as a whole and read again; C and R cannot"
                        " be inlined, as they are reductions, but simple stages can; copies count",
                    )
                ),
                facts(
                    layers,
                    (
                        Fact(
                            "vectors",
                            "the loop around each multiply-add of C is vectorized, 8 or more wide",
                            in_vectors,
                            "k is a reduce axis: put a data axis innermost, and vectorize that",
                        ),
                    ),
                    of="loops",
                    until="nest",
                    title="multiply-adds in vectors",
                    weight=0.3,
                ),
                at_most(
                    misses(ASSOCIATIVE),
                    row_blocks,
                    layers,
                    factor=1.25,
                    worst=2.5,
                    weight=0.4,
                    title="at most 1.25 times the misses of our schedule",
                    why="all of B is loaded for each block of rows: the more rows a block has, the"
                    " fewer blocks there are, and inside of one each line of B should come once",
                ),
            ),
            (
                "R needs whole rows. At which loop of D does one have whole rows, but not"
                " the whole matrix?",
                "Simple stages can be inlined. Split the rows of D, and compute C and R at the"
                " outer loop. A row takes 4 * (m + 1) bytes: m numbers of C, and one of R.",
                "rows = budget // (4 * (D.shape[1] + 1)). In C, split j by 16, reorder to jo, k, i,"
                " ji, and vectorize ji: a line of B serves all rows of the block at once.",
            ),
            "notebook 05, section 4",
        ),
        Item(
            "ex05.3",
            "twice as fast, within a budget",
            4,
            "fast",
            (
                schedule_correct(images, weight=0.0, why="widths are multiples of 32"),
                required(
                    at_most(
                        memory_between,
                        budget_of,
                        wide_images,
                        worst=1.5,
                        unit="bytes of memory for the filters",
                        message="too-much-memory",
                        title="the filters take the budget at most, and stay in the cache",
                        weight=0.2,
                        why="rows of a filter are as long as the loops below store_at are wide: the"
                        " strips of notebook 05 are as wide as the image",
                    )
                ),
                required(
                    facts(
                        wide_images,
                        (
                            Fact(
                                "vectors",
                                "all stages in vectorized loops, 8 or more wide",
                                all_in_vectors,
                                "vectorize an inner loop along x of out, and one of each filter; an"
                                " inlined filter is no stage any more",
                            ),
                        ),
                        of="loops",
                        until="nest",
                        title="all stages in vectors",
                        weight=0.2,
                    )
                ),
                speed(
                    naive,
                    large_image,
                    ratio=0.5,
                    worst=1.0,
                    title="at most half the time of the naive loops, on one core",
                    weight=0.6,
                    why="all stages must run in vectors: the slowest one decides",
                ),
            ),
            (
                "Vectors gain most. Which loop of each stage walks along the memory?",
                "Strips as in ex05.1, and then a loop over all stages, the filters and out: split"
                " the innermost loop by 16, and vectorize the inner part.",
                "The width of a strip: a multiple of 16 that divides the width of out, with 4 bytes"
                " times all kept rows within the budget. _, lane = split(column, factor=16) of out,"
                " where column is what is left of x in a strip; split(p.op.axis[1], factor=16) of"
                " each filter p.",
            ),
            "notebook 05, section 6",
        ),
    ),
    puzzles=(
        Puzzle(
            "05.row",
            "a row at a time",
            "one_row",
            (
                schedule_correct(some_turned),
                at_most(
                    operations,
                    on_schedule(one_row),
                    some_turned,
                    unit="operations",
                    message="too-much-recompute",
                    why="neighbours in a row share values of down, so a row of them belongs"
                    " together",
                ),
                at_most(
                    memory_between,
                    on_schedule(one_row),
                    some_turned,
                    unit="bytes of down",
                    message="too-much-memory",
                    why="which rows of down does one row of across read?",
                ),
            ),
            one_turned,
            one_row,
            (
                "Which loop of across has iterations that share no value of down?",
                "Rows of across share none: s[down].compute_at(s[across], ...).",
            ),
            "notebook 05, section 1",
            picture=bytes_of_down,
            cost=memory_between,
            unit="bytes of down",
        ),
        Puzzle(
            "05.strips",
            "rows of strips",
            "rows_computed",
            (equal(rows_computed, some_strips, why="each strip starts from its own first row"),),
            lambda rng: (48, 8),
            rows_computed,
            ("A strip of 8 rows of out reads 10 rows of blurx. How many strips are there?",),
            "notebook 05, section 3",
            of="value",
            picture=rows_of_strips,
            cost=lambda rows, arguments: int(rows),
            unit="rows of blurx",
        ),
        Puzzle(
            "05.tile",
            "a row for a whole tile",
            "rows_of_b",
            (
                schedule_correct(some_second, cases=1),
                at_most(
                    misses(CACHE),
                    on_schedule(rows_of_b),
                    some_second,
                    why="j chooses the row of B; the rows of A stay for all of them",
                ),
            ),
            one_second,
            rows_of_b,
            (
                "j chooses a row of B, and i one of A. Which loop has to be the outermost?",
                "For each j go through all i: s[C].reorder(j, ..., ...).",
            ),
            "notebook 05, section 4",
            picture=misses_picture(CACHE),
            cost=misses(CACHE),
        ),
    ),
    challenge=Challenge(
        "05.challenge",
        "two layers in a row",
        "layers",
        "cache misses",
        misses_of_layers,
        at_root,
        eight_rows,
        best_known=1920,  # the best of 100 random blocks and orders
        hints=(
            "Inside of a loop over blocks of rows of F, which part of P is computed?",
            "All of B and of C is fetched for each block of rows: taller blocks fetch less, until"
            " a block and what passes by no longer fit into 128 lines.",
        ),
        section="notebook 05, section 4",
    ),
)
