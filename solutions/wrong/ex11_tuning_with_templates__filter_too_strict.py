"""Eight sums are too few; any row is a parent; equal times are pairs; final lines count."""

EXPECT = {
    "ex11.1": ("missing", 1),
    "ex11.2": ("too-slow", 4),
    "ex11.3": ("wrong-value", 0),
    "ex11.4": ("wrong-value", 1.6),
}


def space(rows, columns, lanes, registers):
    """The space: listed(space(96, 384, 8, 16)) = [[[-1, 8], [-1, 1, 8]], ...]."""
    cfg = autotvm.ConfigSpace()
    cfg.define_split("tile_y", rows, num_outputs=2)
    cfg.define_split(
        "tile_x",
        columns,
        num_outputs=3,
        filter=lambda e: e.size[2] % lanes == 0 and e.size[1] * e.size[2] <= 256,
    )

    def fits(c):
        y, vectors = c["tile_y"].size[1], c["tile_x"].size[2] // lanes
        return y * vectors + vectors + 1 <= registers and y * vectors > 8

    cfg.multi_filter(fits)
    return cfg


def propose(sizes, tried, seconds, count, seed):
    """Rows to measure next: propose([7, 2], [[0, 1]], [0.003], 2, 0) = [[1, 1], [4, 0]]."""
    rng = np.random.default_rng([seed, len(tried)])
    known = {tuple(row) for row in tried}
    parents = [tried[n] for n in np.argsort(seconds)]
    found = []
    while len(found) < count:
        row = [int(rng.integers(n)) for n in sizes]
        if len(tried) >= 24 and rng.random() > 0.1:
            parent = parents[int(rng.integers(len(parents)))]
            changed = rng.permutation(len(sizes))[: 2 if rng.random() < 0.3 else 1]
            row = [row[n] if n in changed else parent[n] for n in range(len(sizes))]
        if tuple(row) not in known:
            known.add(tuple(row))
            found.append(row)
    return found


def judged(scores, seconds):
    """(accuracy, loss): judged([2.0, 1.0], [1e-3, 2e-3]) = (1.0, 0.3132...)."""
    scores, seconds = np.array(scores), np.array(seconds)
    d = (scores[:, None] - scores[None, :])[seconds[:, None] <= seconds[None, :]]
    return float(np.mean((d > 0) + 0.5 * (d == 0))), float(np.mean(np.logaddexp(0, -d)))


def diagnose(lines, task):
    """What a log tells: {"failures": {...}, "best": {...}, "knob": "..."}."""
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["task"] == task:
            records.append(record)
    failures = {}
    for record in records:
        if record["error"]:
            failures[record["error"]] = failures.get(record["error"], 0) + 1
    good = [record for record in records if not record["error"]]
    best = min(good, key=lambda record: min(record["seconds"]))["values"]

    def spread(knob):
        times = {}
        for record in good:
            option = json.dumps(record["values"][knob])
            times.setdefault(option, []).append(math.log(min(record["seconds"])))
        means = [np.mean(t) for t in times.values() if len(t) >= 5]
        return max(means) - min(means)

    return {"failures": failures, "best": best, "knob": max(best, key=spread)}
