"""The cheapest of all networks by breadth-first search; rounding to even by Python's round."""

EXPECT = {
    "ex17.1": ("wrong-value", 0),
    "ex17.2": ("wrong-value", 0),
}


def cheapest(costs, steps, start, alpha):
    paths, waiting = {start: [start]}, [start]
    for name in waiting:
        for after in steps[name]:
            if after not in paths:
                paths[after] = [*paths[name], after]
                waiting.append(after)
    return min(paths.values(), key=lambda path: costs[path[-1]])


def constants(bias, x, w, y, r):
    return [round(bias / 2 ** (y - x - w)) << y - x - w, 0, y - x - w]
