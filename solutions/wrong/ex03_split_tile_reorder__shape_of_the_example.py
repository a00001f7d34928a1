"""The blocks of the example are written in, and every swap is allowed."""

EXPECT = {"ex03.1": ("wrong-order", 0), "ex03.3": ("wrong-choice", 0)}


def blocks(A, B, rows, columns):
    s = te.create_schedule(B.op)
    io, jo, ii, ji = s[B].tile(*s[B].op.axis, 2, 3)
    s[B].reorder(io, jo, ji, ii)
    return s


def swaps():
    return dict.fromkeys("12345", "a")
