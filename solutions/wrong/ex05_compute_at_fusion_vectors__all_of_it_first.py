"""Every stage as a whole, one after the other: vectors, but all that is between goes to memory."""

EXPECT = {"ex05.1": ("too-much-memory", 0), "ex05.2": ("too-much-memory", 0)}


def sliding(img, blurx, out):
    return te.create_schedule(out.op)


def layer(A, B, bias, C, S, D):
    s = te.create_schedule(D.op)
    s[S].compute_inline()
    i, j = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(i, jo, k, ji)
    s[C].vectorize(ji)
    return s
