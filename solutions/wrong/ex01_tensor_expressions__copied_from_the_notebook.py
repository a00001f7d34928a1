"""Cells of notebook 01, adapted as little as possible."""

from minitvm import viz

EXPECT = {
    "ex01.1": ("wrong-shape", 0),
    "ex01.2": ("wrong-shape", 0),
    "ex01.3": ("wrong-value", 0.6),
    "ex01.4": ("wrong-value", 0),
}


def conv2d(data, weight, stride):
    channels, height, width = data.shape
    filters, _, kernel, _ = weight.shape
    kc = te.reduce_axis((0, channels), name="kc")
    kx, ky = te.reduce_axis((0, kernel), name="kx"), te.reduce_axis((0, kernel), name="ky")
    return te.compute(
        (filters, height - kernel + 1, width - kernel + 1),
        lambda i, x, y: te.sum(data[kc, x + kx, y + ky] * weight[i, kc, kx, ky], axis=[kx, ky, kc]),
        name="out",
    )


def depthwise(data, weight, stride):
    channels, height, width = data.shape
    kernel = weight.shape[1]
    kc = te.reduce_axis((0, channels), name="kc")
    kx, ky = te.reduce_axis((0, kernel), name="kx"), te.reduce_axis((0, kernel), name="ky")
    return te.compute(
        (channels, height - kernel + 1, width - kernel + 1),
        lambda i, x, y: te.sum(data[kc, x + kx, y + ky] * weight[i, kx, ky], axis=[kx, ky, kc]),
        name="out",
    )


def softmax(X):
    n, m = X.shape
    j = te.reduce_axis((0, m), name="j")
    e = te.compute((n, m), lambda row, col: te.exp(X[row, col]), name="e")
    total = te.compute((n,), lambda row: te.sum(e[row, j], axis=j), name="total")
    return te.compute((n, m), lambda row, col: e[row, col] / total[row], name="share")


def fetched(C, tile, before):
    return {t.name: len(found) for t, found in viz.footprint(C, tile).items()}
