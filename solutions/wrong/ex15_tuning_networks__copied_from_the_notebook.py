"""Cells of notebook 15: the largest latency, the gradient without options, argmin."""

EXPECT = {
    "ex15.1": ("wrong-value", 0),
    "ex15.2": ("wrong-value", 0.8),
    "ex15.3": ("wrong-value", 0.5),
    "ex15.4": ("too-slow-search", 0),
    "ex15.5": ("wrong-value", 0),
}


def late(weights, bounds, latencies):
    """Seconds to be minimised: late([[2, 1]], [None], [0.001, 0.003]) = 0.005."""
    latency = [sum(w * g for w, g in zip(row, latencies, strict=True)) for row in weights]
    return max(latency)


def gradient(weight, history, flops, rates, alpha=0.2, beta=2.0, window=3):
    """Seconds per round: gradient(1, [0.004, 0.002], 1e6, []) = -0.0008."""
    backward = (history[-1] - history[0]) / 3
    hope = -history[-1] / len(history)
    if rates:
        best = max(rates)
        alike = 2 * flops / best - history[-1]
    else:
        alike = 0.0
    return weight * (0.2 * backward + 0.8 * min(hope, alike))


def order(curves, weights, rounds, patience):
    """The task of each round: order([[3.0, 1.0], [2.0, 2.0]], [1, 1], 3, 5) = [0, 1, 0]."""
    rest = sorted(range(len(curves)), key=lambda n: -weights[n] * curves[n][0])
    return [rest[n % len(rest)] for n in range(rounds)]


def choose(histories, weights):
    return max(range(len(histories)), key=lambda n: histories[n][-1])


def evolved(rows, table, draws):
    """The best rows are the parents, as in the notebook, and nothing is chosen by u."""

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
        for kind, _, *rest in generation:
            child = list(max(rows, key=score))
            if kind == "mutate":
                child[rest[0]] = rest[1]
            else:
                other = parent(rest[0], rows)
                child = [b if m else a for a, b, m in zip(child, other, rest[1], strict=True)]
            if child not in family:
                family.append(child)
        rows = sorted(family, key=score, reverse=True)[: len(rows)]
    return rows
