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


def product(A, B, C):
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    shared = [s.cache_read(t, "shared", [local]) for t in (A, B)]
    (by, y), (bx, x) = (s[C].split(axis, 32) for axis in s[C].op.axis)
    (ty, y), (tx, x) = s[C].split(y, 4), s[C].split(x, 4)
    s[C].reorder(by, bx, ty, tx, y, x)
    bind(s[C], by, bx, ty, tx)
    s[local].compute_at(s[C], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for t in shared:
        s[t].compute_at(s[local], ko)
        bind(s[t], s[t].split(s[t].op.axis[0], 8)[1], s[t].op.axis[1])
    return s
