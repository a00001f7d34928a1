"""Rows of 33 numbers for tiles of 8: no conflict when they are read, four when they are stored."""

EXPECT = {"ex07.4": ("too-many-wavefronts", 3.2)}


def product(A, B, C, D):
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    shared = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    registers = [s.cache_read(t, "local", [C]) for t in shared]
    (by, y), (bx, x) = (s[D].split(axis, 32) for axis in s[D].op.axis)
    (ty, y), (tx, x) = s[D].split(y, 4), s[D].split(x, 4)
    s[D].reorder(by, bx, ty, tx, y, x)
    bind(s[D], by, bx, ty, tx)
    s[C].compute_at(s[D], tx)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], 8)
    s[C].reorder(ko, ki, *s[C].op.axis)
    for t in registers:
        s[t].compute_at(s[C], ki)
    for t in shared:
        s[t].compute_at(s[C], ko)
        row, k = s[t].op.axis
        s[t].storage_align(row, 32, 1)
        bind(s[t], s[t].split(row, 8)[1], k)
        s[t].double_buffer()
    return s
