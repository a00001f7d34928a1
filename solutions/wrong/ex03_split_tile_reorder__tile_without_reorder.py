"""Blocks and elements in them row by row; 16 by 16, which keeps no block long enough; one slip."""

EXPECT = {
    "ex03.1": ("wrong-order", 0),
    "ex03.2": ("too-many-misses", 2.1),
    "ex03.3": ("wrong-choice", 1.33),
}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    for rows, columns in sizes:
        _, _, i, j = s[B].tile(i, j, rows, columns)
    return s


def tiled(X, W, Y):
    s = te.create_schedule(Y.op)
    s[Y].tile(*s[Y].op.axis, 16, 16)
    return s


def swaps():
    return {"1": "d", "2": "a", "3": "c", "4": "b", "5": "b"}
