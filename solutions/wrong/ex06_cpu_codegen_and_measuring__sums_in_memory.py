"""Never, unless it takes half the time; both factors packed, but the sums stay in memory."""

EXPECT = {"ex06.1": ("missed-gain", 0.6), "ex06.2": ("fact:registers", 1.8)}


def faster(before, after):
    return min(after) < 0.5 * min(before)


def product(kind, registers, lanes, A, B, bias, C, D):
    """A column of sums at a time, and all of C in memory before D is computed."""
    s = te.create_schedule(D.op)
    rows, columns = 4, registers // 2 // 4 * lanes
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, rows, columns)
    s[C].reorder(jo, io, s[C].op.reduce_axis[0], ii, ji)

    def pack(factor, data, size, at):
        copy = s.cache_read(factor, "global", [C])
        s[copy].transform_layout(
            lambda y, x: ((y, x)[data] // size, (x, y)[data], (y, x)[data] % size)
        )
        s[copy].compute_at(s[C], at)

    pack(A, 1 if kind[0] == "t" else 0, rows, io)
    pack(B, 0 if kind[1] == "t" else 1, columns, jo)
    return s
