"""Cells of notebook 12: iterations inside of each loop, and the highest scores."""

EXPECT = {"ex12.2": ("wrong-value", 0), "ex12.3": ("too-low", 1.6)}


def relation(extents, access, thresholds):
    inside = np.cumprod([*extents.values()][::-1])[::-1]
    touched = [*extents.values()]
    reuse = inside / touched
    curve = [
        max((y for x, y in zip(touched, reuse, strict=True) if x < t), default=0)
        for t in thresholds
    ]
    return touched, [float(y) for y in curve]


def batch(rows, scores, count, alpha):
    return np.argsort(-np.array(scores))[:count].tolist()
