"""Takes tiles whose rows and columns do not fit into the memory."""

EXPECT = {"01.challenge": ("too-much-memory", 0)}


def tiles(rows, columns, depth, memory):
    return [((0, rows), (j, 1)) for j in range(columns)]
