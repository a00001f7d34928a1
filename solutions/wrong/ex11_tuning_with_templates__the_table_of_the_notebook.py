"""Lists without a space; the best rows of a table that comes with minitvm."""

import itertools

EXPECT = {
    "ex11.1": ("wrong-type", 0),
    "ex11.2": ("too-slow", 1),
}


def space(rows, columns, lanes, registers):
    """The space: listed(space(96, 384, 8, 16)) = [[[-1, 8], [-1, 1, 8]], ...]."""
    found = []
    for y in (n for n in range(1, rows + 1) if rows % n == 0):
        for x in (n for n in range(lanes, columns + 1, lanes) if columns % n == 0):
            sums, vectors = y * (x // lanes), x // lanes
            if sums >= 8 and sums + vectors + 1 <= registers:
                blocks = (m for m in range(1, columns // x + 1) if columns // x % m == 0)
                found += [[[-1, y], [-1, m, x]] for m in blocks if m * x <= 256]
    return found


def propose(sizes, tried, seconds, count, seed):
    """Rows to measure next: propose([7, 2], [[0, 1]], [0.003], 2, 0) = [[1, 1], [4, 0]]."""
    table = tune.load_table("matmul")
    best = table.rows[np.argsort(table.measured)].tolist()
    lengths = [len(knob) for knob in table.knobs]
    order = np.argsort(np.argsort(sizes))  # the knob with most options is that of the table
    places = np.argsort(lengths)[-len(sizes) :][order]
    scaled = (
        [row[k] * n // lengths[k] for k, n in zip(places, sizes, strict=False)] for row in best
    )
    known, found = {tuple(row) for row in tried}, []
    for row in (*scaled, *itertools.product(*map(range, sizes))):
        if tuple(row) not in known and len(found) < count:
            known.add(tuple(row))
            found.append(list(row))
    return found
