"""Frozen tables: small search spaces in which every candidate has been measured.

    python benchmarks/tables.py measure matmul     measure a table; the same command resumes
    python benchmarks/tables.py trials             trials to 95 % of the best: random and default

A table is a file in minitvm/tune/tables: the options of each knob, and the seconds of each
candidate by its number. Searches on a table need no machine to measure on, take no time for it,
and give the same result everywhere.
"""

from __future__ import annotations

from minitvm import autotvm, te

LANES = 16  # of the vectors that are counted


def unrolled(c, vector, inner, outer):
    """Return how many vectors of results the unrolled loops of a configuration name."""
    first, second = (
        loop if c["order"].perm == (0, 1) else other
        for loop, other in ((inner, outer), (outer, inner))
    )
    count = -(-vector.size[-1] // LANES)
    for loop, ann in zip((first, second), c["unroll"].anns, strict=True):
        count *= loop.size[-1] if ann == "unroll" else 1
    return count


@autotvm.template("tables/matmul")
def matmul(n):
    """Multiply two square matrices; n is a multiple of 256."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    y, x = s[C].op.axis
    rows, columns = s[tile].op.axis
    (k,) = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=32)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 128)
    cfg.define_split("tile_k", k, num_outputs=2, max_factor=8)
    cfg.define_reorder("order", [0, 1], "all")
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("pack", [0, 1])
    cfg.multi_filter(lambda c: unrolled(c, c["tile_x"], c["tile_k"], c["tile_y"]) <= 256)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(xo, yo, yi, xi)
    s[C].vectorize(xi)
    s[tile].compute_at(s[C], yo)
    ko, ki = cfg["tile_k"].apply(s, tile, k)
    inner = cfg["order"].apply(s, tile, [ki, rows])
    s[tile].reorder(ko, *inner, columns)
    cfg["unroll"].apply(s, tile, inner)
    s[tile].vectorize(columns)
    if cfg["pack"].val:
        width = cfg["tile_x"].size[-1]
        strip = s.cache_read(B, "global", [tile])
        s[strip].transform_layout(lambda k, j: (j // width, k, j % width))
        s[strip].compute_at(s[C], xo)
        s[strip].vectorize(s[strip].op.axis[1])
    return s, [A, B, C]


@autotvm.template("tables/conv2d")
def conv2d(size, channels, filters):
    """Convolve an image [1, size, size, channels] with 3 x 3 kernels; the padding is inside."""
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels, filters), name="kernel")
    padded = te.compute(
        (1, size + 2, size + 2, channels),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= 1, y <= size, x >= 1, x <= size), data[n, y - 1, x - 1, c], 0.0
        ),
        name="padded",
    )
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    c = te.reduce_axis((0, channels), name="c")
    out = te.compute(
        (1, size, size, filters),
        lambda n, y, x, f: te.sum(
            padded[n, y + dy, x + dx, c] * kernel[dy, dx, c, f], axis=[dy, dx, c]
        ),
        name="out",
    )
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    n, y, x, f = s[out].op.axis
    _, rows, columns, vector = s[tile].op.axis
    dy, dx, c = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_split("tile_f", f, num_outputs=2, filter=lambda e: 16 <= e.size[-1] <= 128)
    cfg.define_split("tile_c", c, num_outputs=2, max_factor=8)
    cfg.define_reorder("order", [0, 1], "all")
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("kernel", ["outside", "inside"])
    cfg.multi_filter(lambda c: unrolled(c, c["tile_f"], c["tile_c"], c["tile_x"]) <= 256)

    xo, xi = cfg["tile_x"].apply(s, out, x)
    fo, fi = cfg["tile_f"].apply(s, out, f)
    s[out].reorder(n, fo, y, xo, xi, fi)
    s[out].vectorize(fi)
    s[tile].compute_at(s[out], xo)
    co, ci = cfg["tile_c"].apply(s, tile, c)
    inner = cfg["order"].apply(s, tile, [ci, columns])
    around = [dy, dx, co] if cfg["kernel"].val == "outside" else [co, dy, dx]
    s[tile].reorder(*around, rows, *inner, vector)
    cfg["unroll"].apply(s, tile, inner)
    s[tile].vectorize(vector)
    s[padded].vectorize(s[padded].op.axis[3])
    return s, [data, kernel, out]


@autotvm.template("tables/depthwise")
def depthwise(size, channels):
    """Convolve each channel of an image [1, size, size, channels] with its own 3 x 3 kernel."""
    data = te.placeholder((1, size, size, channels), name="data")
    kernel = te.placeholder((3, 3, channels), name="kernel")
    padded = te.compute(
        (1, size + 2, size + 2, channels),
        lambda n, y, x, c: te.if_then_else(
            te.all(y >= 1, y <= size, x >= 1, x <= size), data[n, y - 1, x - 1, c], 0.0
        ),
        name="padded",
    )
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    out = te.compute(
        (1, size, size, channels),
        lambda n, y, x, c: te.sum(padded[n, y + dy, x + dx, c] * kernel[dy, dx, c], axis=[dy, dx]),
        name="out",
    )
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    n, y, x, c = s[out].op.axis
    _, rows, columns, vector = s[tile].op.axis
    dy, dx = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=8)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=14)
    cfg.define_split("tile_c", c, num_outputs=2, filter=lambda e: 16 <= e.size[-1] <= 64)
    cfg.define_annotate("unroll", [0, 1], "try_unroll")
    cfg.define_knob("kernel", ["outside", "inside"])
    cfg.define_knob("padded", ["before", "each"])
    cfg.multi_filter(lambda c: points(c) <= 64)

    yo, yi = cfg["tile_y"].apply(s, out, y)
    xo, xi = cfg["tile_x"].apply(s, out, x)
    co, ci = cfg["tile_c"].apply(s, out, c)
    s[out].reorder(n, co, yo, xo, yi, xi, ci)
    s[out].vectorize(ci)
    s[tile].compute_at(s[out], xo)
    inside = cfg["kernel"].val == "inside"
    s[tile].reorder(*([rows, columns, dy, dx] if inside else [dy, dx, rows, columns]), vector)
    cfg["unroll"].apply(s, tile, [rows, columns])
    if inside:
        s[tile].unroll(dy)
        s[tile].unroll(dx)
    s[tile].vectorize(vector)
    if cfg["padded"].val == "each":
        s[padded].compute_inline()
    else:
        s[padded].vectorize(s[padded].op.axis[3])
    return s, [data, kernel, out]


def points(c):
    """Return how many vectors of results the unrolled loops of a configuration name."""
    count = -(-c["tile_c"].size[-1] // LANES)
    for knob, ann in zip(("tile_y", "tile_x"), c["unroll"].anns, strict=True):
        count *= c[knob].size[-1] if ann == "unroll" else 1
    return count * (9 if c["kernel"].val == "inside" else 1)
