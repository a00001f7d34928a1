"""Rows of 33 numbers for tiles of 8: no conflict when they are read, four when they are stored."""

EXPECT = {"ex07.4": ("too-many-wavefronts", 3.2)}


def product(A, B, C):
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    shared = [s.cache_read(t, "shared", [local]) for t in (A, B)]
    registers = [s.cache_read(t, "local", [local]) for t in shared]
    (by, y), (bx, x) = (s[C].split(axis, 32) for axis in s[C].op.axis)
    (ty, y), (tx, x) = s[C].split(y, 4), s[C].split(x, 4)
    s[C].reorder(by, bx, ty, tx, y, x)
    bind(s[C], by, bx, ty, tx)
    s[local].compute_at(s[C], tx)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for t in registers:
        s[t].compute_at(s[local], ki)
    for t in shared:
        s[t].compute_at(s[local], ko)
        row, k = s[t].op.axis
        s[t].storage_align(row, 32, 1)
        bind(s[t], s[t].split(row, 8)[1], k)
        s[t].double_buffer()
    return s
