"""Lines of 64 bytes instead of sectors; only writes race; each thread reads along its own row."""

EXPECT = {
    "ex07.1": ("wrong-value", 2.4),
    "ex07.2": ("wrong-value", 0),
    "ex07.3": ("too-many-sectors", 0.8),
    "ex07.4": ("too-many-sectors", 0.4),
}


def cost(space, elements):
    wanted = {n for n in elements if n is not None}
    if space == "global":
        return len({n // 16 for n in wanted})
    return max(sum(n % 32 == bank for n in wanted) for bank in range(32))


def race(steps):
    begin = 0
    for n, late in enumerate(steps):
        if len(late) == 1:
            begin = n + 1
            continue
        for m in range(begin, n):
            both = steps[m][1] == late[1] == "write"
            if both and steps[m][0] != late[0] and steps[m][2] == late[2]:
                return m, n
    return None


def transpose(X, Y):
    s = te.create_schedule(Y.op)
    i, j = Y.op.axis
    s[Y].bind(j, te.thread_axis("blockIdx.x"))
    s[Y].bind(i, te.thread_axis("threadIdx.x"))
    return s


def product(A, B, C, D):
    """One thread for each result: all numbers come from global memory, again and again."""
    s = te.create_schedule(D.op)
    s[C].set_scope("local")
    by, bx, ty, tx = s[D].tile(*s[D].op.axis, 8, 32)
    bind(s[D], by, bx, ty, tx)
    s[C].compute_at(s[D], tx)
    return s
