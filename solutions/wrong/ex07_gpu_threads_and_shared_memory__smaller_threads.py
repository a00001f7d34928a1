"""A block of one warp: the barrier is still there, and the tile of 32 x 32 is too large."""

EXPECT = {"ex07.3": ("too-much-memory", 0.4), "ex07.4": ("wrong-type", 0)}


def transpose(X, Y):
    s = te.create_schedule(Y.op)
    tile = s.cache_read(X, "shared", [Y])
    by, bx, _, tx = s[Y].tile(*s[Y].op.axis, 32, 32)
    s[Y].bind(by, te.thread_axis("blockIdx.y"))
    s[Y].bind(bx, te.thread_axis("blockIdx.x"))
    s[Y].bind(tx, te.thread_axis("threadIdx.x"))
    s[tile].compute_at(s[Y], bx)
    s[tile].bind(s[tile].op.axis[1], te.thread_axis("threadIdx.x"))
    return s


def product(A, B, C, D):
    return te.compute(D.shape, lambda y, x: A[y, 0] * B[x, 0], name="D")
