"""Cells of notebooks 05 and 06: a laboratory's verdict, B packed alone, the first axis cut."""

from minitvm import viz

EXPECT = {
    "ex06.1": ("missed-gain", 0.6),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:partial", 0),
}


def faster(before, after):
    found = viz.compare_times(before, after)
    return bool(found.shown and found.ratio > 1)


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
    return s


def sums(M, v, y):
    s = te.create_schedule(y.op)
    _, ri = s[y].split(s[y].op.reduce_axis[0], factor=8)
    partial = s.rfactor(y, ri, factor_axis=1)
    row = s[y].op.axis[0]
    s[partial].compute_at(s[y], row)
    s[partial].reorder(s[partial].op.reduce_axis[0], s[partial].op.axis[1])
    s[partial].vectorize(s[partial].op.axis[1])
    return s
