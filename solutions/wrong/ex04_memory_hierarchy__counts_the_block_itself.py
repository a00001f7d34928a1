"""The block itself is counted, so all distances are too large; and three equal blocks."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 0)}


def reuse_distance(trace, lines):
    found, last = [], {}
    for now, block in enumerate(trace):
        between = set(trace[last[block] : now]) if block in last else set()
        found.append(sum(lines[b] for b in between) if block in last else -1)
        last[block] = now
    return found


def choose(cache_bytes):
    side = int((cache_bytes / 4 / 3) ** 0.5)  # three blocks of side x side numbers fill the cache
    return side, side, side
