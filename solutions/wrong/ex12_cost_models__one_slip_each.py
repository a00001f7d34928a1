"""exp overflows; loops of a dimension multiply; only the last chosen candidate counts as seen."""

EXPECT = {"ex12.1": ("wrong-value", 3), "ex12.2": ("wrong-value", 2), "ex12.3": ("too-low", 1.6)}


def gradient(scores, seconds):
    scores, speeds = np.array(scores), min(seconds) / np.array(seconds)
    ahead = scores[:, None] - scores[None, :]
    weights = np.maximum(speeds[:, None] - speeds[None, :], 0)
    with np.errstate(all="ignore"):
        slopes = weights * np.exp(-ahead) / (1 + np.exp(-ahead))
    return (slopes.sum(axis=0) - slopes.sum(axis=1)).tolist()


def relation(extents, access, thresholds):
    touched, uses, inner, inside = [], [], [], 1
    for loop, extent in reversed(extents.items()):
        inner.append(loop)
        inside *= extent
        box = 1
        for dimension in access:
            for name in inner:
                box *= extents[name] if name in dimension else 1
        touched.insert(0, box)
        uses.append((box, inside / box))
    return touched, [max((u for box, u in uses if box < t), default=0) for t in thresholds]


def batch(rows, scores, count, alpha):
    chosen = []
    while len(chosen) < count:
        last = rows[chosen[-1]] if chosen else [-1] * len(rows[0])

        def added(n, last=last):
            return scores[n] + sum(
                w for w, a, b in zip(alpha, rows[n], last, strict=True) if a != b
            )

        chosen.append(max((n for n in range(len(rows)) if n not in chosen), key=added))
    return chosen
