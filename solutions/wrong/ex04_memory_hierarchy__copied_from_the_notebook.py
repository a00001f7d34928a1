"""Cells of notebook 04: the library measures lines, not blocks; and tiles for another matrix."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 0.47)}


def reuse_distance(trace, lines):
    names = sorted(set(trace))
    return [int(n) for n in cachesim.reuse_distances([64 * names.index(name) for name in trace])]


def choose(cache_bytes):
    return 48, 16, 16
