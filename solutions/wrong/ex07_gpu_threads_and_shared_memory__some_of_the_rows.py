"""Leaves out some rows: fewer sectors, and wrong results."""

from minitvm import te

EXPECT = {"07.challenge": ("wrong-value", 0)}


def window_sums(X, Y):
    s = te.create_schedule(Y.op)
    block, thread = s[Y].split(s[Y].fuse(*Y.op.axis), factor=128)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(thread, te.thread_axis("threadIdx.x"))
    s[Y].set_store_predicate(block < 8)
    return s
