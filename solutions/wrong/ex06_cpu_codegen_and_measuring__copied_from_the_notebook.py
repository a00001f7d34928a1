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
