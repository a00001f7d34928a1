"""The start alone, and no shifts."""

EXPECT = {
    "ex17.1": ("wrong-value", 0),
    "ex17.2": ("wrong-value", 0),
}


def cheapest(costs, steps, start, alpha):
    return [start]


def constants(bias, x, w, y, r):
    return [bias, 0, 0]
