"""The tile has 8 columns on every machine."""

EXPECT = {"ex06.2": ("fact:registers", 2.4)}


def product(kind, registers, lanes, A, B, bias, C, D):
    rows, columns = 4, 8
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    io, jo, ii, ji = s[D].tile(*s[D].op.axis, rows, columns)
    s[D].reorder(jo, io, ii, ji)
    s[D].unroll(ii)
    s[D].vectorize(ji)
    s[C].compute_at(s[D], io)
    i, j, k = s[C].leaf_iter_vars
    s[C].reorder(k, i, j)
    s[C].unroll(i)
    s[C].vectorize(j)

    def pack(factor, data, size, at):
        copy = s.cache_read(factor, "global", [C])
        s[copy].transform_layout(
            lambda y, x: ((y, x)[data] // size, (x, y)[data], (y, x)[data] % size)
        )
        s[copy].compute_at(s[D], at)

    pack(A, 1 if kind[0] == "t" else 0, rows, io)
    pack(B, 0 if kind[1] == "t" else 1, columns, jo)
    return s
