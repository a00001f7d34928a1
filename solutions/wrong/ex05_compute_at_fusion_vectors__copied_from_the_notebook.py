"""Cells of notebook 05, adapted as little as possible: a wide window, a tile, wide strips."""

EXPECT = {
    "ex05.1": ("too-much-memory", 0.9),
    "ex05.2": ("fact:vectors", 1.6),
    "ex05.3": ("too-much-memory", 0),
}


def sliding(img, blurx, out):
    s = te.create_schedule(out.op)
    strip, row = s[out].split(s[out].op.axis[0], nparts=1)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], row)
    return s


def layer(A, B, bias, C, S, D):
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    i, j = s[D].op.axis
    _, jo, _, _ = s[D].tile(i, j, 4, 16)
    s[C].compute_at(s[D], jo)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(k, i, j)
    return s


def fast(img, blurx, out):
    s = te.create_schedule(out.op)
    strip, row = s[out].split(out.op.axis[0], factor=32)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], row)
    for stage in (blurx, out):
        _, xi = s[stage].split(s[stage].leaf_iter_vars[-1], factor=16)
        s[stage].vectorize(xi)
    return s
