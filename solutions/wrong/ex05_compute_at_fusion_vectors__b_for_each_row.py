"""The order i, k, j in a block: B is loaded for each of its rows."""

EXPECT = {"ex05.2": ("too-many-misses", 2.4)}


def layer(budget, A, B, bias, *stages):
    C, *simple, R, D = stages
    s = te.create_schedule(D.op)
    for stage in simple:
        s[stage].compute_inline()
    block, _ = s[D].split(D.op.axis[0], factor=budget // (4 * (D.shape[1] + 1)))
    for stage in (C, R):
        s[stage].compute_at(s[D], block)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(i, k, j)
    s[C].vectorize(j)
    return s
