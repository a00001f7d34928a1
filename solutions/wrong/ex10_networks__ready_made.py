"""simplify of the library; without epsilon; all in one kernel; memory of its own for each."""

EXPECT = {
    "ex10.1": ("too-many", 0.75),
    "ex10.2": ("wrong-value", 0),
    "ex10.3": ("wrong-value", 0),
    "ex10.4": ("too-large", 1),
}


def simplified(text):
    return str(graph.optimized(graph.parse(text), passes=graph.PASSES[:1]))


def fold(w, bias, gamma, beta, mean, variance, epsilon):
    factor = gamma / np.sqrt(variance)
    return w * factor[:, None, None, None], (bias - mean) * factor + beta


def kernels(ops):
    return [list(ops)]


def offsets(lives):
    found, end = [], 0
    for _, _, size in lives:
        found.append(end)
        end += size
    return found
