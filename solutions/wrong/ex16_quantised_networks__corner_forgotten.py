"""Three deviations, no product of both zero points, gains without costs, one bit."""

EXPECT = {
    "ex16.1": ("wrong-value", 0),
    "ex16.2": ("wrong-value", 2.5),
    "ex16.3": ("wrong-value", 0.5),
    "16.challenge": ("wrong-value", 0),
}


def best_top(values, steps):
    return float(3 * np.std(values))


def parts(qx, qw, zx, zw):
    b = [[w - 128 for w in row] for row in qw]
    rows = [-(zw - 128) * sum(row) for row in qx]
    columns = [-zx * sum(row[c] for row in b) for c in range(len(b[0]))]
    return [qx, b, rows, columns, 0]


def bits(sizes, errors, budget):
    chosen = [2] * len(sizes)
    for n in sorted(range(len(sizes)), key=lambda n: -errors[n][2]):
        for b in (3, 4, 6, 8):
            more = [b if k == n else c for k, c in enumerate(chosen)]
            if sum(s * c for s, c in zip(sizes, more, strict=True)) <= budget:
                chosen = more
    return chosen


def few_bits(sizes, tried, need):
    return [1] * len(sizes)
