"""Looks back to the first use of a block instead of the last one."""

EXPECT = {"ex04.1": ("wrong-value", 0)}


def reuse_distance(trace, lines):
    found, first = [], {}
    for now, block in enumerate(trace):
        between = set(trace[first[block] + 1 : now]) - {block} if block in first else set()
        found.append(sum(lines[b] for b in between) if block in first else -1)
        first.setdefault(block, now)
    return found
