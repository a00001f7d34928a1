"""Nothing is at hand; an input that brings nothing new is left out; filters shared by channels."""

EXPECT = {"ex01.2": ("wrong-value", 0), "ex01.4": ("wrong-value", 0)}


def depthwise(data, weight, stride):
    channels, height, width = data.shape
    kernel = weight.shape[1]
    dy, dx = te.reduce_axis((0, kernel)), te.reduce_axis((0, kernel))
    return te.compute(
        (channels, (height - kernel) // stride + 1, (width - kernel) // stride + 1),
        lambda c, y, x: te.sum(
            data[c, y * stride + dy, x * stride + dx] * weight[0, dy, dx], axis=[dy, dx]
        ),
    )


def fetched(C, tile, before):
    def read_by(part):
        points = product(*(range(start, start + extent) for start, extent in part))
        return set().union(*(reads(C, point) for point in points))

    new = [name for name, _ in read_by(tile) - read_by(before)]
    return {name: new.count(name) for name in new}
