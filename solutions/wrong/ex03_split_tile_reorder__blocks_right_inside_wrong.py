"""The blocks come in the right order, but inside of them rows come first; and no tiles."""

EXPECT = {"ex03.1": ("wrong-order", 0), "ex03.2": ("too-many-misses", 0)}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    outer = []
    for rows, columns in sizes:
        io, i = s[B].split(i, rows)
        jo, j = s[B].split(j, columns)
        outer += [io, jo]
    s[B].reorder(*outer, i, j)
    return s


def tiled(X, W, Y):
    """Another order alone: each row of X now meets W once for every row of W."""
    s = te.create_schedule(Y.op)
    i, j = s[Y].op.axis
    s[Y].reorder(j, i)
    return s
