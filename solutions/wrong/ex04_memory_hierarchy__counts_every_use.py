"""Counts uses instead of lines; and one tile for both caches."""

EXPECT = {"ex04.1": "wrong-value", "ex04.2": "too-many-misses"}


def reuse_distance(trace):
    found, last = [], {}
    for now, line in enumerate(trace):
        found.append(now - last[line] - 1 if line in last else -1)
        last[line] = now
    return found


def choose(cache_bytes):
    return 96, 32, 24
