"""An empty list, a history that is always kept, the first rows."""

EXPECT = {
    "ex13.1": ("wrong-value", 0),
    "ex13.2": ("wrong-decision", 1.2),
    "ex13.3": ("too-slow-search", 0.5),
    "ex13.4": ("too-slow-search", 0),
}


def alike(tried, seconds, tables):
    return []


def kept(scores, seconds):
    return True


def first(tables, rows, count):
    return rows[:count]


def tilings(options, tried, cycles, count):
    rows = (list(row) for row in itertools.product(*options))
    return [row for row in rows if row not in tried][:count]
