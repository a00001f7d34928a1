"""A block that was never used before gets the distance 0; and the tiles are no whole numbers."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("wrong-type", 0)}


def reuse_distance(trace, lines):
    found, last = [], {}
    for now, block in enumerate(trace):
        between = set(trace[last[block] + 1 : now]) if block in last else set()
        found.append(sum(lines[b] for b in between))
        last[block] = now
    return found


def choose(cache_bytes):
    side = (cache_bytes / 4 / 3) ** 0.5  # three blocks of side x side numbers fill the cache
    return side, side, side
