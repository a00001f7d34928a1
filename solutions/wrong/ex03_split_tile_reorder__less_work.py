"""Stores only some rows: fewer misses, and wrong results."""

from minitvm import te

EXPECT = {"03.challenge": ("wrong-value", 0)}


def mirrored(A, B):
    s = te.create_schedule(B.op)
    s[B].set_store_predicate(B.op.axis[0] < 8)
    return s
