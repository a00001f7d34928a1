"""No block is ever used again; and no tiles."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 0)}


def reuse_distance(trace, lines):
    return [-1] * len(trace)


def choose(cache_bytes):
    return 96, 96, 96
