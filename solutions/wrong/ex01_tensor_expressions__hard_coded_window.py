"""Windows of 3 x 3 and a stride of 1 are written into the formulas."""

EXPECT = {"ex01.1": ("raises", 0), "ex01.2": ("raises", 0)}


def conv2d(data, weight, stride):
    assert weight.shape[2] == 3, "only windows of 3 x 3"
    return data


def depthwise(data, weight, stride):
    assert stride == 1, "only a stride of 1"
    return data
