"""The blocks come in the right order, but inside of them rows come first; and no tiles."""

EXPECT = {"ex03.1": ("wrong-order", 0), "ex03.2": ("too-many-misses", 0)}


def blocks(A, B, rows, columns):
    s = te.create_schedule(B.op)
    io, jo, ii, ji = s[B].tile(*s[B].op.axis, rows, columns)
    s[B].reorder(io, jo, ii, ji)
    return s


def tiled(X, W, Y):
    """Another order alone: each row of X now meets W once for every row of W."""
    s = te.create_schedule(Y.op)
    i, j = s[Y].op.axis
    s[Y].reorder(j, i)
    return s
