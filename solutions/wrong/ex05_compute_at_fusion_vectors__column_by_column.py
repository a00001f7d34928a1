"""One column after the other: little memory and no recompute, but no locality."""

EXPECT = {"ex05.1": ("too-many-misses", 3.6), "ex05.2": ("fact:vectors", 1.2)}


def sliding(budget, img, *stages):
    *producers, out = stages
    s = te.create_schedule(out.op)
    y, x = s[out].op.axis
    s[out].reorder(x, y)
    for p in producers:
        s[p].store_at(s[out], x)
        s[p].compute_at(s[out], y)
    return s


def layer(budget, A, B, bias, *stages):
    C, *simple, R, D = stages
    s = te.create_schedule(D.op)
    for stage in simple:
        s[stage].compute_inline()
    block, _ = s[D].split(D.op.axis[0], factor=budget // (4 * (D.shape[1] + 1)))
    for stage in (C, R):
        s[stage].compute_at(s[D], block)
    return s
