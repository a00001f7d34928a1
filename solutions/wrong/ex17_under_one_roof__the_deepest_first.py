"""The latest network is taken first, not the cheapest; the residual is shifted to the result."""

EXPECT = {
    "ex17.1": ("wrong-value", 2.0),
    "ex17.2": ("wrong-value", 2.4),
    "17.challenge": ("wrong-value", 0),
}


def cheapest(costs, steps, start, alpha):
    came_from, best, stack = {start: None}, start, [start]
    while stack:
        name = stack.pop()
        for after in steps[name]:
            if after not in came_from:
                came_from[after] = name
                best = after if costs[after] < costs[best] else best
                if costs[after] < alpha * costs[best]:
                    stack.append(after)
    path = [best]
    while came_from[path[0]] is not None:
        path.insert(0, came_from[path[0]])
    return path


def constants(bias, x, w, y, r):
    return [bias + (1 << y - x - w >> 1), 0 if r is None else y - r, y - x - w]


def design(area, tried):
    return {name: values[-1] for name, values in vta.SPACE.items()}
