"""The smaller median is called faster, by however little; and a product that packs nothing."""

EXPECT = {
    "ex06.1": ("false-alarm", 0.6),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:partial", 0),
}


def faster(before, after):
    return bool(np.median(after) < np.median(before))


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
    return s


def sums(M, v, y):
    return te.create_schedule(y.op)
