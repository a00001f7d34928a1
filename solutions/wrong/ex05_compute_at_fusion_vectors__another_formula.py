"""Reads like the filters, but the formula was changed to get along with less memory."""

EXPECT = {"ex05.1": ("wrong-type", 0)}


def sliding(budget, img, *stages):
    out = stages[-1]
    return te.compute(out.shape, lambda y, x: img[y, x], name="out")
