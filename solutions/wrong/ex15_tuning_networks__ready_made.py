"""The objective f1 and the slopes of auto_scheduler; the slowest task in each round."""

EXPECT = {
    "ex15.1": ("wrong-value", 1.2),
    "ex15.2": ("wrong-value", 1.6),
    "ex15.3": ("wrong-value", 0),
    "ex15.4": ("too-slow-search", 0),
    "ex15.5": ("wrong-value", 0.8),
}


def late(weights, bounds, latencies):
    """Seconds to be minimised: late([[2, 1]], [None], [0.001, 0.003]) = 0.005."""
    from minitvm.auto_scheduler import objectives

    return objectives.total(weights)(latencies)


def gradient(weight, history, flops, rates, alpha=0.2, beta=2.0, window=3):
    """Seconds per round: gradient(1, [0.004, 0.002], 1e6, []) = -0.0008."""
    from minitvm.auto_scheduler import objectives

    now = objectives.Progress(history[-1], len(history), history[0], flops)
    return weight * objectives.slopes([now], [[]], alpha=alpha, beta=beta, window=window)[0]


def order(curves, weights, rounds, patience):
    """The task of each round: order([[3.0, 1.0], [2.0, 2.0]], [1, 1], 3, 5) = [0, 1, 0]."""
    count, chosen = [0] * len(curves), []
    for _ in range(rounds):
        slowest = max(range(len(curves)), key=lambda n: weights[n] * curves[n][count[n]])
        count[slowest] = min(count[slowest] + 1, len(curves[slowest]) - 1)
        chosen.append(slowest)
    return chosen


def choose(histories, weights):
    return max(range(len(histories)), key=lambda n: len(histories[n]))


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
                child = [a if m else b for a, b, m in zip(child, other, rest[1], strict=True)]
            if child not in family:
                family.append(child)
        rows = sorted(family, key=score, reverse=True)[: len(rows)]
    return rows
