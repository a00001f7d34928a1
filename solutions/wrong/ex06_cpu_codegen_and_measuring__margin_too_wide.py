"""So wide a margin that only the largest gains are seen; and packed, but without a vector."""

EXPECT = {"ex06.1": ("missed-gain", 2.55), "ex06.2": ("too-slow", 3)}


def faster(before, after):
    return min(after) < 0.8 * min(before)


def product(A, B, C):
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    strip = s.cache_read(B, "global", [tile])
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 16)
    s[C].reorder(jo, io, ii, ji)
    s[tile].compute_at(s[C], io)
    s[strip].transform_layout(lambda k, j: (j // 16, k, j % 16))
    s[strip].compute_at(s[C], jo)
    panel = s.cache_read(A, "global", [tile])
    s[panel].transform_layout(lambda i, k: (i // 4, k, i % 4))
    s[panel].compute_at(s[C], io)
    return s
