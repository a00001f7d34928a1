"""The right tiles, in rows without a gap; the product has one tile of each, and waits for it."""

EXPECT = {"ex07.3": ("too-many-wavefronts", 2.0), "ex07.4": ("not-early", 1.0)}


def transpose(X, Y):
    s = te.create_schedule(Y.op)
    tile = s.cache_read(X, "shared", [Y])
    by, bx, i, j = s[Y].tile(*s[Y].op.axis, 32, 16)
    rest, tx = s[Y].split(s[Y].fuse(i, j), 32)
    _, ty = s[Y].split(rest, 8)
    bind(s[Y], by, bx, ty, tx)
    s[tile].compute_at(s[Y], bx)
    row, column = s[tile].op.axis
    bind(s[tile], s[tile].split(row, 8)[1], column)
    return s


def product(A, B, C, D):
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    shared = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    (by, y), (bx, x) = (s[D].split(axis, 32) for axis in s[D].op.axis)
    (ty, y), (tx, x) = s[D].split(y, 4), s[D].split(x, 4)
    s[D].reorder(by, bx, ty, tx, y, x)
    bind(s[D], by, bx, ty, tx)
    s[C].compute_at(s[D], tx)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], 8)
    s[C].reorder(ko, ki, *s[C].op.axis)
    for t in shared:
        s[t].compute_at(s[C], ko)
        bind(s[t], s[t].split(s[t].op.axis[0], 8)[1], s[t].op.axis[1])
    return s
