"""Leaves out the last rows and columns, where a whole tile does not fit."""

EXPECT = {"01.challenge": ("wrong-value", 0)}


def tiles(rows, columns, depth, memory):
    side = memory // depth // 2
    firsts = [range(0, n - side + 1, side) for n in (rows - 1, columns - 1)]
    return [((i, side), (j, side)) for i in firsts[0] for j in firsts[1]]
