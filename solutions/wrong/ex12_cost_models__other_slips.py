"""Pairs are not weighted; a box may be as large as the threshold; a candidate is chosen twice."""

EXPECT = {"ex12.1": ("wrong-value", 0), "ex12.2": ("wrong-value", 2), "ex12.3": ("wrong-value", 0)}


def gradient(scores, seconds):
    scores, seconds = np.array(scores), np.array(seconds)
    ahead = scores[:, None] - scores[None, :]
    slopes = np.where(seconds[:, None] < seconds, np.exp(-np.logaddexp(0, ahead)), 0)
    return (slopes.sum(axis=0) - slopes.sum(axis=1)).tolist()


def relation(extents, access, thresholds):
    touched, uses, inner, inside = [], [], [], 1
    for loop, extent in reversed(extents.items()):
        inner.append(loop)
        inside *= extent
        box = 1
        for dimension in access:
            box *= 1 + sum(dimension.get(name, 0) * (extents[name] - 1) for name in inner)
        touched.insert(0, box)
        uses.append((box, inside / box))
    return touched, [max((u for box, u in uses if box <= t), default=0) for t in thresholds]


def batch(rows, scores, count, alpha):
    chosen, seen = [], [set() for _ in rows[0]]
    while len(chosen) < count:
        best = max(
            range(len(rows)),
            key=lambda n: (
                scores[n]
                + sum(w for w, o, s in zip(alpha, rows[n], seen, strict=True) if o not in s)
            ),
        )
        chosen.append(best)
        for option, known in zip(rows[best], seen, strict=True):
            known.add(option)
    return chosen
