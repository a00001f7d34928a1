"""Counts every use of a block again; and one tile for both caches."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 4.3)}


def reuse_distance(trace, lines):
    found, last = [], {}
    for now, block in enumerate(trace):
        between = trace[last[block] + 1 : now] if block in last else []
        found.append(sum(lines[b] for b in between) if block in last else -1)
        last[block] = now
    return found


def choose(cache_bytes):
    return 96, 32, 24
