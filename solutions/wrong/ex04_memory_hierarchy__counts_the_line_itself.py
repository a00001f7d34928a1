"""The line itself is counted, so all distances are larger by one; and three equal blocks."""

EXPECT = {"ex04.1": "wrong-value", "ex04.2": "too-many-misses"}


def reuse_distance(trace):
    found, last = [], {}
    for now, line in enumerate(trace):
        found.append(len(set(trace[last[line] : now])) if line in last else -1)
        last[line] = now
    return found


def choose(cache_bytes):
    side = int((cache_bytes / 4 / 3) ** 0.5)  # three blocks of side x side numbers fill the cache
    return side, side, side
