"""All levels of rows are outside of all levels of columns."""

EXPECT = {"ex03.1": ("wrong-order", 0)}


def blocks(A, B, sizes):
    s = te.create_schedule(B.op)
    i, j = s[B].op.axis
    rows_outer, columns_outer = [], []
    for rows, columns in sizes:
        io, i = s[B].split(i, rows)
        jo, j = s[B].split(j, columns)
        rows_outer.append(io)
        columns_outer.append(jo)
    s[B].reorder(*rows_outer, *columns_outer, j, i)
    return s
