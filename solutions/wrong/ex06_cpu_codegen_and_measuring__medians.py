"""The smaller median is called faster, by however little; and a product that packs nothing."""

EXPECT = {
    "ex06.1": ("false-alarm", 0.6),
    "ex06.2": ("fact:packed", 0),
    "ex06.3": ("fact:partial", 0),
}


def faster(before, after):
    return bool(np.median(after) < np.median(before))


def product(A, B, C):
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    _, jo, _, ji = s[C].tile(*s[C].op.axis, 4, 16)
    s[C].vectorize(ji)
    s[tile].compute_at(s[C], jo)
    i, j, k = s[tile].leaf_iter_vars
    s[tile].reorder(k, i, j)
    s[tile].unroll(i)
    s[tile].vectorize(j)
    return s


def sums(M, v, y):
    return te.create_schedule(y.op)
