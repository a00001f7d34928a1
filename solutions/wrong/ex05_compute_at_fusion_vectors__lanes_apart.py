"""Vectors whose lanes are 64 columns apart: each lane needs another cache line."""

EXPECT = {"ex05.3": ("too-slow", 1.6)}


def fast(img, blurx, out):
    s = te.create_schedule(out.op)
    strip, x = s[out].split(s[out].op.axis[1], factor=512)
    lane, column = s[out].split(x, nparts=8)
    s[out].reorder(strip, s[out].op.axis[0], column, lane)
    s[out].vectorize(lane)
    s[blurx].store_at(s[out], strip)
    s[blurx].compute_at(s[out], s[out].op.axis[0])
    lane, column = s[blurx].split(s[blurx].op.axis[1], nparts=8)
    s[blurx].reorder(column, lane)
    s[blurx].vectorize(lane)
    return s
