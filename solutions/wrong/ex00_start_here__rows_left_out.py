"""Leaves out most rows of the result: fewer misses, and wrong results."""

from minitvm import te

EXPECT = {"00.challenge": ("wrong-value", 0)}


def product(A, B, C):
    s = te.create_schedule(C.op)
    s[C].set_store_predicate(C.op.axis[0] < 8)
    return s
