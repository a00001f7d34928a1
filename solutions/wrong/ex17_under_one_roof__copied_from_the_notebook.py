"""Each step saves something, as with alpha 1; shifts without rounding and without a residual."""

EXPECT = {
    "ex17.1": ("wrong-value", 1.0),
    "ex17.2": ("wrong-value", 0),
}


def cheapest(costs, steps, start, alpha):
    path = [start]
    while better := [n for n in steps[path[-1]] if costs[n] < costs[path[-1]]]:
        path.append(min(better, key=costs.get))
    return path


def constants(bias, x, w, y, r):
    return [bias, 0, y - x - w]
