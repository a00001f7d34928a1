"""Looks back to the first use of a line instead of the last one."""

EXPECT = {"ex04.1": "wrong-value"}


def reuse_distance(trace):
    first = {}
    found = []
    for now, line in enumerate(trace):
        found.append(len(set(trace[first[line] + 1 : now]) - {line}) if line in first else -1)
        first.setdefault(line, now)
    return found
