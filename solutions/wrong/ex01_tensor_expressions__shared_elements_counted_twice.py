"""What each element reads, added up; windows that overlap are counted more than once.

And a convolution whose result is one row too short.
"""

EXPECT = {"ex01.1": ("wrong-shape", 0), "ex01.4": ("wrong-value", 0)}


def conv2d(data, weight, stride):
    channels, height, width = data.shape
    filters, _, kernel, _ = weight.shape
    c = te.reduce_axis((0, channels), name="c")
    dy = te.reduce_axis((0, kernel), name="dy")
    dx = te.reduce_axis((0, kernel), name="dx")
    return te.compute(
        (filters, (height - kernel) // stride, (width - kernel) // stride + 1),
        lambda f, y, x: te.sum(
            data[c, y * stride + dy, x * stride + dx] * weight[f, c, dy, dx], axis=[c, dy, dx]
        ),
        name="conv",
    )


def fetched(C, tile, before):
    counts = {}
    for sign, part in ((1, tile), (-1, before)):
        for point in product(*(range(start, start + extent) for start, extent in part)):
            for name, _ in reads(C, point):
                counts[name] = counts.get(name, 0) + sign
    return {name: max(0, n) for name, n in counts.items()}
