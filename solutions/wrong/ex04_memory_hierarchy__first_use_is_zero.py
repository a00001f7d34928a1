"""A line that was never used before gets the distance 0; and the tiles are no whole numbers."""

EXPECT = {"ex04.1": "wrong-value", "ex04.2": "wrong-type"}


def reuse_distance(trace):
    found = []
    for now, line in enumerate(trace):
        since = trace[:now][::-1]
        found.append(len(set(since[: since.index(line)])) if line in since else 0)
    return found


def choose(cache_bytes):
    side = (cache_bytes / 4 / 3) ** 0.5  # three blocks of side x side numbers fill the cache
    return side, side, side
