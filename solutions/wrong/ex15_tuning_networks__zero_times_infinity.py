"""Tasks that are not called count; the higher guess; the last of equal gradients."""

EXPECT = {
    "ex15.1": ("wrong-value", 2.4),
    "ex15.2": ("wrong-value", 2.8),
    "ex15.3": ("wrong-value", 4.5),
    "ex15.5": ("wrong-value", 0),
}


def late(weights, bounds, latencies):
    """Seconds to be minimised: late([[2, 1]], [None], [0.001, 0.003]) = 0.005."""
    total = 0.0
    for row, bound in zip(weights, bounds, strict=True):
        g = sum(w * t for w, t in zip(row, latencies, strict=True))
        total += g if bound is None else 10 * max(0.0, g - bound)
    return total


def gradient(weight, history, flops, rates, alpha=0.2, beta=2.0, window=3):
    """Seconds per round: gradient(1, [0.004, 0.002], 1e6, []) = -0.0008."""
    now = history[-1]
    backward = (now - history[-1 - window]) / window if len(history) > window else 0.0
    forward = -now / len(history)
    if rates:
        best = max(flops / now, *rates)
        forward = max(forward, beta * flops / best - now)
    return weight * (alpha * backward + (1 - alpha) * forward)


def order(curves, weights, rounds, patience):
    """The task of each round: order([[3.0, 1.0], [2.0, 2.0]], [1, 1], 3, 5) = [0, 1, 0]."""
    count, chosen = [0] * len(curves), []

    def slope(n):
        past = curves[n][: count[n]]
        backward = (past[-1] - past[-4]) / 3 if len(past) > 3 else 0.0
        return weights[n] * (0.2 * backward - 0.8 * past[-1] / len(past))

    def alive(n):
        past = curves[n][: count[n]]
        stalled = len(past) > patience and past[-1] == past[-1 - patience]
        return len(past) < len(curves[n]) and not stalled

    while len(chosen) < rounds:
        living = [n for n in range(len(curves)) if alive(n)]
        if not living:
            break
        untried = [n for n in living if not count[n]]
        best = (
            max(untried, key=lambda n: weights[n])
            if untried
            else min(living, key=lambda n: (slope(n), -n))
        )
        count[best] += 1
        chosen.append(best)
    return chosen


def evolved(rows, table, draws):
    def score(row):
        return sum(points[n] for points, n in zip(table, row, strict=True))

    def parent(u, rows):
        left = u % sum(score(row) for row in rows)
        for row in rows:
            left -= score(row)
            if left < 0:
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
        rows = sorted(family[len(rows) :] + rows, key=score, reverse=True)[: len(rows)]
    return rows
