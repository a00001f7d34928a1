"""The mean with a margin; A is copied as it lies; the rows of the tables side by side."""

EXPECT = {
    "ex06.1": ("wrong-value", 0),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:multiplies", 0.9),
}


def faster(before, after):
    return bool(np.mean(after) < 0.96 * np.mean(before))


def product(kind, registers, lanes, A, B, bias, C, D):
    rows, columns = 4, registers // 2 // 4 * lanes
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    io, jo, ii, ji = s[D].tile(*s[D].op.axis, rows, columns)
    s[D].reorder(jo, io, ii, ji)
    s[D].unroll(ii)
    s[D].vectorize(ji)
    s[C].compute_at(s[D], io)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(k, i, j)
    s[C].unroll(i)
    s[C].vectorize(j)

    def pack(factor, data, size, at):
        copy = s.cache_read(factor, "global", [C])
        s[copy].transform_layout(
            lambda y, x: ((y, x)[data] // size, (x, y)[data], (y, x)[data] % size)
        )
        s[copy].compute_at(s[D], at)

    pack(B, 0 if kind[1] == "t" else 1, columns, jo)
    panel = s.cache_read(A, "global", [C])
    s[panel].compute_at(s[D], io)
    return s


def sums(M, v, y):
    """Four rows r at a time; k is the axis whose neighbours lie side by side."""
    s = te.create_schedule(y.op)
    r, _ = s[y].op.reduce_axis
    _, ri = s[y].split(r, factor=4)
    partial = s.rfactor(y, ri, factor_axis=1)
    s[partial].compute_at(s[y], s[y].op.axis[0])
    i, lane = s[partial].op.axis
    s[partial].reorder(i, *s[partial].op.reduce_axis, lane)
    s[partial].vectorize(lane)
    return s
