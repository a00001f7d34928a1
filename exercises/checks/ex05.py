# pyright: basic
# (the source of problems runs in students' processes as it is, so it has no type hints)

"""Exercise 05: where a value is computed, what it costs there, and loops as vectors."""

from minitvm import te
from minitvm.cachesim import Cache
from minitvm.driver import lower
from minitvm.edu import (
    Exercise,
    Fact,
    Item,
    at_most,
    facts,
    misses,
    problem,
    record,
    required,
    schedule_correct,
    speed,
)
from minitvm.tir import Allocate, For, Load, PrimFunc, Store, elements, walk

# --- the problems --------------------------------------------------------------------------------


def blur(height, width):
    img = te.placeholder((height + 2, width + 2), name="img")
    blurx = te.compute(
        (height + 2, width),
        lambda y, x: (img[y, x] + img[y, x + 1] + img[y, x + 2]) / 3,
        name="blurx",
    )
    out = te.compute(
        (height, width),
        lambda y, x: (blurx[y, x] + blurx[y + 1, x] + blurx[y + 2, x]) / 3,
        name="out",
    )
    return img, blurx, out


def layer(n, depth, m):
    A = te.placeholder((n, depth), name="A")
    B = te.placeholder((depth, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    S = te.compute((n, m), lambda i, j: C[i, j] + bias[j], name="S")
    D = te.compute((n, m), lambda i, j: te.max(S[i, j], 0.0), name="D")
    return A, B, bias, C, S, D


def images(rng):
    return (problem(blur, int(rng.integers(60, 100)), 32 * int(rng.integers(2, 5))),)


def layers(rng):
    n, depth, m = (16 * int(x) for x in rng.integers(2, 6, 3))
    return (problem(layer, n, depth, m),)


def wide_images(rng):
    return (problem(blur, int(rng.integers(40, 60)), 512 * int(rng.integers(2, 4))),)


def large_image(rng):
    return (problem(blur, 256 + 8 * int(rng.integers(0, 9)), 1024),)


# --- what is counted -----------------------------------------------------------------------------


def memory_between(s, tensors):
    """Count the bytes of all memory that is neither an input nor an output."""
    loops = s if isinstance(s, PrimFunc) else lower(s, tensors, until="nest")
    found = [n.buffer for n in walk(loops.body) if isinstance(n, Allocate)]
    return sum(elements(b) * b.dtype.bytes for b in found)


def operations(s, tensors):
    """Count the arithmetic operations of one run."""
    del tensors
    return record(s).flops


def in_vectors(loops):
    """Check that every multiply-add is in a vectorized loop of at least eight iterations."""
    sums = {id(n) for n in stores(loops) if _adds(n)}
    return bool(sums) and sums <= _widely_stored(loops)


def all_in_vectors(loops):
    """Check that blurx is stored, and every store in a vector loop of at least eight iterations."""
    stored = {n.buffer.name for n in stores(loops)}  # an inlined stage stores nothing
    return "blurx" in stored and {id(n) for n in stores(loops)} <= _widely_stored(loops)


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


def two_strips(img, blurx, out):
    """Return the reference schedule: two halves of the image, each with four rows of blurx."""
    s = te.create_schedule(out.op)
    y, x = s[out].leaf_iter_vars
    strip, column = s[out].split(x, nparts=2)
    s[out].reorder(strip, y, column)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], y)
    return s


def tiled_layer(A, B, bias, C, S, D):
    """Return the reference schedule: tiles of 16 x 16, which take 1024 bytes."""
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    _, jo, _, _ = s[D].tile(*s[D].leaf_iter_vars, 16, 16)
    s[C].compute_at(s[D], jo)
    return s


def narrow_strips(img, blurx, out):
    """Return the reference schedule: strips of 512 columns with four rows of blurx, 8192 bytes."""
    s = te.create_schedule(out.op)
    y, x = s[out].leaf_iter_vars
    strip, column = s[out].split(x, factor=512)
    s[out].reorder(strip, y, column)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], y)
    return s


def naive(img, blurx, out):
    return te.create_schedule(out.op)


CACHE = Cache(4 << 10, 64, 8)  # small, as the images are

EXERCISE = Exercise(
    "ex05",
    "compute_at_fusion_vectors",
    (
        Item(
            "ex05.1",
            "a blur in two rows",
            6,
            "sliding",
            (
                schedule_correct(
                    images, weight=0.0, why="what is kept must cover all three rows that out reads"
                ),
                required(
                    at_most(
                        memory_between,
                        two_strips,
                        images,
                        worst=3.0,
                        unit="bytes of memory for blurx",
                        message="too-much-memory",
                        title="blurx takes two rows of memory at most",
                        weight=0.3,
                        why="a window of 3 rows is kept in 4; a row is as long as the strip that"
                        " the loops below store_at work on",
                    )
                ),
                required(
                    at_most(
                        operations,
                        two_strips,
                        images,
                        factor=1.025,  # blurx is half of the work: 5 % of it
                        worst=1.3,
                        unit="operations",
                        message="too-much-recompute",
                        title="blurx is computed 1.05 times at most",
                        weight=0.3,
                        why="rows of blurx are computed again where nothing is kept from one row"
                        " of out to the next",
                    )
                ),
                at_most(
                    misses(CACHE),
                    two_strips,
                    images,
                    factor=1.5,
                    worst=4.0,
                    weight=0.4,
                    why="a strip that is narrower than a cache line, or a walk down the columns,"
                    " fetches each line many times",
                ),
            ),
            (
                "store_at keeps four rows of the width of the strip. How wide may a strip be?",
                "Split x into two parts, and go down each part before you begin the next.",
                "strip, column = split(x, nparts=2); reorder(strip, y, column); then store_at strip"
                " and compute_at y.",
            ),
            "notebook 05, section 3",
        ),
        Item(
            "ex05.2",
            "a layer without a round trip",
            4,
            "layer",
            (
                schedule_correct(layers, weight=0.0, why="each sum of C is needed as a whole"),
                required(
                    at_most(
                        memory_between,
                        tiled_layer,
                        layers,
                        worst=3.0,
                        unit="bytes between the stages",
                        message="too-much-memory",
                        title="no more than a tile of 16 x 16 between the stages",
                        weight=0.4,
                        why="a stage at root is stored as a whole and read again; C cannot be"
                        " inlined, as it is a reduction, but S can; and copies of inputs count",
                    )
                ),
                facts(
                    layers,
                    (
                        Fact(
                            "vectors",
                            "the loop around each multiply-add is vectorized, 8 or more wide",
                            in_vectors,
                            "k is a reduce axis: put a data axis innermost, and vectorize that",
                        ),
                    ),
                    of="loops",
                    until="nest",
                    title="multiply-adds in vectors",
                    weight=0.6,
                ),
            ),
            (
                "Two stages are in between. One can be inlined, the other computed at a tile.",
                "s[S].compute_inline(), then tile D and put C inside, at the inner of the two loops"
                " over tiles.",
                "After tile(i, j, 16, 16) and compute_at: reorder C so that k comes first and its j"
                " last, and vectorize j.",
            ),
            "notebook 05, section 4",
        ),
        Item(
            "ex05.3",
            "twice as fast, in 8 KiB",
            4,
            "fast",
            (
                schedule_correct(images, weight=0.0, why="widths are multiples of 32"),
                required(
                    at_most(
                        memory_between,
                        narrow_strips,
                        wide_images,
                        worst=1.5,
                        unit="bytes of memory for blurx",
                        message="too-much-memory",
                        title="blurx takes 8 KiB at most, so that it stays in the cache",
                        weight=0.2,
                        why="rows of blurx are as long as the loops below store_at are wide: the"
                        " strips of notebook 05 are as wide as the image",
                    )
                ),
                required(
                    facts(
                        wide_images,
                        (
                            Fact(
                                "vectors",
                                "both stages in vectorized loops, 8 or more wide",
                                all_in_vectors,
                                "vectorize an inner loop along x of out, and one of blurx; an"
                                " inlined blurx is no stage any more",
                            ),
                        ),
                        of="loops",
                        until="nest",
                        title="both stages in vectors",
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
                    why="both stages must run in vectors: the slower one decides",
                ),
            ),
            (
                "Vectors gain most. Which loop of each stage walks along the memory?",
                "Split x of out and x of blurx by 16, and vectorize the inner loops. For the"
                " memory, cut the image into strips along x as in ex05.1: 4 rows of 512 numbers"
                " are 8 KiB.",
                "strip, x = split(x, factor=512); column, lane = split(x, factor=16);"
                " reorder(strip, y, column, lane); vectorize lane; store_at strip and compute_at y;"
                " then split the last axis of blurx by 16 and vectorize it, too.",
            ),
            "notebook 05, section 6",
        ),
    ),
)
