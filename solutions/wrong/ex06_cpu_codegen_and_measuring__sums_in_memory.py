"""Never, unless it takes half the time; both factors packed, but the sums stay in memory."""

EXPECT = {"ex06.1": ("missed-gain", 0.6), "ex06.2": ("fact:registers", 2)}


def faster(before, after):
    return min(after) < 0.5 * min(before)


def product(A, B, C):
    s = te.create_schedule(C.op)
    strip, panel = s.cache_read(B, "global", [C]), s.cache_read(A, "global", [C])
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 16)
    s[C].reorder(jo, io, s[C].op.reduce_axis[0], ii, ji)
    s[strip].transform_layout(lambda k, j: (j // 16, k, j % 16))
    s[panel].transform_layout(lambda i, k: (i // 4, k, i % 4))
    s[strip].compute_at(s[C], jo)
    s[panel].compute_at(s[C], io)
    return s
