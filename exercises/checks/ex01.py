# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 01: operators as formulas, and what a part of the result reads."""

from itertools import product

import numpy as np

from minitvm import te, tir, viz
from minitvm.edu import (
    Answer,
    Challenge,
    Exercise,
    Item,
    NumberGrid,
    Outcome,
    Puzzle,
    Rng,
    equal,
    failed,
    formula,
    problem,
)
from minitvm.tensor import loads

# --- conv2d and depthwise ------------------------------------------------------------------------


def image_and_filters(channels, height, width, filters, kernel):
    data = te.placeholder((channels, height, width), name="data")
    weight = te.placeholder((filters, channels, kernel, kernel), name="weight")
    return data, weight


def image_and_planes(channels, height, width, kernel):
    data = te.placeholder((channels, height, width), name="data")
    weight = te.placeholder((channels, kernel, kernel), name="weight")
    return data, weight


def conv_arguments(rng):
    c, f = (int(n) for n in rng.integers(1, 5, 2))
    h, w = (int(n) for n in rng.integers(5, 11, 2))
    kernel, stride = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    return problem(image_and_filters, c, h, w, f, kernel), stride


def depthwise_arguments(rng):
    c, kernel, stride = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    h, w = (int(n) for n in rng.integers(5, 11, 2))
    return problem(image_and_planes, c, h, w, kernel), stride


def windows(data, kernel, stride):
    """Return data[c, y*stride + dy, x*stride + dx] as an array [c, y, x, dy, dx]."""
    view = np.lib.stride_tricks.sliding_window_view(data, (kernel, kernel), axis=(1, 2))
    return view[:, ::stride, ::stride]


def conv2d(data, weight, stride):
    return np.einsum("cyxij,fcij->fyx", windows(data, weight.shape[2], stride), weight)


def depthwise(data, weight, stride):
    return np.einsum("cyxij,cij->cyx", windows(data, weight.shape[1], stride), weight)


# --- softmax -------------------------------------------------------------------------------------


def rows(n, m):
    return te.placeholder((n, m), name="X")


def softmax_arguments(rng):
    n, m = (int(x) for x in rng.integers(2, 9, 2))
    return (problem(rows, n, m),)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# --- footprints ----------------------------------------------------------------------------------


def stencil(n, m, dy, dx, step):
    A = te.placeholder((n * step + dy, m + dx), name="A")
    W = te.placeholder((dy, dx), name="W")
    ry, rx = te.reduce_axis((0, dy), name="ry"), te.reduce_axis((0, dx), name="rx")
    return te.compute(
        (n, m), lambda y, x: te.sum(A[y * step + ry, x + rx] * W[ry, rx], axis=[ry, rx]), name="C"
    )


def tile_arguments(rng):
    """Draw a stencil and two tiles; neither begins at 0, and their extents differ."""
    n, m = (int(x) for x in rng.integers(6, 11, 2))
    dy, dx, step = (int(x) for x in rng.integers(1, 5, 3))
    return problem(stencil, n, m, dy, dx, step), drawn(rng, n, m), drawn(rng, n, m)


def drawn(rng, *sizes):
    """Draw a tile as (start, extent) for each dimension, with start > 0."""
    starts = [int(rng.integers(1, size // 2 + 1)) for size in sizes]
    return [(s, int(rng.integers(2, size - s + 1))) for s, size in zip(starts, sizes, strict=True)]


def read_by(C, tile):
    """Return the elements that a tile of C reads, as (tensor name, indices)."""
    inside = [range(a.extent) for a in C.op.reduce_axis]
    found = set()
    for point in product(*(range(s, s + e) for s, e in tile), *inside):
        at = dict(zip((*C.op.axis, *C.op.reduce_axis), point, strict=True))
        for load in loads(C.op):
            found.add((load.buffer.name, tuple(tir.substitute(i, at) for i in load.indices)))
    return found


def fetched(C, tile, before):
    """Return tensor name -> number of elements that `tile` reads and `before` did not read."""
    now = read_by(C, tile)
    new = [name for name, _ in now - read_by(C, before)]
    return {name: new.count(name) for name, _ in now}


WINDOW = (
    "output y, x reads the window that starts at y*stride, x*stride, in all channels: how many "
    "windows fit into the data?"
)

# --- puzzles -------------------------------------------------------------------------------------


def row(n):
    return te.placeholder((n,), name="X")


def some_row(rng):
    return (problem(row, int(rng.integers(3, 12))),)


def symmetric(X):
    n = X.shape[0]
    return te.compute((n,), lambda i: (X[i] + X[n - 1 - i]) / 2, name="Y")


def some_rows(rng):
    n, m = (int(x) for x in rng.integers(2, 8, 2))
    return (problem(rows, n, m),)


def dot_products(X):
    n, m = X.shape
    k = te.reduce_axis((0, n), name="k")
    return te.compute((m, m), lambda i, j: te.sum(X[k, i] * X[k, j], axis=k), name="G")


def read_by_one(C, arguments):
    """Count the elements that the element 1 of a row, or 0, 1 of a matrix, reads."""
    at = [1] if len(C.shape) == 1 else [0, 1]
    return float(sum(map(len, viz.footprint(C, at).values())))


def lens(C, arguments):
    """Draw how the element 1 of a row, or 0, 1 of a matrix, reads X: 1 where it does."""
    at = [1] if len(C.shape) == 1 else [0, 1]
    ((X, places),) = viz.footprint(C, at).items()
    grid = np.full(X.shape, -1)
    grid[tuple(np.transpose(places))] = 1
    return NumberGrid(f"the elements of X that {C.op.name}[{', '.join(map(str, at))}] reads", grid)


def some_tile(rng):
    return tuple(int(n) for n in rng.integers(1, 40, 2))


def blur_reads(height, width):
    return (height + 2) * (width + 2)


def beside_windows(count, tile):
    """Draw what a tile reads beside what its elements read, each counted by itself."""
    name = "{} x {}".format(*tile)
    each = 9.0 * tile[0] * tile[1]
    return viz.ScoreBars({name: float(count), "one by one": each}, "elements read")


# --- the challenge -------------------------------------------------------------------------------


def fetched_in_all(answer: Answer, rng: Rng) -> float | Outcome:
    """Count the elements that the tiles of a product fetch; each keeps only what it reads."""
    rows, columns, depth, lines = (int(n) for n in rng.integers((30, 30, 8, 9), (60, 60, 16, 18)))
    memory = lines * depth
    count, kept = np.zeros((rows, columns), int), (set(), set())
    total = 0
    for tile in answer(rows, columns, depth, memory):
        spans = [range(int(start), int(start) + int(extent)) for start, extent in tile]
        if any(s.start < 0 or s.stop > n for s, n in zip(spans, (rows, columns), strict=True)):
            return failed("wrong-value", "tiles inside of the result", f"{tile}")
        if sum(map(len, spans)) * depth > memory:
            got = f"{tile} reads {sum(map(len, spans)) * depth}"
            return failed("too-much-memory", f"tiles that read at most {memory} elements", got)
        count[spans[0].start : spans[0].stop, spans[1].start : spans[1].stop] += 1
        now = set(spans[0]), set(spans[1])
        total += depth * sum(len(new - old) for new, old in zip(now, kept, strict=True))
        kept = now
    if (count != 1).any():
        where = f"element {[int(n) for n in np.argwhere(count != 1)[0]]}"
        wrong = f"{int(count[count != 1][0])} times"
        return failed("wrong-value", "each element in one tile", wrong, where=where)
    return float(total)


def grid_of_tiles(height, width, rows, columns):
    return [
        ((i, min(height, rows - i)), (j, min(width, columns - j)))
        for i in range(0, rows, height)
        for j in range(0, columns, width)
    ]


def single_elements(rows, columns, depth, memory):
    return grid_of_tiles(1, 1, rows, columns)


def squares(rows, columns, depth, memory):
    side = memory // depth // 2
    return grid_of_tiles(side, side, rows, columns)


EXERCISE = Exercise(
    "ex01",
    "tensor_expressions",
    (
        Item(
            "ex01.1",
            "a convolution",
            2,
            "conv2d",
            (formula(conv2d, conv_arguments, why=WINDOW),),
            (
                "Three reduce axes: the input channel, and the row and column in the window.",
                "The height of the result is (height - kernel) // stride + 1, the width likewise.",
                "Sum data[c, y*stride + dy, x*stride + dx] * weight[f, c, dy, dx] over c, dy, dx.",
            ),
            "notebook 01, section 3",
        ),
        Item(
            "ex01.2",
            "a depthwise convolution",
            2,
            "depthwise",
            (
                formula(
                    depthwise,
                    depthwise_arguments,
                    why="every channel has a filter of its own: nothing is summed over channels",
                ),
            ),
            (
                "It is the convolution of ex01.1 with one reduce axis less.",
                "The channel of the result is the channel of the data and of the weight.",
                "Sum data[c, y*stride + dy, x*stride + dx] * weight[c, dy, dx] over dy and dx.",
            ),
            "notebook 01, section 3",
        ),
        Item(
            "ex01.3",
            "softmax, piece by piece",
            2,
            "softmax",
            (
                formula(
                    softmax,
                    softmax_arguments,
                    rtol=1e-5,
                    atol=1e-6,
                    weight=0.3,
                    why="each row is a softmax of its own: its elements add up to 1",
                ),
                formula(
                    softmax,
                    softmax_arguments,
                    title="the same where exp(x) is larger than any float32",
                    rtol=1e-5,
                    atol=1e-6,
                    weight=0.7,
                    cases=6,
                    largest=300.0,
                    why="before exp, subtract from each row its own largest element",
                ),
            ),
            (
                "Four computes: the largest of each row, exponentials, their sum, the quotient.",
                "A reduction is the whole body of a te.compute; the next one reads its result.",
                "top[i] = max of X[i, k]; e[i, j] = te.exp(X[i, j] - top[i]); s[i] = the sum of"
                " e[i, k]; the result is e[i, j] / s[i].",
            ),
            "notebook 01, section 4",
        ),
        Item(
            "ex01.4",
            "what a tile has to fetch",
            4,
            "fetched",
            (
                equal(
                    fetched,
                    tile_arguments,
                    title="elements to fetch, for random stencils and pairs of tiles",
                    cases=8,
                    why="neighbouring outputs share what they read: each element counts once, and"
                    " not at all if `before` has read it; a tile is given by (start, extent), not"
                    " by (start, stop), and it need not start at 0",
                ),
            ),
            (
                "What does a tile of one element read? reads(C, point) in the notebook tells.",
                "Join the sets of all points of a tile. Make two such sets, one for each tile, and"
                " take what is in the first but not in the second.",
                "itertools.product(*(range(start, start + extent) for start, extent in tile)) are"
                " the points; a set keeps each element once; now - earlier is the difference. Do"
                " not forget an input of which nothing is new: its number is 0.",
            ),
            "notebook 01, section 5",
        ),
    ),
    puzzles=(
        Puzzle(
            "01.symmetric",
            "a row and its mirror image",
            "symmetric",
            (
                formula(
                    lambda x: (x + x[::-1]) / 2,
                    some_row,
                    why="the mirror image of the first element is the last one, X[n - 1]",
                ),
            ),
            lambda rng: (problem(row, 8),),
            symmetric,
            (
                "Element 0 reads X[0] and X[n - 1], element 1 reads X[1] and X[n - 2].",
                "The mirror image of X[i] is X[n - 1 - i].",
            ),
            "notebook 01, section 1",
            of="value",
            picture=lens,
            cost=read_by_one,
            unit="elements read by Y[1]",
        ),
        Puzzle(
            "01.columns",
            "all dot products of columns",
            "dot_products",
            (
                formula(
                    lambda x: x.T @ x,
                    some_rows,
                    why="the sum runs down two columns, so k is the first index of X",
                ),
            ),
            lambda rng: (problem(rows, 5, 4),),
            dot_products,
            (
                "The fourth formula above reads two rows. What do two columns have in common?",
                "A sum over k, of X[k, i] and another element of X.",
            ),
            "notebook 01, section 3",
            of="value",
            picture=lens,
            cost=read_by_one,
            unit="elements read by G[0, 1]",
        ),
        Puzzle(
            "01.window",
            "what a tile of a blur reads",
            "blur_reads",
            (
                equal(
                    blur_reads,
                    some_tile,
                    why="neighbouring windows share what they read, and count it once",
                ),
            ),
            lambda rng: (8, 8),
            blur_reads,
            (
                "One element reads 3 x 3, and a tile of 2 x 2 reads 4 x 4.",
                "A tile reads two rows and two columns more than it has.",
            ),
            "notebook 01, section 5",
            of="value",
            picture=beside_windows,
            cost=lambda count, tile: float(count),
            unit="elements read",
        ),
    ),
    challenge=Challenge(
        "01.challenge",
        "the tiles of a product, in a good order",
        "tiles",
        "elements fetched",
        fetched_in_all,
        single_elements,
        squares,
        best_known=1971,  # the best of all tiles, wound along rows or down columns
        hints=(
            "What a tile shares with the one before it costs nothing. Which side of the tile is"
            " shared, and how long should it be?",
            "At the end of a row of tiles, go on with the tile below, and walk back.",
        ),
        section="notebook 01, section 5",
    ),
)
