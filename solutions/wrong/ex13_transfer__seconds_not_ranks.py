"""The correlation of seconds; a history that is always dropped."""

EXPECT = {
    "ex13.1": ("wrong-value", 0),
    "ex13.2": ("wrong-decision", 0),
}


def alike(tried, seconds, tables):
    found = []
    for name, table in tables.items():
        known = {tuple(row): t for row, t in table}
        both = [
            (t, known[tuple(row)])
            for row, t in zip(tried, seconds, strict=True)
            if tuple(row) in known and known[tuple(row)] < math.inf
        ]
        if len(both) >= 8:
            found.append([name, float(np.corrcoef(*np.array(both).T)[0, 1])])
    return sorted(found, key=lambda pair: -pair[1])


def kept(scores, seconds):
    return False
