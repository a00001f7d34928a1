"""Loops are split, but stay where they are, so the order is the old one; and a list of letters."""

EXPECT = {
    "ex03.1": ("wrong-order", 0),
    "ex03.2": ("too-many-misses", 0),
    "ex03.3": ("wrong-type", 0),
}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    for rows, columns in sizes:
        _, i = s[B].split(i, factor=rows)
        _, j = s[B].split(j, factor=columns)
    return s


def tiled(X, W, Y):
    s = te.create_schedule(Y.op)
    i, j = s[Y].op.axis
    s[Y].split(i, factor=16)
    s[Y].split(j, factor=16)
    return s


def swaps():
    return ["d", "a", "c", "b", "a"]
