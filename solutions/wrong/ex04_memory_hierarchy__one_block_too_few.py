"""One block too few is counted; and the best tile of the notebook for its larger cache."""

EXPECT = {"ex04.1": ("wrong-value", 0), "ex04.2": ("too-many-misses", 1.5)}


def reuse_distance(trace, lines):
    found, last = [], {}
    for now, block in enumerate(trace):
        between = set(trace[last[block] + 1 : now - 1]) if block in last else set()
        found.append(sum(lines[b] for b in between) if block in last else -1)
        last[block] = now
    return found


def choose(cache_bytes):
    return 48, 48, 8
