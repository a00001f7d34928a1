"""The library's own schedules."""

from minitvm import topi

EXPECT = {"ex03.1": ("wrong-order", 0), "ex03.2": ("fact:order", 0), "ex03.3": ("wrong-type", 0)}


def blocks(A, B, sizes):
    return topi.schedule(B)


def tiled(X, W, Y):
    return topi.schedule(Y)


def swaps():
    """An answer for some cases only."""
    return {"1": "d", "2": "a"}
