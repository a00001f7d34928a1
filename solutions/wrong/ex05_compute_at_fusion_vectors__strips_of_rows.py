"""Strips of rows instead of columns, the wrong axis in vectors, and a strip twice too wide."""

EXPECT = {
    "ex05.1": ("too-much-memory", 0.9),
    "ex05.2": ("fact:vectors", 1.6),
    "ex05.3": ("too-much-memory", 0),
}


def sliding(img, blurx, out):
    s = te.create_schedule(out.op)
    strip, row = s[out].split(out.op.axis[0], nparts=2)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], row)
    return s


def layer(A, B, bias, C, S, D):
    """The loop around the store of D is in vectors, not the one around the sum."""
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    _, jo, _, ji = s[D].tile(*s[D].op.axis, 16, 16)
    s[D].vectorize(ji)
    s[C].compute_at(s[D], jo)
    return s


def fast(img, blurx, out):
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    strip, x = s[out].split(x, factor=1024)
    column, lane = s[out].split(x, factor=16)
    s[out].reorder(strip, y, column, lane)
    s[out].vectorize(lane)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], y)
    _, lane = s[blurx].split(s[blurx].op.axis[1], factor=16)
    s[blurx].vectorize(lane)
    return s
