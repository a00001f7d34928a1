"""Ranks among all rows of a table; a deviation for 16 trials; a row twice; a row twice."""

EXPECT = {
    "ex13.1": ("wrong-value", 2.4),
    "ex13.2": ("wrong-decision", 3.2),
    "ex13.3": ("wrong-value", 0),
    "13.challenge": ("wrong-value", 0),
}


def alike(tried, seconds, tables):
    def ranks(values):
        values = np.array(values)
        more = (values[:, None] > values[None, :]).sum(axis=1)
        return more + (values[:, None] == values[None, :]).sum(axis=1) / 2

    found, mine = [], ranks(seconds)
    for name, table in tables.items():
        theirs = dict(
            zip((tuple(row) for row, _ in table), ranks([t for _, t in table]), strict=True)
        )
        both = [
            (m, theirs[tuple(r)]) for r, m in zip(tried, mine, strict=True) if tuple(r) in theirs
        ]
        if len(both) >= 8:
            found.append([name, float(np.corrcoef(*np.array(both).T)[0, 1])])
    return sorted(found, key=lambda pair: -pair[1])


def kept(scores, seconds):
    pairs = [(a, b) for a in range(len(scores)) for b in range(len(scores))]
    right = [scores[a] > scores[b] for a, b in pairs if seconds[a] < seconds[b]]
    return sum(right) / len(right) > 0.5 + 2 * 0.095


def first(tables, rows, count):
    return [rows[0]] * count


def search(tables, rows, tried, seconds, count, seed):
    return [rows[0]] * count
