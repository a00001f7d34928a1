"""The vector of A is forgotten; equal scores count as right; the first run, not the least."""

EXPECT = {
    "ex11.1": ("forbidden", 1),
    "ex11.3": ("wrong-value", 2.1),
    "ex11.4": ("wrong-value", 1.2),
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
        return y * vectors + vectors <= registers and y * vectors >= 8

    cfg.multi_filter(fits)
    return cfg


def judged(scores, seconds):
    """(accuracy, loss): judged([2.0, 1.0], [1e-3, 2e-3]) = (1.0, 0.3132...)."""
    scores, seconds = np.array(scores), np.array(seconds)
    d = (scores[:, None] - scores[None, :])[seconds[:, None] < seconds[None, :]]
    return float(np.mean(d >= 0)), float(np.mean(np.logaddexp(0, -d)))


def diagnose(lines, task):
    """What a log tells: {"failures": {...}, "best": {...}, "knob": "..."}."""
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["task"] == task and not record["final"]:
            records.append(record)
    failures = {}
    for record in records:
        if record["error"]:
            failures[record["error"]] = failures.get(record["error"], 0) + 1
    good = [record for record in records if not record["error"]]
    best = min(good, key=lambda record: record["seconds"][0])["values"]

    def spread(knob):
        times = {}
        for record in good:
            option = json.dumps(record["values"][knob])
            times.setdefault(option, []).append(math.log(record["seconds"][0]))
        means = [np.mean(t) for t in times.values() if len(t) >= 5]
        return max(means) - min(means)

    return {"failures": failures, "best": best, "knob": max(best, key=spread)}
