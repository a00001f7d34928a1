"""Leaves out most rows of the result: fewer misses, and wrong results."""

from minitvm import te

EXPECT = {"05.challenge": ("wrong-value", 0)}


def layers(A, B, C, P, E, F):
    s = te.create_schedule(F.op)
    s[F].set_store_predicate(F.op.axis[0] < 8)
    return s
