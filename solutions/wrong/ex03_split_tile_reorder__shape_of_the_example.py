"""Two levels of blocks, as in the example, and every swap is allowed."""

EXPECT = {"ex03.1": ("wrong-order", 2), "ex03.3": ("wrong-choice", 0)}


def blocks(A, B, sizes):
    """Two levels, whatever was asked for."""
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    io, jo, i, j = s[B].tile(i, j, *sizes[0])
    ii, ji, i, j = s[B].tile(i, j, *sizes[-1])
    s[B].reorder(io, jo, ii, ji, j, i)
    return s


def swaps():
    return dict.fromkeys("12345", "a")
