"""Reads like a blur, but the formula was changed to get along with less memory."""

EXPECT = {"ex05.1": ("wrong-type", 0)}


def sliding(img, blurx, out):
    h, w = out.shape
    return te.compute((h, w), lambda y, x: (blurx[y, x] + blurx[y + 1, x]) / 2, name="out")
