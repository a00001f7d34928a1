"""A tile that does not fit into the cache saves next to nothing, and the loops are no schedule."""

EXPECT = {"ex03.1": ("wrong-type", 0), "ex03.2": ("too-many-misses", 0.1)}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    s[B].tile(*s[B].op.axis, *sizes[0])
    return s.python()


def tiled(X, W, Y):
    s = te.create_schedule(Y.op)
    s[Y].tile(*s[Y].op.axis, 48, 48)
    return s
