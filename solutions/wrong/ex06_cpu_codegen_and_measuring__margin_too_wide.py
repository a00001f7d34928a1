"""So wide a margin that only the largest gains are seen; and packed, but without a vector."""

EXPECT = {"ex06.1": ("missed-gain", 2.55), "ex06.2": ("too-slow", 3)}


def faster(before, after):
    return min(after) < 0.8 * min(before)


def product(kind, registers, lanes, A, B, bias, C, D):
    rows, columns = 4, registers // 2 // 4 * lanes
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    io, jo, ii, ji = s[D].tile(*s[D].op.axis, rows, columns)
    s[D].reorder(jo, io, ii, ji)
    s[C].compute_at(s[D], io)

    def pack(factor, data, size, at):
        copy = s.cache_read(factor, "global", [C])
        s[copy].transform_layout(
            lambda y, x: ((y, x)[data] // size, (x, y)[data], (y, x)[data] % size)
        )
        s[copy].compute_at(s[D], at)

    pack(A, 1 if kind[0] == "t" else 0, rows, io)
    pack(B, 0 if kind[1] == "t" else 1, columns, jo)
    return s
