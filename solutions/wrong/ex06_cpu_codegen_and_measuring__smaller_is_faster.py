"""The smaller of two minima wins, by whatever little; and lanes that are whole rows apart."""

EXPECT = {"ex06.1": ("false-alarm", 0.6), "ex06.3": ("fact:partial", 0)}


def faster(before, after):
    return min(after) < min(before)


def sums(M, v, y):
    s = te.create_schedule(y.op)
    io, ii = s[y].split(s[y].op.axis[0], factor=4)
    s[y].reorder(io, *s[y].op.reduce_axis, ii)
    s[y].vectorize(ii)
    return s
