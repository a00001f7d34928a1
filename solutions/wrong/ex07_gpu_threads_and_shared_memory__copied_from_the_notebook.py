"""Cells of notebook 07: its counters, its tile of 32 x 33 numbers, its product in tiles."""

EXPECT = {
    "ex07.1": ("raises", 0),
    "ex07.2": ("wrong-value", 0),
    "ex07.3": ("too-much-memory", 0.4),
    "ex07.4": ("too-many-wavefronts", 1.6),
}


def cost(space, elements):
    if space == "global":
        return len({i * 4 // 32 for i in elements})
    banks = {}
    for i in set(elements):
        banks.setdefault(i % 32, []).append(i)
    return max(len(words) for words in banks.values())


def race(steps):
    """The race that GridView shows in section 5: steps 2 and 5, counted from 1."""
    return 1, 4


def transpose(X, Y):
    s = te.create_schedule(Y.op)
    tile = s.cache_read(X, "shared", [Y])
    by, bx, i, tx = s[Y].tile(*Y.op.axis, 32, 32)
    i, ty = s[Y].split(i, 8)
    s[Y].reorder(by, bx, i, ty, tx)
    bind(s[Y], by, bx, ty, tx)
    s[tile].compute_at(s[Y], bx)
    row, column = s[tile].op.axis
    _, ty = s[tile].split(row, 8)
    bind(s[tile], ty, column)
    s[tile].storage_align(row, 32, 1)
    return s


def product(A, B, C, D, tile=32, depth=8, each=4):
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    shared = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    registers = [s.cache_read(t, "local", [C]) for t in shared]
    (by, y), (bx, x) = (s[D].split(axis, tile) for axis in s[D].op.axis)
    (ty, y), (tx, x) = s[D].split(y, each), s[D].split(x, each)
    s[D].reorder(by, bx, ty, tx, y, x)
    bind(s[D], by, bx, ty, tx)
    s[C].compute_at(s[D], tx)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], depth)
    s[C].reorder(ko, ki, *s[C].op.axis)
    for t in registers:
        s[t].compute_at(s[C], ki)
    for t in shared:
        s[t].compute_at(s[C], ko)
        (k, ty), (i, tx) = (s[t].split(axis, tile // each) for axis in s[t].op.axis)
        s[t].reorder(k, i, ty, tx)
        bind(s[t], ty, tx)
        s[t].double_buffer()
    return s
