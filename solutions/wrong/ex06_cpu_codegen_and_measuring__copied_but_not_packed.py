"""The mean with a margin; A is copied as it lies; the rows of the tables side by side."""

EXPECT = {
    "ex06.1": ("wrong-value", 0),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:multiplies", 0.9),
}


def faster(before, after):
    return bool(np.mean(after) < 0.96 * np.mean(before))


def product(A, B, C):
    target = tvm.Target()
    columns = target.vector_registers // 2 // 4 * target.lanes(C.dtype)
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    strip = s.cache_read(B, "global", [tile])
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, columns)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[tile].compute_at(s[C], io)
    i, j, r = s[tile].leaf_iter_vars
    s[tile].reorder(r, i, j)
    s[tile].unroll(i)
    s[tile].vectorize(j)
    s[strip].transform_layout(lambda k, j: (j // columns, k, j % columns))
    s[strip].compute_at(s[C], jo)
    s[strip].vectorize(s[strip].op.axis[1])
    panel = s.cache_read(A, "global", [tile])
    s[panel].compute_at(s[C], io)
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
