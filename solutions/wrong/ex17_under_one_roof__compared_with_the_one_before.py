"""A step may be alpha times dearer than the network before; the residual is not shifted."""

EXPECT = {
    "ex17.1": ("wrong-value", 3.0),
    "ex17.2": ("wrong-value", 2.4),
}


def cheapest(costs, steps, start, alpha):
    came_from, best, queue = {start: None}, start, [(costs[start], start)]
    while queue:
        cost, name = heapq.heappop(queue)
        best = name if cost < costs[best] else best
        for after in steps[name]:
            if after not in came_from and costs[after] < alpha * cost:
                came_from[after] = name
                heapq.heappush(queue, (costs[after], after))
    path = [best]
    while came_from[path[0]] is not None:
        path.insert(0, came_from[path[0]])
    return path


def constants(bias, x, w, y, r):
    return [bias + (1 << y - x - w >> 1), 0, y - x - w]
