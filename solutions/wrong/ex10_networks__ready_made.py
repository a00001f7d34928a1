"""Neighbours once; without epsilon; all in one kernel; memory of its own for each."""

EXPECT = {
    "ex10.1": ("too-many", 0.75),
    "ex10.2": ("wrong-value", 0),
    "ex10.3": ("wrong-value", 0),
    "ex10.4": ("too-large", 1),
}


def simplify(nodes, output):
    kept, gone = [], {}
    for name, op, inputs in nodes:
        given = [gone.get(n, n) for n in inputs]
        if op == "relu" and any(n == given[0] and o == "relu" for n, o, _ in kept):
            gone[name] = given[0]
        else:
            kept.append([name, op, given])
    return kept, gone.get(output, output)


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
