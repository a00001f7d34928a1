"""The network as it is; the weights as they are; one kernel each; offsets of zero."""

EXPECT = {
    "ex10.1": ("too-many", 0.75),
    "ex10.2": ("wrong-value", 0),
    "ex10.3": ("wrong-value", 0),
    "ex10.4": ("overlap", 0),
}


def simplified(text):
    return text


def fold(w, bias, gamma, beta, mean, variance, epsilon):
    return w, bias


def kernels(ops):
    return [[op] for op in ops]


def offsets(lives):
    return [0] * len(lives)
