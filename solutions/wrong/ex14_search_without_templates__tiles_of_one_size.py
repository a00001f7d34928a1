"""Returns sizes whose product is not the extent."""

EXPECT = {"14.challenge": ("wrong-value", 0)}


def tiles(rows, columns, depth):
    return (8, 1, 1, 8), (32, 1, 1, 32), (16, 16)
