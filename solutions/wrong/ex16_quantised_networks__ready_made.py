"""A quantile of numpy, a product of float64 without dot, and the most bits for small layers."""

EXPECT = {
    "ex16.1": ("wrong-value", 0),
    "ex16.2": ("wrong-value", 0),
    "ex16.3": ("wrong-value", 0.5),
}


def best_top(values, steps):
    return float(np.quantile(abs(np.array(values)), 0.99))


def parts(qx, qw, zx, zw):
    product = (np.array(qx) - zx) @ (np.array(qw) - zw)
    zeros = [[0] * len(qw[0]) for _ in qw]
    return [qx, zeros, product.sum(axis=1).tolist(), product.sum(axis=0).tolist(), 0]


def bits(sizes, errors, budget):
    chosen = [2] * len(sizes)
    for n in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        for b in (3, 4, 6, 8):
            more = [b if k == n else c for k, c in enumerate(chosen)]
            if sum(s * c for s, c in zip(sizes, more, strict=True)) <= budget:
                chosen = more
    return chosen
