"""Cells of notebook 05, hardly adapted: one window, one product in a tile, wide strips."""

EXPECT = {
    "ex05.1": ("too-much-memory", 0),
    "ex05.2": ("refused", 0),
    "ex05.3": ("too-much-memory", 0),
}


def sliding(budget, img, *stages):
    out, blurx = stages[-1], stages[0]
    s = te.create_schedule(out.op)
    strip, row = s[out].split(s[out].op.axis[0], nparts=1)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], row)
    return s


def layer(budget, A, B, bias, *stages):
    C, *simple, _, D = stages
    s = te.create_schedule(D.op)
    for stage in simple:
        s[stage].compute_inline()
    i, j = s[D].op.axis
    _, jo, _, _ = s[D].tile(i, j, 4, 16)
    s[C].compute_at(s[D], jo)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(k, i, j)
    return s


def fast(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    strip, row = s[out].split(out.op.axis[0], factor=32)
    for p in producers:
        s[p].store_at(s[out], strip)
        s[p].compute_at(s[out], row)
    for stage in stages:
        _, xi = s[stage].split(s[stage].leaf_iter_vars[-1], factor=16)
        s[stage].vectorize(xi)
    return s
