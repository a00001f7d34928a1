"""Proposes the fastest row again and again."""

EXPECT = {"11.challenge": ("wrong-value", 0)}


def search(sizes, tried, seconds, count, seed):
    best = tried[seconds.index(min(seconds))] if tried else [0] * len(sizes)
    return [list(best) for _ in range(count)]
