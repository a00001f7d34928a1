"""Inputs handed back, and no elements counted."""

EXPECT = {
    "ex01.1": ("wrong-shape", 0),
    "ex01.2": ("wrong-value", 0),
    "ex01.3": ("wrong-value", 0),
    "ex01.4": ("wrong-value", 0),
}


def conv2d(data, weight, stride):
    return data


def depthwise(data, weight, stride):
    channels, height, width = data.shape
    kernel = weight.shape[1]
    shape = (channels, (height - kernel) // stride + 1, (width - kernel) // stride + 1)
    return te.compute(shape, lambda c, y, x: data[c, y, x])


def softmax(X):
    return X


def fetched(C, tile, before):
    return {t.name: 0 for t in C.op.input_tensors}
