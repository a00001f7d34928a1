"""Constants; the first candidates."""

EXPECT = {
    "ex12.1": ("wrong-value", 0),
    "ex12.2": ("wrong-value", 0),
    "ex12.3": ("wrong-value", 0.8),
}


def gradient(scores, seconds):
    return [0.0 for _ in scores]


def relation(extents, access, thresholds):
    return [1 for _ in extents], [0 for _ in thresholds]


def batch(rows, scores, count, alpha):
    return [*range(count)]
