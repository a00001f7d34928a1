"""The library's own operator, whose tag is removed."""

from minitvm import topi

EXPECT = {"ex00.1": ("ready-made", 0)}


def matmul(A, B):
    C = topi.matmul(A, B)
    object.__setattr__(C.op, "tag", "")
    return C
