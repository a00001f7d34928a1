"""The fastest line of the notebook's table that keeps nothing: blurx is inlined, out in vectors."""

EXPECT = {"ex05.3": ("fact:vectors", 0.8)}


def fast(img, blurx, out):
    s = te.create_schedule(out.op)
    s[blurx].compute_inline()
    _, lane = s[out].split(s[out].leaf_iter_vars[-1], factor=16)
    s[out].vectorize(lane)
    return s
