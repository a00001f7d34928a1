"""The line of the notebook that keeps nothing: all filters inlined, out in vectors."""

EXPECT = {"ex05.3": ("fact:vectors", 0.8)}


def fast(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    _, x = s[out].op.axis
    for p in producers:
        s[p].compute_inline()
    _, lane = s[out].split(x, factor=16)
    s[out].vectorize(lane)
    return s
