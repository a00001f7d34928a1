"""Vectors whose lanes are far apart: each lane needs another cache line."""

EXPECT = {"ex05.3": ("too-slow", 1.6)}


def fast(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    rows = sum(1 << (p.shape[0] - out.shape[0]).bit_length() for p in producers)
    limit = budget // (4 * rows)
    width = max(w for w in range(16, limit + 1, 16) if out.shape[1] % w == 0)
    strip, column = s[out].split(x, factor=width)
    s[out].reorder(strip, y, column)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], y)
    for stage, inner in ((out, column), *((p, p.op.axis[1]) for p in producers)):
        lane, rest = s[stage].split(inner, nparts=8)
        s[stage].reorder(rest, lane)
        s[stage].vectorize(lane)
    return s
