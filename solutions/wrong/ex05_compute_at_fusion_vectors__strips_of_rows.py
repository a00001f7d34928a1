"""Strips of rows instead of columns, the wrong axis in vectors, and strips twice too wide."""

EXPECT = {
    "ex05.1": ("too-much-memory", 0),
    "ex05.2": ("fact:vectors", 1.2),
    "ex05.3": ("too-much-memory", 0),
}


def sliding(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    strip, row = s[out].split(out.op.axis[0], nparts=2)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], row)
    return s


def layer(budget, A, B, bias, *stages):
    """The loop around the store of D is in vectors, not the one around the sum."""
    C, *simple, R, D = stages
    s = te.create_schedule(D.op)
    for stage in simple:
        s[stage].compute_inline()
    block, _ = s[D].split(D.op.axis[0], factor=budget // (4 * (D.shape[1] + 1)))
    for stage in (C, R):
        s[stage].compute_at(s[D], block)
    _, lane = s[D].split(D.op.axis[1], factor=16)
    s[D].vectorize(lane)
    return s


def fast(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    rows = sum(1 << (p.shape[0] - out.shape[0]).bit_length() for p in producers)
    limit = budget // (4 * rows)
    width = 2 * max(w for w in range(16, limit + 1, 16) if out.shape[1] % w == 0)
    strip, column = s[out].split(x, factor=width)
    s[out].reorder(strip, y, column)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], y)
    for stage, inner in ((out, column), *((p, p.op.axis[1]) for p in producers)):
        _, lane = s[stage].split(inner, factor=16)
        s[stage].vectorize(lane)
    return s
