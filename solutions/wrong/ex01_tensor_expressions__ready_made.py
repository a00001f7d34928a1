"""The library's own operators, with the batch that they ask for; and tiles moved to the corner."""

from minitvm import topi

EXPECT = {
    "ex01.1": ("ready-made", 0),
    "ex01.2": ("ready-made", 0),
    "ex01.3": ("ready-made", 0),
    "ex01.4": ("wrong-value", 0),
}


def one_image(data, weight, stride, groups=1):
    image = te.compute((1, *data.shape), lambda _, c, y, x: data[c, y, x], name="image")
    out = topi.conv2d(image, weight, stride, groups=groups)
    return te.compute(out.shape[1:], lambda f, y, x: out[0, f, y, x], name="out")


def conv2d(data, weight, stride):
    return one_image(data, weight, stride)


def depthwise(data, weight, stride):
    c, n, _ = weight.shape
    filters = te.compute((c, 1, n, n), lambda c, _, y, x: weight[c, y, x], name="filters")
    return one_image(data, filters, stride, groups=c)


def softmax(X):
    return topi.softmax(X)


def fetched(C, tile, before):
    """All tiles begin at 0: range(extent) instead of range(start, start + extent)."""

    def read_by(part):
        points = product(*(range(extent) for _, extent in part))
        return set().union(*(reads(C, point) for point in points))

    now = read_by(tile)
    new = [name for name, _ in now - read_by(before)]
    return {name: new.count(name) for name, _ in now}
