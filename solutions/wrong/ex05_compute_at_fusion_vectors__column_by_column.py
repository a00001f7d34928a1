"""One column after the other: little memory and no recompute, but no locality."""

EXPECT = {
    "ex05.1": ("too-many-misses", 3.6),
    "ex05.2": ("fact:vectors", 1.6),
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
