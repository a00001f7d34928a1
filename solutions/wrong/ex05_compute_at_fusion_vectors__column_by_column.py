"""One column after the other: little memory and no recompute, but no locality; and too narrow."""

EXPECT = {
    "ex05.1": ("too-many-misses", 3.6),
    "ex05.2": ("fact:vectors", 1.6),
    "ex05.3": ("too-slow", 2.6),
}


def sliding(img, blurx, out):
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    s[out].reorder(x, y)
    s[blurx].compute_at(s[out], x)
    return s


def layer(A, B, bias, C, S, D):
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    s[C].compute_at(s[D], s[D].op.axis[1])
    return s


def fast(img, blurx, out):
    """Strips of one vector: little memory, but each row of the image is another page."""
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    strip, lane = s[out].split(x, factor=8)
    s[out].reorder(strip, y, lane)
    s[out].vectorize(lane)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], y)
    s[blurx].vectorize(s[blurx].op.axis[1])
    return s
