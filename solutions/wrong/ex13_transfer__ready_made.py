"""Means of numpy, the accuracy of minitvm with half as the bar, and rows with the mean options."""

from minitvm import tune

EXPECT = {
    "ex13.1": ("wrong-value", 0),
    "ex13.2": ("wrong-decision", 1.6),
    "ex13.3": ("too-slow-search", 0.5),
    "ex13.4": ("too-slow-search", 0),
}


def alike(tried, seconds, tables):
    pairs = [[name, float(np.mean([t for _, t in table]))] for name, table in tables.items()]
    return sorted(pairs, key=lambda pair: -pair[1])


def kept(scores, seconds):
    return bool(tune.pairwise_accuracy(np.array(scores), 1 / np.array(seconds)) > 0.5)


def first(tables, rows, count):
    mean = np.mean(rows, axis=0)
    order = np.argsort(np.abs(np.array(rows) - mean).sum(axis=1), kind="stable")
    return [rows[n] for n in order[:count]]


def tilings(options, tried, cycles, count):
    rows = [list(row) for row in itertools.product(*options)]
    return random.Random(len(tried)).sample([row for row in rows if row not in tried], count)
