"""One round more than the window and than the patience are needed."""

EXPECT = {
    "ex15.2": ("wrong-value", 2.8),
    "ex15.3": ("wrong-value", 4),
    "ex15.4": ("wrong-type", 0),
    "ex15.5": ("wrong-value", 0),
}


def gradient(weight, history, flops, rates, alpha=0.2, beta=2.0, window=3):
    """Seconds per round: gradient(1, [0.004, 0.002], 1e6, []) = -0.0008."""
    now = history[-1]
    backward = (now - history[-1 - window]) / window if len(history) > window + 1 else 0.0
    forward = -now / len(history)
    if rates:
        best = max(flops / now, *rates)
        forward = min(forward, beta * flops / best - now)
    return weight * (alpha * backward + (1 - alpha) * forward)


def order(curves, weights, rounds, patience):
    """The task of each round: order([[3.0, 1.0], [2.0, 2.0]], [1, 1], 3, 5) = [0, 1, 0]."""
    count, chosen = [0] * len(curves), []

    def slope(n):
        past = curves[n][: count[n]]
        if not past:
            return -math.inf
        backward = (past[-1] - past[-4]) / 3 if len(past) > 3 else 0.0
        return weights[n] * (0.2 * backward - 0.8 * past[-1] / len(past))

    def alive(n):
        past = curves[n][: count[n]]
        stalled = len(past) - 1 > patience and past[-1] == past[-1 - patience]
        return len(past) < len(curves[n]) and not stalled

    while len(chosen) < rounds:
        living = [n for n in range(len(curves)) if alive(n)]
        if not living:
            break
        untried = [n for n in living if not count[n]]
        best = max(untried, key=lambda n: weights[n]) if untried else min(living, key=slope)
        count[best] += 1
        chosen.append(best)
    return chosen


def choose(histories, weights):
    return sorted(range(len(histories)), key=lambda n: -weights[n])


def evolved(rows, table, draws):
    def score(row):
        return sum(points[n] for points, n in zip(table, row, strict=True))

    def parent(u, rows):
        left = u % sum(score(row) for row in rows)
        for row in rows:
            left -= score(row)
            if left <= 0:
                return row
        return rows[-1]

    for generation in draws:
        family = list(rows)
        for kind, u, *rest in generation:
            child = list(parent(u, rows))
            if kind == "mutate":
                child[rest[0]] = rest[1]
            else:
                other = parent(rest[0], rows)
                child = [b if m else a for a, b, m in zip(child, other, rest[1], strict=True)]
            if child not in family:
                family.append(child)
        rows = sorted(family, key=score, reverse=True)[: len(rows)]
    return rows
