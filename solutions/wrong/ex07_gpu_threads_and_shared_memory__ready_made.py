"""The library's own schedules: one thread for each element, and a product in tiles."""

from minitvm import topi

EXPECT = {"ex07.3": ("too-many-sectors", 0.8), "ex07.4": ("not-early", 1.0)}


def transpose(X, Y):
    return topi.schedule(Y, target="cuda -sim")


def product(A, B, C):
    return topi.schedule(C, target="cuda -sim")
