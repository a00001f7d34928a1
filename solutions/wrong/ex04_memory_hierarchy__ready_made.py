"""The library's distances of all lines, of which a block gets its first; and cubes by rule."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 0)}


def reuse_distance(trace, lines):
    names = sorted(lines)
    used = [64 * (8 * names.index(block) + n) for block in trace for n in range(lines[block])]
    found, at, first = cachesim.reuse_distances(used), 0, []
    for block in trace:
        first.append(int(found[at]))
        at += lines[block]
    return first


def choose(cache_bytes):
    return (16, 16, 16) if cache_bytes == 4096 else (32, 32, 32)
