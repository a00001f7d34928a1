"""Cells of notebook 03: its blocks in their order, and cubes of the best size there."""

EXPECT = {
    "ex03.1": ("wrong-order", 0),
    "ex03.2": ("too-many-misses", 2.1),
    "ex03.3": ("wrong-choice", 0),
}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    io, jo, ii, ji = s[B].tile(i, j, *sizes[0])
    s[B].reorder(jo, io, ji, ii)
    return s


def tiled(X, W, Y):
    s = te.create_schedule(Y.op)
    i, j = s[Y].op.axis
    s[Y].tile(i, j, Y.op.reduce_axis[0], 8, 8, 8)
    return s


def swaps():
    return dict.fromkeys("12345", "b")
