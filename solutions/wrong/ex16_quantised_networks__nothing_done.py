"""One, zeros, two bits for all."""

EXPECT = {
    "ex16.1": ("wrong-value", 0),
    "ex16.2": ("wrong-value", 0),
    "ex16.3": ("wrong-value", 0.5),
}


def best_top(values, steps):
    return 1.0


def parts(qx, qw, zx, zw):
    return [qx, qw, [0] * len(qx), [0] * len(qw[0]), 0]


def bits(sizes, errors, budget):
    return [2] * len(sizes)
