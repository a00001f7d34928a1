"""Cells of the notebooks: the loss in place of its slope, iterations inside, the best scores."""

EXPECT = {"ex12.1": ("wrong-value", 0), "ex12.2": ("wrong-value", 0), "ex12.3": ("too-low", 1.6)}


def gradient(scores, seconds):
    order = np.argsort(seconds)
    ahead = np.array(scores)[order][:, None] - np.array(scores)[order]
    return np.triu(np.logaddexp(0, -ahead), 1).sum(axis=1).tolist()


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
