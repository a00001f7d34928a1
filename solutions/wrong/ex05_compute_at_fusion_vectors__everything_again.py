"""No memory at all, and everything computed again; a scalar at a time; vectors in one stage."""

EXPECT = {
    "ex05.1": ("too-much-recompute", 1.8),
    "ex05.2": ("too-much-memory", 0),
    "ex05.3": ("fact:vectors", 0.8),
}


def sliding(img, blurx, out):
    s = te.create_schedule(out.op)
    s[blurx].compute_inline()
    return s


def layer(A, B, bias, C, S, D):
    """S inlined, and C as it is."""
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    return s


def fast(img, blurx, out):
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    strip, x = s[out].split(x, factor=512)
    column, lane = s[out].split(x, factor=16)
    s[out].reorder(strip, y, column, lane)
    s[out].vectorize(lane)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], y)
    return s
